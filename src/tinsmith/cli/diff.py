"""The verb `tinsmith diff`: whether two runs are equal, and where they first differ if not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.lab.difference.runs import Comparison

AsJson = Annotated[bool, typer.Option("--json", help="Print all that was found as JSON.")]


def diff(
    first: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    second: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of another.")],
    as_json: AsJson = False,
) -> None:
    """Say whether two runs are equal bit for bit (exit 0), or where they first differ, and by how much (exit 1)."""
    from tinsmith.lab.difference.runs import compare_runs

    found = compare_runs((first, second))
    tell(found, as_json=as_json)
    if not found.equal:
        raise typer.Exit(code=1)


def tell(found: Comparison, *, as_json: bool, **more: object) -> None:
    """Print a comparison; `more` goes into the JSON."""
    import json

    from tinsmith.lab.difference.words import comparison_json, comparison_lines

    if as_json:
        print(visible(json.dumps({**comparison_json(found), **more}, indent=1, ensure_ascii=False)))
        return
    for line in comparison_lines(found):
        print(visible(line))
