"""The evaluation snapshot: what the selected and the last checkpoint score, beside rows that any model must beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.data.baselines.report import Baseline, TargetReport
from tinsmith.lab.results.gathering import Gathered
from tinsmith.lab.runs.records import SPLIT_WORDS, Run, Split
from tinsmith.pages.document import Block, kept, note
from tinsmith.pages.measures import Measure, Measures, from_evaluation, from_figure, from_row
from tinsmith.pages.palette import class_slot
from tinsmith.pages.tables import Cell, RowKind, Table, TableRow, column, measured, text, whole

BASELINE_WORDS: Mapping[Baseline, tuple[str, str]] = {
    Baseline.MAJORITY: ("Constant", "always the most frequent training class"),
    Baseline.PRIOR: ("Prior", "a guess by the training shares; expected values"),
    Baseline.METADATA: ("Metadata only", "gradient boosting on year, citations, field"),
    Baseline.TEXT: ("TF-IDF", "logistic regression on title and abstract"),
    Baseline.BOTH: ("TF-IDF + metadata", "logistic regression on both"),
    Baseline.ORACLE: ("Oracle", "knows the planted cause of every paper, and nothing else"),
}
"""Every baseline's name on a page, and what it is."""

_TEST = (Split.TEST, Split.TEST_GREEDY, Split.TEST_OFFSET, Split.TEST_LAST, Split.TEST_LAST_GREEDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One row of figures: a checkpoint, or a baseline."""

    name: str
    what: str
    num_items: int | None
    measures: Measures


def model_systems(run: Run, gathered: Gathered) -> list[System]:
    """Return the run's rows on the test split, or those of its last validation where it has none."""
    found = [one for split in _tests(run) if (one := _system(run, gathered, split)) is not None]
    if found:
        return found
    return [one for split in (Split.EVAL, Split.EVAL_GREEDY) if (one := _system(run, gathered, split)) is not None]


def _tests(run: Run) -> tuple[Split, ...]:
    """Return the test splits to show; the last checkpoint's are the selected one's where they are the same."""
    selected = run.manifest.selected if run.manifest else None
    if selected is None or selected.step != run.last_step:
        return _TEST
    return tuple(split for split in _TEST if split not in (Split.TEST_LAST, Split.TEST_LAST_GREEDY))


def _system(run: Run, gathered: Gathered, split: Split) -> System | None:
    words = SPLIT_WORDS[split]
    if split in (Split.EVAL, Split.EVAL_GREEDY):
        words = f"{words}, the last one"
    evaluation = gathered.last(split)
    if evaluation is not None:
        return System(
            name=words[0].upper() + words[1:],
            what=_checkpoint(run, split),
            num_items=len(evaluation.answers),
            measures=from_evaluation(evaluation),
        )
    for row in reversed(list(run.metrics.values())):
        measures = from_row(row, split)
        if measures:
            return System(
                name=words[0].upper() + words[1:],
                what=f"{_checkpoint(run, split)}; its rollouts are missing, so there are no intervals",
                num_items=_tested(run) if split in _TEST else None,
                measures=measures,
            )
    return None


def _tested(run: Run) -> int | None:
    """Return how many papers of the test split were looked at, by the settings."""
    limit, papers = run.config.settings.get("test_items"), run.config.data.test
    return min(limit, papers) if isinstance(limit, int) and limit and papers else papers


def _checkpoint(run: Run, split: Split) -> str:
    if split in (Split.TEST_LAST, Split.TEST_LAST_GREEDY, Split.EVAL, Split.EVAL_GREEDY):
        return f"step {run.last_step}"
    selected = run.manifest.selected if run.manifest else None
    if selected is None:
        return "the manifest does not say which step was selected"
    last = "; also the last one" if selected.step == run.last_step else ""
    return f"step {selected.step}, selected by {selected.by or 'an unnamed rule'}{last}"


def snapshot_blocks(run: Run, systems: Sequence[System]) -> tuple[Block, ...]:
    """Return the snapshot of one run, and what its answers score when their form is forgiven."""
    table = snapshot_table(
        [("This run", systems)],
        run.baselines,
        run.labels,
        "Each figure stands above its 95 % interval. Sampled: at the training temperature.",
    )
    words = lenient_words(run)
    return kept(table, note(words) if words else None)


def lenient_words(run: Run) -> str:
    """Say what the answers score when their form is forgiven; empty where that was not measured."""
    for split, where in ((Split.TEST, "the test split"), (Split.EVAL, "the validation split")):
        for row in reversed(list(run.metrics.values())):
            match = row.get(f"{split}/lenient_label_match")
            f1 = row.get(f"{split}/lenient_macro_f1")
            invalid = row.get(f"{split}/lenient_invalid_rate")
            if match is None or f1 is None or invalid is None:
                continue
            return (
                f"Read leniently (thoughts, fences and text around the JSON forgiven), the sampled answers to {where} "
                f"have label_match {match:.3f}, macro-F1 {f1:.3f} and invalid rate {invalid:.3f}."
            )
    return ""


def baseline_systems(report: TargetReport) -> list[System]:
    """Return the rows of a slice's baselines."""
    found: list[System] = []
    for score in report.scores:
        name, what = BASELINE_WORDS[score.baseline]
        recalls = {f"recall/{label}": from_figure(one) for label, one in score.recall.items()}
        measures: dict[str, Measure] = {
            "label_match": from_figure(score.accuracy),
            "macro_f1": from_figure(score.macro_f1),
            "min_class_recall": from_figure(score.min_class_recall),
            **recalls,
        }
        if recalls:
            mean = sum(one.value for one in recalls.values()) / len(recalls)
            measures["balanced_accuracy"] = Measure(mean)
        found.append(System(name=name, what=what, num_items=score.n, measures=measures))
    return found


def snapshot_table(
    models: Sequence[tuple[str, Sequence[System]]], baselines: TargetReport | None, labels: Sequence[str], caption: str
) -> Table:
    """Return the table: groups of models, then the baselines, with those left out and why."""
    rows: list[TableRow] = []
    for group, systems in models:
        if group:
            rows.append(TableRow(name=text(group), kind=RowKind.GROUP))
        rows += [_row(one, labels, chosen=place == 0) for place, one in enumerate(systems)]
    rows.append(TableRow(name=text("Baselines of this slice, test split"), kind=RowKind.GROUP))
    if baselines is None:
        why = "not computed: run `tinsmith data baselines SLICE` before training"
        rows.append(TableRow(name=text("Constant, prior, metadata only, TF-IDF"), remark=why))
    else:
        rows += [_row(one, labels, chosen=False) for one in baseline_systems(baselines)]
        rows += [
            TableRow(name=text(*BASELINE_WORDS[Baseline(name)]), remark=f"left out: {why}")
            for name, why in sorted(baselines.left_out.items())
            if name in tuple(Baseline)
        ]
    return Table(caption=caption, heads=_heads(labels), rows=tuple(rows))


def _heads(labels: Sequence[str]) -> tuple[Cell, ...]:
    return (
        text("System"),
        column("n"),
        column("label_match"),
        column("macro-F1"),
        column("balanced accuracy", f"chance {1 / len(labels):.3f}" if labels else ""),
        *(column("recall", label, label=class_slot(label, place)) for place, label in enumerate(labels)),
        column("min recall"),
        column("parse_ok"),
        column("format_strict_ok"),
        column("invalid rate"),
    )


def _row(system: System, labels: Sequence[str], *, chosen: bool) -> TableRow:
    names = (
        "label_match",
        "macro_f1",
        "balanced_accuracy",
        *(f"recall/{label}" for label in labels),
        "min_class_recall",
    )
    form = ("parse_ok", "format_strict_ok", "invalid_rate")
    found = system.measures
    if not found:
        return TableRow(name=text(system.name), remark=system.what)
    # A baseline writes no text, so it has no contract to keep.
    why = "missing" if any(name in found for name in form) else "n/a"
    return TableRow(
        name=text(system.name, system.what),
        cells=(
            whole(system.num_items),
            *(measured(found.get(name)) for name in names),
            *(measured(found.get(name), why) for name in form),
        ),
        kind=RowKind.CHOSEN if chosen else RowKind.PLAIN,
    )
