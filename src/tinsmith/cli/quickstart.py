"""The verb `tinsmith quickstart`: papers, a base model, SFT and three rewards, and one page that says what happened."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument, Option

from tinsmith.cli.columns import Open, tell_page
from tinsmith.cli.completion import complete_keys
from tinsmith.cli.run import changed_keys
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, ticking

if TYPE_CHECKING:
    from tinsmith.lab.study.sizes import Cell

AUDITED: Final = {"save_every": "1"}
"""Keys of the run that pays for macro-F1, at its smallest size: an audit of drawn steps computes those alone."""


def quickstart(
    changes: Annotated[
        list[str] | None,
        Argument(metavar="key=value ...", help="Keys for every run, such as data=SLICE.", autocompletion=complete_keys),
    ] = None,
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the runs and compare.html.")] = Path("out/quickstart"),
    opened: Open = False,
) -> None:
    """Run the study in small: a base model, SFT, three rewards and a control, and one page that compares them.

    Without data=SLICE a synthetic world of 30,000 papers is built, whose labels come from its citation graph.
    With ray=local, or the address of a Ray, the runs are that Ray's tasks.
    """
    given = changed_keys(changes or [], listed_by="tinsmith run remedy/exp6 --help lists the keys")
    with loading():
        from tinsmith.cli.columns import open_console
        from tinsmith.lab.experiment.key_text import truth
        from tinsmith.lab.live.progress import minutes_now, other_work
        from tinsmith.lab.page.report import COMPARISON, compare
        from tinsmith.lab.papers.run_data import BASE_MINUTES, minutes
        from tinsmith.lab.study.cells import runner, seconds_of, shared_cores, side_by_side
        from tinsmith.lab.study.keys import CLUSTER_KEYS, asked_cluster
        from tinsmith.ops.extension import physical_cores
        from tinsmith.pages.page import document_html, ending, write

    began = time.perf_counter()

    def say(message: str) -> None:
        print(visible(f"[{time.perf_counter() - began:4.0f} s] {message}"), flush=True)

    dry = truth("dry_run", given.pop("dry_run", "false"))
    own = {key: value for key, value in given.items() if all(key != one.name for one in CLUSTER_KEYS)}
    cells = quickstart_cells(own, out)
    at_once, threads = shared_cores([physical_cores()], len(cells), 0)
    taken = seconds_of(cells, threads, minutes)
    seconds = dict(zip((one.folder for one in cells), taken or [0.0] * len(cells), strict=True))
    if taken is not None:
        forecast = side_by_side(sorted(taken, reverse=True), at_once) / 60 + BASE_MINUTES
        say(f"{len(cells)} runs and a base model: about {minutes_now(forecast, other_work())}")
    if dry:
        return
    with runner(asked_cluster(given), minutes) as run:
        # So that the last wave is short.
        run(sorted(cells, key=lambda one: -seconds[one.folder]), say)
    with ticking("comparing", say):
        compared = compare([cell.folder for cell in cells])
    page = out / COMPARISON
    write(document_html(compared.page), page)
    open_console().print(compared.table)
    for sentence in (*compared.sentences[1:], *ending(compared.page)):
        print(visible(sentence))
    tell_page(page, opened)


def quickstart_cells(keys: Mapping[str, str], out: Path) -> list[Cell]:
    """Return the runs, each in its folder of `out`; the one that pays for macro-F1 can be audited at little cost."""
    from tinsmith.lab.experiment.key_text import At
    from tinsmith.lab.study.sizes import Cell
    from tinsmith.studies.disruption.experiments import CONTROL, QUICKSTART, REMEDY_EXP6

    audited = REMEDY_EXP6 if keys.get("at", At.NANO) == At.NANO else None
    return [
        Cell(
            experiment=one,
            overrides={**(AUDITED if one is audited else {}), **keys},
            folder=out / one.name.replace("/", "-"),
        )
        for one in (*QUICKSTART, CONTROL)
    ]
