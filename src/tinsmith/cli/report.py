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
    task: Annotated[
        str | None,
        typer.Option(
            metavar="disruption|novelty",
            help="Which label is compared where runs are on both; only for several runs.",
        ),
    ] = None,
) -> None:
    """Tell what happened: an HTML page for one run, or one that compares several, seeds of one experiment together."""
    from tinsmith.cli.columns import open_console
    from tinsmith.cli.named_folders import require_runs

    require_runs(folders)  # before what is heavy is imported
    from tinsmith.reports.comparison import COMPARISON, compare, no_choice
    from tinsmith.reports.page import document_html, write
    from tinsmith.reports.run_page import report_run
    from tinsmith.tasks.subjects import Subject

    if task is not None and (len(folders) == 1 or task not in tuple(Subject)):
        raise no_choice(task)
    if len(folders) == 1:
        print(f"wrote {report_run(folders[0], out)}")
        return
    file = out or Path(COMPARISON)
    found = compare(folders, None if task is None else Subject(task))
    write(document_html(found.page), file)
    open_console().print(found.table)
    for sentence in found.sentences:
        print(sentence)
    print(f"wrote {file}")
