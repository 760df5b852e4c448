"""The verb `tinsmith report`: a page for one run, or one that compares several, as HTML or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tinsmith.cli.pages import Open, tell_page
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from tinsmith.pages.document import Document


PageFormat = Literal["html", "md"]
"""Format of a report, and the ending of its file's name."""


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs, or files of `tinsmith pack`: several are compared; or that of a study.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Default: report.html (or .md) in the run's folder, NAME.html here for a packed run NAME.zip; "
            "compare.html (or .md) here for several runs.",
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
    ] = "html",
    opened: Open = False,
) -> None:
    """Say what happened: a page about one run, or one that compares several, with the seeds of an experiment pooled."""
    from tinsmith.lab.bundle.archive import folders_of
    from tinsmith.types.waits import ticking

    packed = len(folders) == 1 and folders[0].is_file()
    with folders_of(folders) as places, ticking("reading the runs"):
        made = _report(places, Path(f"{folders[0].stem}.{to}") if packed and out is None else out, task, to)
    tell_page(made, opened)


def _report(folders: list[Path], out: Path | None, task: str | None, to: PageFormat) -> Path:
    from tinsmith.cli.columns import open_console
    from tinsmith.cli.named_folders import require_runs
    from tinsmith.lab.study.files import holds_study

    if len(folders) == 1 and holds_study(folders[0]):
        return _write_study(folders[0], to, out)
    require_runs(folders)  # before what is heavy is imported
    from tinsmith.cli.registered import SUBJECTS
    from tinsmith.lab.page.comparison import COMPARISON, compare
    from tinsmith.lab.page.run_page import run_page, subject_of
    from tinsmith.lab.runs.files import REPORT
    from tinsmith.types.errors import ConfigError

    if task is not None and len(folders) == 1:
        raise ConfigError(
            "--task does not apply here",
            field="--task",
            value=task,
            allowed="with several runs on papers; the page of one run has both labels",
        )
    if len(folders) == 1:
        usual = (folders[0] / REPORT).with_suffix(f".{to}")
        return _write(run_page(folders[0], subject_of(folders[0], SUBJECTS)), folders, to, out or usual)
    found = compare(folders, SUBJECTS, task)
    open_console().print(found.table)
    for sentence in found.sentences[1:]:
        print(visible(sentence))
    usual = Path(COMPARISON).with_suffix(f".{to}")
    return _write(found.page, folders, to, out or usual)


def _write_study(folder: Path, to: PageFormat, out: Path | None) -> Path:
    from tinsmith.lab.runs.files import REPORT
    from tinsmith.lab.study.files import PAGE, TABLES
    from tinsmith.pages.page import write

    file = out or (folder / REPORT).with_suffix(f".{to}")
    write((folder / (PAGE if to == "html" else TABLES)).read_text(encoding="utf-8"), file)
    return file


def _write(page: Document, folders: list[Path], to: PageFormat, file: Path) -> Path:
    from tinsmith.lab.page.markdown import markdown_report
    from tinsmith.pages.page import document_html, ending, write

    for line in ending(page):
        print(visible(line))
    write(document_html(page) if to == "html" else markdown_report(page, folders), file)
    return file
