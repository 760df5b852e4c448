"""The verb `tinsmith report`: the page of one run or several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from typer import Argument, Option

from tinsmith.cli.columns import Open, open_console, require_replaceable, require_runs, rows, tell_page, terminal_width
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, ticking

if TYPE_CHECKING:
    from rich.table import Table

PageFormat = Literal["html", "md"]  # Format of a report, and the ending of its file's name.


def report(
    folders: Annotated[
        list[Path],
        Argument(
            metavar="RUN...",
            help="Folder of a run or a study, or FILE.zip of `tinsmith pack`; several runs are compared.",
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Default: report.html (or .md) in the run's folder, the page that a study has, NAME.html here for "
            "a packed run NAME.zip; compare.html (or .md) here for several runs.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        Option(
            metavar="disruption|novelty", help="Label to compare, if the runs answer for both; only with several runs."
        ),
    ] = None,
    to: Annotated[
        PageFormat,
        Option(
            help="html: one page with figures and filters. md: the same sentences and tables as Markdown, "
            "with the figures over the steps, the commands and the hashes of every run."
        ),
    ] = "html",
    opened: Open = False,
) -> None:
    """Say what happened: a page about one run, or one that compares several, with the seeds of an experiment pooled."""
    from tinsmith.lab.bundle.archive import folders_of

    packed = len(folders) == 1 and folders[0].is_file()
    with folders_of(folders) as places, ticking("reading the runs"):
        made, shown = _report(places, Path(f"{folders[0].stem}.{to}") if packed and out is None else out, task, to)
    for each in shown:
        print(visible(each)) if isinstance(each, str) else open_console().print(each)
    tell_page(made, opened)


def _report(folders: list[Path], out: Path | None, task: str | None, to: PageFormat) -> tuple[Path, list[str | Table]]:
    """Write the page, and return it with what the console shows of it."""
    from tinsmith.lab.study.files import holds_study

    if len(folders) == 1 and holds_study(folders[0]):
        return _write_study(folders[0], to, out)
    require_runs(folders)  # before what is heavy is imported
    from tinsmith.lab.page.report import COMPARISON, compare, markdown_report, run_page
    from tinsmith.lab.runs.files import MANIFEST, REPORT
    from tinsmith.lab.runs.reader import read_run
    from tinsmith.pages.page import document_html, ending

    shown: list[str | Table] = []
    if len(folders) == 1:
        if task is not None:
            allowed = "only with several runs on papers; the page of one run shows both labels"
            raise ConfigError("--task does not apply here", field="--task", value=task, allowed=allowed)
        # The manifest says what ran, and on what.
        shown += [f"warning: {fault}" for fault in read_run(folders[0]).notes if fault.startswith(MANIFEST)]
        page, usual = run_page(folders[0]), folders[0] / REPORT
    else:
        found = compare(folders, task)
        shown += [found.table, *found.sentences[1:]]
        page, usual = found.page, Path(COMPARISON)
    text = document_html(page) if to == "html" else markdown_report(page, folders)
    return _write_text(text, to, out or usual.with_suffix(f".{to}")), [*shown, *ending(page)]


_MARKS = {"html": b"<p>Made by tinsmith ", "md": b"SHA-256"}  # Bytes that a report has, and other files seldom.


def _write_study(folder: Path, to: PageFormat, out: Path | None) -> tuple[Path, list[str | Table]]:
    """Draw the page of a study anew from its values; one with sections that are not among them stays as it is."""
    from tinsmith.lab.study.files import PAGE, SECTIONS, TABLES
    from tinsmith.lab.study.report import drawn_anew, write_page
    from tinsmith.pages.markdown import document_markdown
    from tinsmith.pages.page import document_html, ending

    page, made = drawn_anew(folder), folder / (PAGE if to == "html" else TABLES)
    stays = (folder / SECTIONS).exists()
    if out is not None:
        new = document_html(page) if to == "html" else document_markdown(page)
        made = _write_text(made.read_text(encoding="utf-8") if stays else new, to, out)
    elif not stays:
        write_page(page, folder)
    return made, [*ending(page)]


def _write_text(text: str, to: PageFormat, file: Path) -> Path:
    from tinsmith.pages.page import write

    require_replaceable(file, _MARKS[to])
    write(text, file)
    return file


_USUAL: Final = (Path("runs"), Path("out"))  # Folders that `tinsmith run` and `tinsmith quickstart` make.


def ls(
    folder: Annotated[Path | None, Argument(metavar="[DIR]", help="A folder with runs. Default: runs and out.")] = None,
    every: Annotated[bool, Option("--all", help="List each run of a study too.")] = False,
) -> None:
    """List runs and studies: name, state, steps, last score or reward, a study's verdict."""
    from tinsmith.lab.runs.files import CONFIG, MANIFEST, METRICS, Status, is_locked
    from tinsmith.lab.study.files import STUDY_JSON, holds_study
    from tinsmith.lab.study.sizes import CELLS
    from tinsmith.types.json_text import parse_json

    def read(file: Path) -> dict[str, object]:
        try:
            found = parse_json(file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    listed = [("run or study", "is", "state", "steps", "last result")]
    places = _USUAL if folder is None else (folder,)
    for place, file in sorted(
        (where, each) for where in places for name in (CONFIG, CELLS) for each in where.rglob(name)
    ):
        if not every and CELLS in file.relative_to(place).parent.parts:
            continue
        run, name = file.parent, file.parent.relative_to(folder or Path()).as_posix()
        if file.name == CELLS:
            sentences = read(run / STUDY_JSON).get("sentences") or [""]
            verdict = str(sentences[0] if isinstance(sentences, list) else "").rpartition("; ")[2].rstrip(".")
            listed.append((name, "a study", "finished" if holds_study(run) else "not finished", "", verdict))
            continue
        config = read(file)
        if config and "name" not in config:  # another program's
            continue
        state = str(read(run / MANIFEST).get("status", Status.RUNNING))
        done, result = _standing(run / METRICS)
        settings = config.get("settings")
        steps = settings.get("steps") if isinstance(settings, dict) else None
        of = f"{min(done, steps)} of {steps}" if isinstance(steps, int) else str(done)
        if state == Status.RUNNING.value:  # one that was killed had no time to say so
            state = "not finished" if is_locked(run) else Status.INTERRUPTED.value
        listed.append((name, str(config.get("name", "not readable")), state, of, result))
    if len(listed) == 1:
        fix = "tinsmith quickstart makes some; or name their folder: tinsmith ls DIR"
        where = " or ".join(map(str, places))
        what = f"{where} holds no run" if any(each.is_dir() for each in places) else f"there is no folder {where}"
        raise DataError(what, field="DIR", value=where, fix=fix)
    print("\n".join(rows(listed, terminal_width())))


def export_results(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of a run, a study, or a corpus with metrics.")],
    to: Annotated[Literal["csv", "parquet"], Option(help="Format of the files.")] = "csv",
    out: Annotated[Path | None, Option(metavar="FOLDER", help="Default: DIR/tables.")] = None,
) -> None:
    """Write tables for other programs: metrics, rollouts, answers by item; a corpus's labels."""
    from tinsmith.data.label_table import label_table, own_works_note, write_csv
    from tinsmith.data.replacing import replacing
    from tinsmith.data.schema import PAPERS

    notes: list[str] = []
    if (folder / PAPERS).exists():
        from tinsmith.data.corpus import Corpus

        tables = {"labels": label_table(corpus := Corpus.open(folder))}
        notes += filter(None, [own_works_note(corpus)])
    else:
        require_runs([] if folder.exists() else [folder])
        with loading():
            from tinsmith.lab.runs.frames import tables_of
        with ticking(f"reading {folder}"):
            tables = dict(tables_of(folder, notes))
    for note in notes:
        print(visible(f"tinsmith: {note}"), file=sys.stderr)
    written = folder / "tables" if out is None else out
    written.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        file = written / f"{name}.{to}"
        with ticking(f"writing {file}"), replacing(file) as part:
            if to == "csv":
                write_csv(frame, part)
            else:
                frame.write_parquet(part)
        print(f"wrote {file}: {frame.height:,} rows, {frame.width} columns")


_RESULTS: Final = (("macro-F1", "macro_f1"), ("reward", "reward/total"), ("score", "score"), ("pass rate", "pass_rate"))
"""Headline metrics of an evaluation: the score of runs on labels or under a judge, the reward of others."""


def _standing(file: Path) -> tuple[int, str]:
    """Return the number of steps in growing metrics, and their last evaluation; empty if there is none."""
    from tinsmith.lab.runs.files import STOPPED_AT
    from tinsmith.lab.runs.reader import json_lines

    done, result = 0, ""
    for line in json_lines(file, dict[str, object], []):
        step = line.get("step")
        done = step + 1 if isinstance(step, int) else done
        done = int(stopped) if isinstance(stopped := line.get(STOPPED_AT), float) else done
        figures = ((label, line.get(f"{split}/{key}")) for split in ("test", "eval") for label, key in _RESULTS)
        shown = (f"{label} {figure:.3f}" for label, figure in figures if isinstance(figure, int | float))
        result = next(shown, result)
    return done, result
