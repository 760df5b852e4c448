"""The verb `tinsmith report`: an HTML page for one run, or one that compares several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinsmith.types.errors import ConfigError


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
    from tinsmith.reports.comparison_page import COMPARISON, compare, report_comparison
    from tinsmith.reports.console import summary_table
    from tinsmith.reports.debate_comparison import compare_debates, under_challenge
    from tinsmith.reports.debate_comparison_page import debates_summary, report_debates
    from tinsmith.reports.rubric_comparison import compare_rubrics, on_rubrics
    from tinsmith.reports.rubric_comparison_page import report_rubric_comparison, rubric_summary
    from tinsmith.reports.run_page import report_run
    from tinsmith.tasks.subjects import Subject

    rubrics = len(folders) > 1 and on_rubrics(folders)
    challenged = len(folders) > 1 and not rubrics and under_challenge(folders)
    no_labels = len(folders) == 1 or rubrics or challenged
    if task is not None and (no_labels or task not in tuple(Subject)):
        raise ConfigError(
            "there is no such choice of a label here",
            field="--task",
            value=task,
            allowed=f"{' or '.join(Subject)}, with several runs on papers; the page of one run has both labels",
        )
    if len(folders) == 1:
        print(f"wrote {report_run(folders[0], out)}")
        return
    file = out or Path(COMPARISON)
    if rubrics:
        beside = compare_rubrics(folders)
        report_rubric_comparison(beside, file)
        table, story = rubric_summary(beside), (*beside.story, *beside.notes)
    elif challenged:
        debates = compare_debates(folders)
        report_debates(debates, file)
        table, story = debates_summary(debates), (*debates.story, *debates.notes)
    else:
        compared = compare(folders, None if task is None else Subject(task))
        report_comparison(compared, file)
        table, story = summary_table(compared), (*compared.story, *compared.notes)
    open_console().print(table)
    for sentence in story:
        print(sentence)
    print(f"wrote {file}")
