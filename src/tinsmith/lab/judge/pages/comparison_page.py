"""The page of several runs on rubrics, and the same table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup
from rich.table import Table as ConsoleTable

from tinsmith.lab.judge.pages.comparison import Compared, Pair, RubricsCompared, compare_rubrics
from tinsmith.lab.judge.pages.gains import gains_columns, rate_of, span
from tinsmith.lab.judge.pages.gathering import Examination
from tinsmith.lab.judge.pages.page import tasks_words
from tinsmith.lab.judge.pages.story import cost_words, failed_words
from tinsmith.lab.page.compared import Comparison
from tinsmith.lab.results.run_map import status_words, steps_words
from tinsmith.pages.console import console_table
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Document, Section, drawn, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import (
    Cell,
    Table,
    TableRow,
    absent,
    measured,
    number,
    plain,
    shown,
    signed_cell,
    table_of,
    text,
    whole,
)
from tinsmith.pages.wording import counted, listed, signed


def rubrics_document(compared: RubricsCompared) -> Document:
    """Return the page of runs on rubrics."""
    runs = compared.runs
    models = sorted({one.read.run.config.model_name or "not stated" for one in runs})
    return Document(
        kind="Comparison of runs on rubrics",
        title=f"Comparison of {counted(len(runs), 'run')} on rubrics",
        question=listed([one.name for one in runs]),
        facts=(
            ("Runs", str(len(runs))),
            ("Judges", listed(sorted({one.read.judge for one in runs}))),
            ("Models", listed(models)),
            ("Tasks", "; ".join(sorted({tasks_words(one.read.run) for one in runs}))),
        ),
        sections=(
            summary(compared.story, notes=compared.notes),
            Section("runs", "Runs", [drawn(_figure(runs), "Missing: no run has an examination."), _runs(runs)]),
            Section("pairs", "Pairs", [_pairs(compared.pairs)]),
            Section("settings", "Settings", [_asked(runs)]),
        ),
    )


def rubrics_summary(compared: RubricsCompared) -> ConsoleTable:
    """Return what each run gained, for a terminal."""
    return console_table(
        "Pass rate on the prompts of the examinations, sampled, with 95 % interval of the gain",
        ("first", "last", "gain", "greedy", "without verdicts"),
        [
            (
                one.name,
                _mean(one.read.sampled[:1]) if one.gains.sampled is not None else "missing",
                _mean(one.read.sampled[-1:]),
                _gain(one),
                _mean(one.read.greedy[-1:]),
                f"{one.read.ledger.failed:,}",
            )
            for one in compared.runs
        ],
    )


def _gain(one: Compared) -> str:
    found = one.gains.sampled
    if found is None:
        return "missing"
    return signed(found.gain) if found.interval is None else f"{signed(found.gain)} {span(found.interval)}"


def _mean(examinations: Sequence[Examination]) -> str:
    return f"{examinations[0].mean:.3f}" if examinations else "missing"


def _figure(runs: Sequence[Compared]) -> Markup | None:
    first = [_rate(one.read.sampled[:1]) for one in runs]
    last = [_rate(one.read.sampled[-1:]) for one in runs]
    panel = Panel(
        title="Pass rate, sampled",
        dots=[Dots("first", series_mark(6), first), Dots("last", series_mark(0), last)],
        limits=_limits(runs),
    )
    told = "; ".join(f"{one.name} {_mean(one.read.sampled[:1])} to {_mean(one.read.sampled[-1:])}" for one in runs)
    return dots_svg("rates", f"Pass rates. {told}.", [one.name for one in runs], [panel], width=7.2)


def _limits(runs: Sequence[Compared]) -> tuple[Limit, ...]:
    """Draw the best text for all where it is the same for all runs."""
    found = {one.gains.over_constant.first for one in runs if one.gains.over_constant is not None}
    return (Limit(found.pop(), "best text for all"),) if len(found) == 1 else ()


def _rate(examinations: Sequence[Examination]) -> Measure | None:
    return rate_of(examinations[0]) if examinations else None


def _runs(runs: Sequence[Compared]) -> Table:
    return table_of(
        "Pass rates on each run's own examined prompts, each above its 95 % interval over prompts. Best text: "
        "what the best single text for every prompt passes, chosen with hindsight.",
        runs,
        ("Run", lambda one: text(one.name, f"{status_words(one.read.run)}, {steps_words(one.read.run)}")),
        ("first|sampled", lambda one: measured(_rate(one.read.sampled[:1]) if one.gains.sampled else None)),
        ("last|sampled", lambda one: measured(_rate(one.read.sampled[-1:]))),
        ("gain|95 % interval", _gained),
        ("last|greedy", lambda one: measured(_rate(one.read.greedy[-1:]))),
        ("best text", lambda one: number(_best(one), "not known")),
        ("distinct texts|share, last", lambda one: number(one.read.sampled[-1].distinct if one.read.sampled else None)),
        ("alarms", lambda one: whole(len(one.read.run.alarms))),
        (text("Judge", "and what it took"), lambda one: text(one.read.judge, cost_words(one.read))),
        (text("Without verdicts"), lambda one: text(failed_words(one.read))),
    )


def _gained(one: Compared) -> Cell:
    found = one.gains.sampled
    return absent() if found is None else signed_cell(found.gain, found.interval)


def _best(one: Compared) -> float | None:
    return None if one.gains.over_constant is None else one.gains.over_constant.first


def _pairs(pairs: Sequence[Pair]) -> Table:
    table = table_of(
        "The last examinations, sampled, prompt by prompt: only prompts with the same text and criteria that "
        "neither was trained on, and only under one judge. p: sign flips, corrected by Holm over the pairs here.",
        [(pair.name, _finding(pair), pair.found, pair.p_holm) for pair in pairs if pair.found],
        ("Pair", lambda row: text(row[0])),
        *gains_columns("first", "second", "second minus first"),
        (text("Finding"), lambda row: text(row[1])),
    )
    compared = iter(table.rows)
    rows = (
        next(compared) if pair.found else TableRow(name=text(pair.name), remark=f"Not compared: {pair.why}.")
        for pair in pairs
    )
    return replace(table, rows=tuple(rows))


def _finding(pair: Pair) -> str:
    if pair.found is None or not pair.told_apart:
        return "inconclusive"
    return "second passes more" if pair.found.gain > 0 else "first passes more"


def _asked(runs: Sequence[Compared]) -> Table:
    """Return the settings in which the runs differ."""
    settings = [
        {
            "data": one.read.run.config.data.fingerprint[:12],
            "judge": one.read.judge,
            **one.read.run.config.overrides,
            **one.read.run.config.settings,
        }
        for one in runs
    ]
    names = list(dict.fromkeys(key for each in settings for key in each))
    rows = [[name, *(shown(each.get(name, "absent")) for each in settings)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    caption = "Settings in which the runs differ." if differing else "The runs do not differ in any setting."
    return plain(caption, ("Setting", *(one.name for one in runs)), differing, words=True)


def compared_rubrics(folders: Sequence[Path]) -> Comparison:
    """Compare such runs; see SubjectEntry."""
    found = compare_rubrics(folders)
    told = (*found.story, *found.notes)
    return Comparison(rubrics_document(found), rubrics_summary(found), told)
