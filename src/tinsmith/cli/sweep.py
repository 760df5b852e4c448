"""The verb `tinsmith sweep`: one factor at a time from a reference cell, and what each changes of the bits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.studies.bits.cells import Factor
    from tinsmith.studies.bits.results import CellResult, Sweep


def sweep(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where sweep.json and sweep.html are written.")],
    factors: Annotated[
        list[str] | None, typer.Argument(metavar="[factor=v1,v2 ...]", help="What to vary. Default: everything.")
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="FACTOR,FACTOR", help="Vary these two together as well. Repeatable.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(metavar="FACTOR=VALUE", help="A value of the reference cell. Repeatable.")
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME=PATH", help="The base: a folder, or a built-in name.")
    ] = "tinsmith/nano",
    completions: Annotated[
        int, typer.Option(min=2, help="How many completions of the prompt to draw at each temperature.")
    ] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print sweep.json.")] = False,
) -> None:
    """Vary what may change bits, and say what does: exit 1 if a promise is broken or a deliberate fault is not seen."""
    import json

    from tinsmith.studies.bits.cells import Wish, plan

    name, _, path = model.partition("=")
    wish = Wish(
        factors={factor: values.split(",") for factor, values in map(_setting, factors or ())},
        together=[[_factor(each) for each in text.split(",")] for text in pair or ()],
        reference=[_setting(text) for text in reference or ()],
    )
    planned = plan(wish)  # a mistake is told before what is heavy is imported
    from tinsmith.studies.bits.outcome import Size
    from tinsmith.studies.bits.study import SweepSettings, sweep_json
    from tinsmith.studies.bits.study import sweep as run

    settings = SweepSettings(plan=planned, out=out, name=name, model=path or name, size=Size(completions=completions))
    done = run(settings, _progress(len(settings.plan.variations)))
    if as_json:
        print(visible(json.dumps(sweep_json(done), indent=1, ensure_ascii=False)))
    else:
        _print(done, out)
    if done.wrong:
        raise typer.Exit(code=1)


class _progress:
    """Says of each cell that it is done, on standard error."""

    def __init__(self, count: int) -> None:
        self._count, self._done = count, 0

    def __call__(self, cell: CellResult) -> None:
        self._done += 1
        told = f"{self._done}/{self._count} {cell.title}: {cell.verdict.value}"
        print(visible(f"{told} ({cell.seconds:.1f} s)"), file=sys.stderr, flush=True)


def _print(done: Sweep, out: Path) -> None:
    from tinsmith.cli.columns import open_console
    from tinsmith.studies.bits.page import LEGEND, sweep_table
    from tinsmith.studies.bits.results import SWEEP_JSON, SWEEP_PAGE, story

    console = open_console()
    console.print(sweep_table(done))
    for line in (LEGEND, "", *story(done)):
        console.print(visible(line), markup=False, highlight=False)
    for cell in done.cells:
        if cell.unavailable is not None:
            print(visible(f"not available here: {cell.title}: {cell.unavailable}"))
    print(f"wrote {out / SWEEP_JSON} and {out / SWEEP_PAGE}")


def _setting(text: str) -> tuple[Factor, str]:
    """Split FACTOR=VALUE.

    Raises:
        ConfigError: there is no value, or no such factor.
    """
    from tinsmith.types.errors import ConfigError

    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ConfigError("a factor needs values, as in threads=1,2", field=name, value=text, allowed="factor=v1,v2")
    return _factor(name), value


def _factor(name: str) -> Factor:
    from tinsmith.studies.bits.cells import Factor
    from tinsmith.types.errors import ConfigError

    try:
        return Factor(name)
    except ValueError:
        raise ConfigError("a sweep has no such factor", field="factor", value=name, allowed=", ".join(Factor)) from None
