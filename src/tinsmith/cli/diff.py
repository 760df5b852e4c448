"""The verbs `tinsmith diff` and `tinsmith replay`: where two runs, or a run and its repetition, first differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.cli.named_folders import HereKeys, Run, here_keys, run_folders
from tinsmith.types import waits
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.lab.difference.runs import Comparison

AsJson = Annotated[bool, typer.Option("--json", help="Print all results as JSON.")]


def diff(first: Run, second: Run, as_json: AsJson = False) -> None:
    """Say whether two runs are equal bit for bit (exit 0), or where they first differ, and by how much (exit 1)."""
    from tinsmith.lab.bundle.archive import folders_of
    from tinsmith.lab.difference.runs import compare_runs

    with folders_of((first, second)) as folders:
        found = compare_runs((folders[0], folders[1]))
    tell(found, as_json=as_json)
    if not found.equal:
        raise typer.Exit(code=1)


def tell(found: Comparison, *, as_json: bool, **more: object) -> None:
    """Print a comparison; `more` goes into the JSON."""
    import json

    from tinsmith.lab.difference.runs import comparison_json, comparison_lines

    if as_json:
        print(visible(json.dumps({**comparison_json(found), **more}, indent=1, ensure_ascii=False)))
        return
    for line in comparison_lines(found):
        print(visible(line))


def replay(
    folder: Run,
    changes: HereKeys = None,
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="Repeat only the first N steps.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the replay. Default: beside the run, kept only if it differs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a run again from its manifest and compare: exit 0 where it is equal bit for bit, 1 where it is not."""
    with run_folders([folder]) as (place,):  # before what is heavy is imported
        with waits.loading():
            from tinsmith.cli.registered import SUBJECTS, plan_of
            from tinsmith.lab.experiment.replay import replay as run

        here, beside = here_keys(changes), folder.absolute().parent
        done = run(place, SUBJECTS, plan_of, steps=steps, out=out, say=waits.tell, here=here, beside=beside)
    kept = None if done.folder is None else str(done.folder)
    seconds = {"original_s": done.original_s, "replay_s": done.replay_s}
    tell(done.comparison, as_json=as_json, replay=kept, **seconds)
    if not as_json:
        ratio = f" ({done.replay_s / done.original_s:.2f}x)" if done.original_s else ""
        print(f"time: {done.original_s:.1f} s then, {done.replay_s:.1f} s now{ratio}")
        if kept is not None:
            print(f"the replay is in {kept}")
    if not done.comparison.equal:
        raise typer.Exit(code=1)
