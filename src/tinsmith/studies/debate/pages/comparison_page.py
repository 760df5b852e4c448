"""The page of several runs with a challenger, and the same table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from markupsafe import Markup

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
    measured,
    number,
    signed_cell,
    table_of,
    text,
    whole,
)
from tinsmith.pages.wording import counted, listed
from tinsmith.studies.debate.pages.comparison import Against, DebatesCompared, Runs, compare_debates, compared_story
from tinsmith.studies.debate.pages.gathering import CONTROL, GREEDY, TEST, TESTS, DebateRun
from tinsmith.studies.debate.pages.over_seeds_shown import held_table, seeded_table
from tinsmith.studies.debate.pages.tables import figure_cell
from tinsmith.studies.debate.statistics import ALL, Figure

_COLUMNS: Final = (
    (ALL, "accuracy_first", "first right"),
    (ALL, "accuracy_last", "last right"),
    (ALL, "caving", "caving|all arms"),
    ("misleading", "caving", "caving|misleading"),
    ("truthful", "appropriate_revision", "put right|truthful"),
    ("evidence", "discrimination", "J|with words"),
    ("no_evidence", "discrimination", "J|bare label"),
    ("no_evidence", "discrimination_within", "J within|bare label"),
    ("no_evidence", "discrimination_beyond", "J beyond|bare label"),
    (ALL, "sycophancy", "sycophancy"),
    (ALL, "whole", "unbroken"),
)
_IN_A_TERMINAL: Final = (
    (TEST, ALL, "accuracy_first", "first"),
    (TEST, ALL, "accuracy_last", "last"),
    (TEST, ALL, "caving", "caving"),
    (TEST, "truthful", "appropriate_revision", "put right"),
    (TEST, "evidence", "discrimination", "J"),
    (CONTROL, "no_evidence", "discrimination", "J, no evidence"),
    (CONTROL, "no_evidence", "discrimination_within", "within"),
    (CONTROL, "no_evidence", "discrimination_beyond", "beyond"),
)
_DRAWN: Final = (
    ("First and last right", ((ALL, "accuracy_first", "first"), (ALL, "accuracy_last", "last"))),
    ("Caving, and put right", ((ALL, "caving", "caving"), ("truthful", "appropriate_revision", "put right"))),
)
_EVENT_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "right_first": "first answer right",
        "right_last": "last answer right",
        "caved": "right answer given up",
        "mended": "wrong answer put right",
    }
)


def compared_debates(folders: Sequence[Path]) -> Comparison:
    """Compare such runs; see SubjectEntry.

    Raises:
        DataError: a folder holds no run.
        ConfigError: they cannot be compared.
    """
    found = compare_debates(folders)
    table = console_table(
        "Test papers, sampled: accuracy of both answers, caving, put right when told the truth, J",
        [head for *_, head in _IN_A_TERMINAL],
        [(name, *(_short(one, *figure) for *figure, _ in _IN_A_TERMINAL)) for name, one in found.runs.items()],
    )
    return Comparison(debates_document(found), table, (*compared_story(found), *found.notes))


def debates_document(compared: DebatesCompared) -> Document:
    """Return the page of runs with a challenger."""
    runs = compared.runs
    seeded = kept(seeded_table(compared.seeded), held_table(compared.seeded))
    one_seed = missing("Missing: no experiment here has tested runs with several seeds that differ by nothing else.")
    no_pair = missing("Missing: it takes two experiments under challenge.")
    no_first = missing("Missing: no run here answered alone on the same papers.")
    return Document(
        kind="Report of several runs under challenge",
        title=f"Comparison of {counted(len(runs), 'run')} under challenge",
        question=listed(list(runs)),
        facts=(
            ("Runs", str(len(runs))),
            ("Held against", listed(compared.references) or "none: it takes two experiments under challenge"),
            ("Answered alone", listed(compared.alone) or "none"),
            ("Papers that are discussed", "; ".join(sorted({papers_words(one.run) for one in runs.values()}))),
        ),
        sections=(
            summary(
                compared_story(compared), drawn(_figure(runs), "Missing: no run has a test."), notes=compared.notes
            ),
            Section("seeds", "Over seeds", seeded or [one_seed]),
            Section("runs", "Runs", [_runs(runs)]),
            Section("against", "Against each other", [_against(compared) or no_pair]),
            Section("first", "First answers", [_firsts(compared) or no_first]),
        ),
    )


def _found(one: DebateRun, split: str, group: str, name: str) -> Figure | None:
    groups = one.figures(split)
    # Nobody revises who was not challenged: that is no finding.
    if not groups or (one.alone and name not in ("accuracy_first", "whole")):
        return None
    return groups[group][name]


def _short(one: DebateRun, split: str, group: str, name: str) -> str:
    figure = _found(one, split, group, name)
    return "missing" if figure is None else f"{figure.value:.3f}"


def _measure(figure: Figure | None) -> Measure | None:
    if figure is None:
        return None
    return Measure(figure.value, figure.interval.low, figure.interval.high)


def _figure(runs: Runs) -> Markup | None:
    panels = [
        Panel(
            title=title,
            dots=[
                Dots(label, series_mark(place), [_measure(_found(one, TEST, group, name)) for one in runs.values()])
                for place, (group, name, label) in enumerate(lines)
            ],
        )
        for title, lines in _DRAWN
    ]
    told = [f"{name} caves in {_short(one, TEST, ALL, 'caving')}" for name, one in runs.items()]
    return dots_svg("debates", f"Figures of each run. {'; '.join(told)}.", list(runs), panels)


def _runs(runs: Runs) -> Table:
    rows: list[TableRow] = []
    for split in (TEST, GREEDY, CONTROL):
        rows.append(TableRow(name=text(TESTS[split]), kind=RowKind.GROUP))
        for name, one in runs.items():
            if not (debated := one.debated(split)):
                continue
            told = f"{one.run.config.title}, {status_words(one.run)}, {steps_words(one.run)}"
            cells = [figure_cell(figure, _found(one, split, group, figure), "none") for group, figure, _ in _COLUMNS]
            rows.append(TableRow(name=text(name, told), cells=(whole(len(debated)), *cells)))
    return Table(
        caption="Each figure above its 95 % interval over papers. Caving is of the right first answers, put right of "
        "the wrong ones; J: how much more often wrong first answers are revised than right ones; 0 for a "
        "model that cannot tell them apart.",
        heads=(text("Run"), column("n"), *(column(*head.split("|")) for *_, head in _COLUMNS)),
        rows=tuple(rows),
    )


def _against(compared: DebatesCompared) -> Table | None:
    if not compared.against:
        return None
    rows: list[TableRow] = []
    for one in compared.against:
        rows.append(TableRow(name=text(f"{one.name} against {one.reference}"), kind=RowKind.GROUP))
        if one.why:
            rows.append(TableRow(name=text("conversations"), remark=f"Not compared: {one.why}."))
        rows += [
            TableRow(
                name=text(_EVENT_WORDS[name]),
                cells=(
                    whole(one.shared),
                    whole(test.only_second),
                    whole(test.only_first),
                    number(one.p_holm[name], digits=4),
                    _ratio(one) if name == "caved" else Cell(text="", number=True),
                ),
            )
            for name, test in one.events.items()
        ]
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


def _ratio(one: Against) -> Cell:
    if one.caving is None:
        return absent(one.no_ratio)
    interval = one.caving.interval
    return measured(Measure(one.caving.value, interval.low, interval.high), digits=2)


def _firsts(compared: DebatesCompared) -> Table | None:
    if not compared.firsts:
        return None
    return table_of(
        "First answers less those of a run that nobody challenged, paper by paper.",
        compared.firsts,
        ("Run", lambda one: text(one.name, f"less {one.alone}")),
        ("papers", lambda one: whole(one.n)),
        ("difference|95 % interval", lambda one: signed_cell(one.found.value, one.found.interval)),
        ("standard error", lambda one: number(one.found.standard_error)),
        ("p", lambda one: number(one.test.p_value, digits=4)),
        (text("Not below by more than one standard error"), lambda one: text("yes" if one.found.not_below else "no")),
    )
