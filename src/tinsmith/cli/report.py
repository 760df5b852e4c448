"""The verb `tinsmith report`: an HTML page for one run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of runs; with several, they are compared."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Default: report.html in the run's folder; compare.html here for several.",
        ),
    ] = None,
) -> None:
    """Tell what happened: an HTML page for one run, or one that compares several, seeds of one experiment together."""
    from rich.console import Console

    from tinsmith.reports.comparison_page import COMPARISON, compare, report_comparison
    from tinsmith.reports.console import summary_table
    from tinsmith.reports.run_page import report_run

    if len(folders) == 1:
        print(f"wrote {report_run(folders[0], out)}")
        return
    file = out or Path(COMPARISON)
    compared = compare(folders)
    report_comparison(compared, file)
    Console().print(summary_table(compared))
    for sentence in compared.story:
        print(sentence)
    print(f"wrote {file}")
