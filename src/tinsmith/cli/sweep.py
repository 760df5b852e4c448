"""The verb `tinsmith sweep`: one factor at a time from a reference cell, and what each changes of the bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from tinsmith.cli.columns import AsJson, print_json
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell, ticking

if TYPE_CHECKING:
    from tinsmith.studies.bits.measures import CellResult


def sweep(
    out: Annotated[Path, Option(metavar="DIR", help="Folder for sweep.json and sweep.html.")],
    factors: Annotated[
        list[str] | None,
        Argument(metavar="[factor=v1,v2 ...]", help="Factors to vary, with their values. Default: all factors."),
    ] = None,
    pair: Annotated[
        list[str] | None, Option(metavar="FACTOR,FACTOR", help="Vary these two together as well. Repeatable.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        Option(metavar="FACTOR=VALUE", help="Value of the reference cell, such as threads=1. Repeatable."),
    ] = None,
    model: Annotated[
        str, Option(metavar="NAME=PATH", help="Base model: a folder, or a built-in name.")
    ] = "tinsmith/nano",
    completions: Annotated[int, Option(min=2, help="Number of completions of the prompt at each temperature.")] = 32,
    as_json: AsJson = False,
) -> None:
    """Vary what may change bits, and say what does: exit 1 if a promise is broken or a deliberate fault is not seen."""
    from tinsmith.studies.bits.cells import Size, plan

    name, _, path = model.partition("=")
    planned = plan(
        {factor: values.split(",") for factor, values in map(_setting, factors or ())},
        [[_factor(each) for each in text.split(",")] for text in pair or ()],
        tuple(_setting(text) for text in reference or ()),
    )  # a mistake is refused before what is heavy is imported
    with loading():
        from tinsmith.cli.columns import open_console
        from tinsmith.studies.bits import study
        from tinsmith.studies.bits.study import LEGEND, story, sweep_table

    done_cells = 0

    def say(cell: CellResult) -> None:
        nonlocal done_cells
        done_cells += 1
        text = f"{done_cells}/{len(planned)} {cell.title}: {cell.verdict.value} ({cell.seconds:.1f} s)"
        tell(text)

    with ticking(lambda: f"{done_cells}/{len(planned)} cells"):
        done = study.sweep(planned, out, say, name=name, model=path or name, size=Size(completions=completions))
    if as_json:
        print_json(study.sweep_json(done))
    else:
        console = open_console()
        console.print(sweep_table(done))
        for line in (LEGEND, "", *story(done)):
            console.print(visible(line), markup=False, highlight=False)
        for cell in done.cells:
            if cell.unavailable is not None:
                print(visible(f"not available here: {cell.title}: {cell.unavailable}"))
        print(f"wrote {out / study.SWEEP_JSON} and {out / study.SWEEP_PAGE}")
    if done.wrong:
        raise typer.Exit(code=1)


def _setting(text: str) -> tuple[str, str]:
    from tinsmith.types.errors import ConfigError

    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ConfigError("a factor needs values, as in threads=1,2", field=name, value=text, allowed="factor=v1,v2")
    return _factor(name), value


def _factor(name: str) -> str:
    from tinsmith.studies.bits.cells import FACTORS
    from tinsmith.types.errors import ConfigError

    if name not in FACTORS:
        raise ConfigError("there is no such factor", field="factor", value=name, allowed=FACTORS)
    return name
