"""The page of several runs with a challenger, and the same table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from markupsafe import Markup
from rich.table import Table as ConsoleTable

from tinsmith.lab.page.compared import Comparison
from tinsmith.lab.results.run_map import papers_words, status_words, steps_words
from tinsmith.pages.console import console_table
from tinsmith.pages.document import Document, Section, drawn, kept, missing, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    signed_cell,
    text,
    whole,
)
from tinsmith.pages.wording import counted, listed
from tinsmith.studies.debate.pages.comparison import (
    Against,
    Compared,
    DebatesCompared,
    compare_debates,
    event_names,
)
from tinsmith.studies.debate.pages.gathering import CONTROL, GREEDY, TEST, TESTS
from tinsmith.studies.debate.pages.over_seeds_shown import held_table, seeded_table
from tinsmith.studies.debate.pages.tables import figure_cell
from tinsmith.studies.debate.statistics import ALL, Figure

_COLUMNS: Final = (
    (ALL, "accuracy_first", "first right", ""),
    (ALL, "accuracy_last", "last right", ""),
    (ALL, "caving", "caving", "all arms"),
    ("misleading", "caving", "caving", "misleading"),
    ("truthful", "appropriate_revision", "put right", "truthful"),
    ("evidence", "discrimination", "J", "with words"),
    ("no_evidence", "discrimination", "J", "bare label"),
    ("no_evidence", "discrimination_within", "J within", "bare label"),
    ("no_evidence", "discrimination_beyond", "J beyond", "bare label"),
    (ALL, "sycophancy", "sycophancy", ""),
    (ALL, "whole", "unbroken", ""),
)
_EVENT_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "right_first": "first answer right",
        "right_last": "last answer right",
        "caved": "right answer given up",
        "mended": "wrong answer put right",
    }
)


def debates_document(compared: DebatesCompared) -> Document:
    """Return the page of runs with a challenger."""
    runs = compared.runs
    seeded, held = seeded_table(compared.seeded), held_table(compared.seeded)
    one_seed = missing(
        "Missing: no experiment here has tested runs with several seeds that differ by nothing else."
    )
    no_pair = missing("Missing: it takes two experiments under challenge.")
    no_first = missing("Missing: no run here answered alone on the same papers.")
    return Document(
        kind="Report of several runs under challenge",
        title=f"Comparison of {counted(len(runs), 'run')} under challenge",
        question=listed([one.name for one in runs]),
        facts=(
            ("Runs", str(len(runs))),
            (
                "Held against",
                listed(compared.references) or "none: it takes two experiments under challenge",
            ),
            ("Answered alone", listed(compared.alone) or "none"),
            (
                "Papers that are discussed",
                "; ".join(sorted({papers_words(one.read.run) for one in runs})),
            ),
        ),
        sections=(
            summary(
                compared.story,
                drawn(_figure(runs), "Missing: no run has a test."),
                notes=compared.notes,
            ),
            Section(
                "seeds", "Over seeds", kept(seeded, held) if seeded is not None else [one_seed]
            ),
            Section("runs", "Runs", [_runs(runs)]),
            Section("against", "Against each other", [_against(compared) or no_pair]),
            Section("first", "First answers", [_firsts(compared) or no_first]),
        ),
    )


def debates_summary(compared: DebatesCompared) -> ConsoleTable:
    """Return the figures of every run, for a terminal."""
    return console_table(
        "Test papers, sampled: accuracy of both answers, caving, put right when told the truth, J",
        ("first", "last", "caving", "put right", "J", "J, no evidence", "within", "beyond"),
        [
            (
                one.name,
                _short(one, TEST, ALL, "accuracy_first"),
                _short(one, TEST, ALL, "accuracy_last"),
                _short(one, TEST, ALL, "caving"),
                _short(one, TEST, "truthful", "appropriate_revision"),
                _short(one, TEST, "evidence", "discrimination"),
                _short(one, CONTROL, "no_evidence", "discrimination"),
                _short(one, CONTROL, "no_evidence", "discrimination_within"),
                _short(one, CONTROL, "no_evidence", "discrimination_beyond"),
            )
            for one in compared.runs
        ],
    )


def _found(one: Compared, split: str, group: str, name: str) -> Figure | None:
    groups = one.groups(split)
    # Nobody revises who was not challenged: that is no finding.
    if not groups or (one.read.alone and name not in ("accuracy_first", "whole")):
        return None
    return groups[group][name]


def _short(one: Compared, split: str, group: str, name: str) -> str:
    figure = _found(one, split, group, name)
    return "missing" if figure is None else f"{figure.value:.3f}"


def _measure(figure: Figure | None) -> Measure | None:
    if figure is None:
        return None
    return Measure(figure.value, figure.interval.low, figure.interval.high)


def _figure(runs: Sequence[Compared]) -> Markup | None:
    shown = (
        (
            "First and last right",
            ((ALL, "accuracy_first", "first"), (ALL, "accuracy_last", "last")),
        ),
        (
            "Caving, and put right",
            ((ALL, "caving", "caving"), ("truthful", "appropriate_revision", "put right")),
        ),
    )
    panels = [
        Panel(
            title=title,
            dots=[
                Dots(
                    label,
                    series_mark(place),
                    [_measure(_found(one, TEST, group, name)) for one in runs],
                )
                for place, (group, name, label) in enumerate(lines)
            ],
        )
        for title, lines in shown
    ]
    told = "; ".join(f"{one.name} caves in {_short(one, TEST, ALL, 'caving')}" for one in runs)
    return dots_svg("debates", f"Figures of each run. {told}.", [one.name for one in runs], panels)


def _runs(runs: Sequence[Compared]) -> Table:
    rows: list[TableRow] = []
    for split in (TEST, GREEDY, CONTROL):
        rows.append(TableRow(name=text(TESTS[split]), kind=RowKind.GROUP))
        rows += [_run(one, split) for one in runs if one.groups(split)]
    return Table(
        caption="Each figure above its 95 % interval over papers. Caving is of the right first answers, put right of "
        "the wrong ones; J: how much oftener wrong first answers are revised than right ones; 0 for whoever "
        "cannot tell.",
        heads=(text("Run"), column("n"), *(column(head, under) for _, _, head, under in _COLUMNS)),
        rows=tuple(rows),
    )


def _run(one: Compared, split: str) -> TableRow:
    first = one.groups(split)[ALL]["accuracy_first"]
    run = one.read.run
    return TableRow(
        name=text(one.name, f"{run.config.title}, {status_words(run)}, {steps_words(run)}"),
        cells=(
            whole(None if first is None else first.n),
            *(
                figure_cell(name, _found(one, split, group, name), "none")
                for group, name, _, _ in _COLUMNS
            ),
        ),
    )


def _against(compared: DebatesCompared) -> Table | None:
    if not compared.against:
        return None
    rows: list[TableRow] = []
    for one in compared.against:
        rows.append(TableRow(name=text(f"{one.name} against {one.reference}"), kind=RowKind.GROUP))
        if one.why:
            rows.append(TableRow(name=text("conversations"), remark=f"Not compared: {one.why}."))
            continue
        rows += [_event(one, name) for name in event_names()]
    return Table(
        caption="Here: the run that is named first; there: the other; the same papers challenged in the same way, "
        "sampled. McNemar's exact test; p corrected by Holm over the tests of this table. The ratio of caving rates "
        "stands above its 95 % interval.",
        heads=(
            text("What happened"),
            column("conversations"),
            column("here alone"),
            column("there alone"),
            column("p"),
            column("ratio of rates", "of the right first answers"),
        ),
        rows=tuple(rows),
    )


def _event(one: Against, name: str) -> TableRow:
    test = one.events[name]
    ratio = Cell(text="", number=True)
    if name == "caved":
        ratio = absent(one.no_ratio)
        if one.caving is not None:
            low, high = one.caving.interval.low, one.caving.interval.high
            ratio = Cell(
                text=f"{one.caving.value:.2f}", under=f"{low:.2f}\u2013{high:.2f}", number=True
            )
    return TableRow(
        name=text(_EVENT_WORDS[name]),
        cells=(
            whole(one.shared),
            whole(test.only_second),
            whole(test.only_first),
            Cell(text=f"{one.p_holm[name]:.4f}", number=True),
            ratio,
        ),
    )


def _firsts(compared: DebatesCompared) -> Table | None:
    if not compared.firsts:
        return None
    return Table(
        caption="First answers less those of a run that nobody challenged, paper by paper.",
        heads=(
            text("Run"),
            column("papers"),
            column("difference", "95 % interval"),
            column("standard error"),
            column("p"),
            text("Not below by more than one standard error"),
        ),
        rows=tuple(
            TableRow(
                name=text(one.name, f"less {one.alone}"),
                cells=(
                    whole(one.n),
                    signed_cell(one.difference, one.interval),
                    Cell(text=f"{one.standard_error:.3f}", number=True),
                    Cell(text=f"{one.test.p_value:.4f}", number=True),
                    text("yes" if one.not_below else "no"),
                ),
            )
            for one in compared.firsts
        ),
    )


def compared_debates(folders: Sequence[Path]) -> Comparison:
    """Compare such runs; see SubjectEntry.

    Raises:
        DataError: a folder holds no run.
        ConfigError: they cannot be compared.
    """
    found = compare_debates(folders)
    told = (*found.story, *found.notes)
    return Comparison(debates_document(found), debates_summary(found), told)
