"""The trajectory: every evaluation of a run on the validation split, one row a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tinsmith.lab.results.gathering import Gathered
from tinsmith.lab.runs.records import Run, Split
from tinsmith.pages.measures import Measure, from_evaluation
from tinsmith.pages.palette import class_slot
from tinsmith.pages.tables import Cell, RowKind, Table, TableRow, column, measured, number, text, whole
from tinsmith.pages.wording import listed


def evaluated_steps(run: Run) -> tuple[int, ...]:
    """Return the steps at which the validation split was answered."""
    return tuple(step for step, row in run.metrics.items() if row.get("eval/label_match") is not None)


def trajectory_table(run: Run, gathered: Gathered) -> Table | None:
    """Return the trajectory with the columns of the seeds' follow-up; None where nothing was evaluated."""
    steps = evaluated_steps(run)
    if not steps:
        return None
    heads = (
        text("Step"),
        column("n"),
        column("label_match"),
        column("macro-F1"),
        column("macro-F1", "greedy"),
        *(column("share", label, label=class_slot(label, place)) for place, label in enumerate(run.labels)),
        *(column("recall", label, label=class_slot(label, place)) for place, label in enumerate(run.labels)),
        column("min recall"),
        column("label MI", "nats"),
        column("parse_ok"),
    )
    selected = run.manifest.selected.step if run.manifest and run.manifest.selected else None
    rows = tuple(_row(run, gathered, step, chosen=step == selected) for step in steps)
    return Table(
        caption="Validation split, sampled at the training temperature; each row is the policy before update n. "
        f"The selected step is shaded. Intervals are 95 %.{_balance(run, gathered)}",
        heads=heads,
        rows=rows,
    )


def _balance(run: Run, gathered: Gathered) -> str:
    """Say how many papers of each class were asked about: a recall of few papers says little."""
    evaluation = gathered.last(Split.EVAL)
    if evaluation is None:
        return ""
    found = Counter(answer.gold for answer in evaluation.answers)
    return f" Papers: {listed([f'{found[label]:,} {label}' for label in run.labels])}."


def _row(run: Run, gathered: Gathered, step: int, *, chosen: bool) -> TableRow:
    metrics = run.metrics[step]
    evaluation = gathered.at(Split.EVAL, step)
    intervals: Mapping[str, Measure] = from_evaluation(evaluation) if evaluation else {}

    def figure(name: str) -> Cell:
        """The value that training wrote, with the interval that its rollouts give."""
        value = metrics.get(f"eval/{name}")
        if value is None:
            return number(None)
        found = intervals.get(name)
        return measured(Measure(value, found.low, found.high) if found else Measure(value))

    def bare(name: str) -> Cell:
        return number(metrics.get(name))

    alarms = tuple(f"A{place}" for place, alarm in enumerate(run.alarms, start=1) if alarm.step == step)
    return TableRow(
        name=Cell(text=str(step), under="selected" if chosen else "", tags=alarms),
        cells=(
            whole(len(evaluation.answers) if evaluation else None),
            figure("label_match"),
            figure("macro_f1"),
            bare("eval_greedy/macro_f1"),
            *(bare(f"eval/predicted_share/{label}") for label in run.labels),
            *(bare(f"eval/recall/{label}") for label in run.labels),
            bare("eval/min_class_recall"),
            bare("eval/label_mi"),
            bare("eval/parse_ok"),
        ),
        kind=RowKind.CHOSEN if chosen else RowKind.PLAIN,
    )
