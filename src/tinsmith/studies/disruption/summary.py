"""The comparison on a terminal: the test scores of every arm above those of the baselines, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.page.compared import Comparison
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.judging import verdict_words
from tinsmith.lab.results.snapshot import System, baseline_systems
from tinsmith.pages.console import console_table
from tinsmith.pages.measures import Measure, Measures
from tinsmith.studies.disruption.comparison import Compared, compare_labels, comparison_document
from tinsmith.types.errors import ConfigError


def summary_table(compared: Compared) -> Table:
    """Return the test scores of every arm, sampled and greedy, above those of the slice's baselines."""
    sizes = sorted({one.num_items for one in compared.tested.values()})
    papers = f", {sizes[0]:,} papers" if len(sizes) == 1 else ""
    systems = baseline_systems(compared.baselines) if compared.baselines else []
    return console_table(
        f"Test split{papers}: label_match, macro-F1 with 95 % interval and greedy",
        ("match", "macro-F1", "greedy", "min recall", "most said", "JSON"),
        [_arm(compared, arm) for arm in compared.arms],
        [_baseline(system) for system in systems],
    )


def _arm(compared: Compared, arm: Arm) -> Sequence[str]:
    one, greedy = compared.tested.get(arm.name), compared.greedy.get(arm.name)
    seeds = f", {len(arm.members)} seeds" if len(arm.members) > 1 else ""
    name = f"{arm.name}{seeds}"
    if one is None:
        return name, *["missing"] * 6
    return (
        name,
        _figure(one.measures.get("label_match")),
        _interval(one.measures.get("macro_f1")),
        _figure(greedy.measures.get("macro_f1") if greedy else None),
        _figure(one.measures.get("min_class_recall")),
        _most_said(one.measures, arm.labels),
        _figure(one.measures.get("parse_ok")),
    )


def _baseline(system: System) -> Sequence[str]:
    return (
        system.name,
        _figure(system.measures.get("label_match")),
        _interval(system.measures.get("macro_f1")),
        "",
        _figure(system.measures.get("min_class_recall")),
    )


def _figure(measure: Measure | None) -> str:
    return "missing" if measure is None else f"{measure.value:.3f}"


def _interval(measure: Measure | None) -> str:
    if measure is None or measure.low is None or measure.high is None:
        return _figure(measure)
    return f"{measure.value:.3f} {measure.low:.2f}-{measure.high:.2f}"


def _most_said(measures: Measures, labels: tuple[str, ...]) -> str:
    """Return the class with the largest share of the answers, and that share."""
    shares = {
        label: measure.value for label in labels if (measure := measures.get(f"predicted_share/{label}")) is not None
    }
    top = max(shares, key=shares.__getitem__, default=None)
    return "missing" if top is None else f"{top} {100 * shares[top]:.0f} %"


def compared_labels(folders: Sequence[Path], task: str | None) -> Comparison:
    """Compare runs on labels.

    Raises:
        DataError: a folder holds no run.
        ConfigError: there is no such label, or the runs are not on it.
    """
    if task is not None and task not in tuple(Subject):
        raise ConfigError(
            "there is no such choice of a label", field="--task", value=task, allowed=" or ".join(Subject)
        )
    found = compare_labels(folders, None if task is None else Subject(task))
    told = (*found.headline, *verdict_words(found.judged), *found.notes)
    return Comparison(comparison_document(found), summary_table(found), told)
