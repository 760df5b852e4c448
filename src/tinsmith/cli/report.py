"""The verb `tinsmith report`: a page for one run, or one that compares several, as HTML or Markdown."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tinsmith.types.errors import ConfigError


class PageFormat(StrEnum):
    """What a report is written as; the value is also how its file's name ends."""

    HTML = "html"
    MD = "md"


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of runs; with several, they are compared."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Default: report.html (or .md) in the run's folder; compare.html (or .md) here for several runs.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="disruption|novelty",
            help="Which label to compare, where runs answer for both; only with several runs.",
        ),
    ] = None,
    to: Annotated[
        PageFormat,
        typer.Option(
            help="html: one page with figures and filters. md: the same sentences and tables as Markdown, "
            "with the figures over the steps, the commands and the hashes of every run."
        ),
    ] = PageFormat.HTML,
) -> None:
    """Say what happened: a page for one run, or one that compares several, with the seeds of an experiment pooled."""
    from rich.console import Console

    from tinsmith.reports.comparison_page import COMPARISON, compare, comparison_html
    from tinsmith.reports.console import summary_table
    from tinsmith.reports.debate_comparison import compare_debates, under_challenge
    from tinsmith.reports.debate_comparison_page import debates_html, debates_summary
    from tinsmith.reports.rubric_comparison import compare_rubrics, on_rubrics
    from tinsmith.reports.rubric_comparison_page import rubric_comparison_html, rubric_summary
    from tinsmith.reports.run_page import run_html
    from tinsmith.reports.run_reader import REPORT
    from tinsmith.tasks.subjects import Subject

    rubrics = len(folders) > 1 and on_rubrics(folders)
    challenged = len(folders) > 1 and not rubrics and under_challenge(folders)
    no_labels = len(folders) == 1 or rubrics or challenged
    if task is not None and (no_labels or task not in tuple(Subject)):
        raise ConfigError(
            "there is no such label to compare here",
            field="--task",
            value=task,
            allowed=f"{' or '.join(Subject)}, with several runs on papers; the page of one run shows both labels",
        )
    if len(folders) == 1:
        usual = (folders[0] / REPORT).with_suffix(f".{to}")
        _write(run_html(folders[0]), folders, to, out or usual)
        return
    if rubrics:
        beside = compare_rubrics(folders)
        html, table = rubric_comparison_html(beside), rubric_summary(beside)
        story = (*beside.story, *beside.notes)
    elif challenged:
        debates = compare_debates(folders)
        html, table = debates_html(debates), debates_summary(debates)
        story = (*debates.story, *debates.notes)
    else:
        compared = compare(folders, None if task is None else Subject(task))
        html, table = comparison_html(compared), summary_table(compared)
        story = (*compared.story, *compared.notes)
    Console().print(table)
    for sentence in story:
        print(sentence)
    _write(html, folders, to, out or Path(COMPARISON).with_suffix(f".{to}"))


def _write(html: str, folders: list[Path], to: PageFormat, file: Path) -> None:
    from tinsmith.reports.markdown import markdown_report
    from tinsmith.reports.page import write

    write(html if to is PageFormat.HTML else markdown_report(html, folders), file)
    print(f"wrote {file}")
