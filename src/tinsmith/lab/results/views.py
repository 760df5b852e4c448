"""Three views of an evaluation: the contract, the balance of the classes, and reliability, a row a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tinsmith.lab.results.gathering import Gathered
from tinsmith.lab.results.trajectory import evaluated_steps
from tinsmith.lab.runs.records import Run, Split
from tinsmith.pages.curves import Limit
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measures, from_evaluation, from_row
from tinsmith.pages.palette import INVALID_MARK, class_mark, series_mark


@dataclass(frozen=True, slots=True)
class ViewRow:
    """One row of the views."""

    name: str
    measures: Measures


def views_svg(name: str, rows: Sequence[ViewRow], labels: Sequence[str]) -> Markup | None:
    """Draw the three views over the same rows."""

    def dots(key: str, words: str, mark_place: int) -> Dots:
        return Dots(words, series_mark(mark_place), [row.measures.get(key) for row in rows])

    contract = Panel(
        title="Contract",
        dots=[
            dots("label_match", "label_match", 0),
            dots("parse_ok", "parse_ok", 2),
            dots("format_strict_ok", "format_strict_ok", 3),
        ],
    )
    balance = Panel(
        title="Class balance: recall",
        dots=[
            Dots(label, class_mark(label, place), [row.measures.get(f"recall/{label}") for row in rows])
            for place, label in enumerate(labels)
        ],
        limits=[Limit(1 / len(labels), "chance")] if labels else (),
    )
    invalid = [row.measures.get("invalid_rate") for row in rows]
    highest = max((m.high or m.value for m in invalid if m), default=0.0)
    reliability = Panel(
        title="Reliability: invalid rate",
        dots=[Dots("invalid rate", INVALID_MARK, invalid)],
        high=min(max(0.1, highest * 1.15), 1.0),
    )
    told = "; ".join(f"{row.name}: {_told(row.measures, labels)}" for row in rows)
    return dots_svg(name, f"Three views. {told}.", [row.name for row in rows], [contract, balance, reliability])


def run_views(run: Run, gathered: Gathered) -> Markup | None:
    """Draw the views of one run: where it began, what was selected, where it ended."""
    steps = evaluated_steps(run)
    if not steps:
        return None
    selected = run.manifest.selected.step if run.manifest and run.manifest.selected else None
    rows = [_at(run, gathered, steps[0], f"start, step {steps[0]}")]
    if selected is not None and selected in steps and selected not in (steps[0], steps[-1]):
        rows.append(_at(run, gathered, selected, f"selected, step {selected}"))
    if len(steps) > 1:
        words = "selected, the last" if selected == steps[-1] else "last"
        rows.append(_at(run, gathered, steps[-1], f"{words}, step {steps[-1]}"))
    tested = gathered.last(Split.TEST)
    if tested is not None:
        rows.append(ViewRow("test split, selected", from_evaluation(tested)))
    return views_svg("views", rows, run.labels)


def _at(run: Run, gathered: Gathered, step: int, name: str) -> ViewRow:
    evaluation = gathered.at(Split.EVAL, step)
    if evaluation is not None:
        return ViewRow(name, from_evaluation(evaluation))
    return ViewRow(name, from_row(run.metrics[step], "eval"))


def _told(measures: Measures, labels: Sequence[str]) -> str:
    keys = ("label_match", "parse_ok", *(f"recall/{label}" for label in labels), "invalid_rate")
    return ", ".join(f"{key} {measures[key].value:.3f}" for key in keys if key in measures)
