"""Figures of systems that label papers: arms on a split, with intervals over seeds and papers, and baselines.

Where a run's folder keeps what a baseline answered, paper by paper, arms are compared with these answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tinsmith.data.baselines.report import Baseline, BaselineScore, TargetReport
from tinsmith.lab.runs.records import SPLIT_WORDS, Run, Split
from tinsmith.pages.measures import BOOTSTRAP, Measure, Measures, from_estimate, from_figure
from tinsmith.stats.estimates import Bootstrap, Runs
from tinsmith.stats.evaluation import FIGURES, estimates_of, parsed_of
from tinsmith.stats.mean_runs import gap_of
from tinsmith.stats.rates import ClassMetric, Metric, encode
from tinsmith.types.page_names import metric_name
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from tinsmith.lab.results.arms import LabelArm

TESTS: Final = (Split.TEST, Split.TEST_GREEDY, Split.TEST_OFFSET, Split.TEST_LAST, Split.TEST_LAST_GREEDY)
_FINDINGS: Final = ("indistinguishable", "above", "below")  # By the side on which an interval leaves out 0.
_UNSHOWN: Final = (Metric.G_MEAN.value, ClassMetric.PRECISION.value, ClassMetric.F1.value)
_SHOWN: Final = frozenset(FIGURES).difference(_UNSHOWN)  # On pages.
EVALUATIONS: Final = (Split.EVAL, Split.EVAL_GREEDY)
_LAST: Final = (Split.TEST_LAST, Split.TEST_LAST_GREEDY)
BASELINE_WORDS: Final[Mapping[Baseline, tuple[str, str]]] = {
    Baseline.MAJORITY: ("Constant", "always the most frequent training class"),
    Baseline.PRIOR: ("Prior", "a guess by the training shares; expected values"),
    Baseline.METADATA: ("Metadata only", "gradient boosting on year, citations, field"),
    Baseline.TEXT: ("TF-IDF", "logistic regression on title and abstract"),
    Baseline.BOTH: ("TF-IDF + metadata", "logistic regression on both"),
    Baseline.ORACLE: ("Planted cause only", "the commonest label of each paper's planted cause"),
}
"""Display name and description of every baseline."""
RIVALS: Final = (Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT, Baseline.BOTH)
"""Baselines that runs are compared with: not the prior, which decides nothing, nor the oracle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A checkpoint, sampled or greedy, or a baseline."""

    name: str
    what: str
    num_items: int | None
    measures: Measures


def systems_of(arm: LabelArm, draws: Bootstrap) -> dict[Split, System]:
    """Return an arm's systems on the test split, or of its last validation without a test."""
    found = {split: one for split in TESTS if (one := _system(arm, split, draws)) is not None}
    return found or {split: one for split in EVALUATIONS if (one := _system(arm, split, draws)) is not None}


def last_is_selected(arm: LabelArm) -> bool:
    """Return true if every run selected its last checkpoint."""
    manifests = [(member.run.manifest, member.run.last_step) for member in arm.reads]
    return all(one is not None and one.selected is not None and one.selected.step == last for one, last in manifests)


def _system(arm: LabelArm, split: Split, draws: Bootstrap) -> System | None:
    if split in _LAST and last_is_selected(arm):
        return None
    what = _checkpoint(arm, split)
    answers = arm.answers_on(split)
    if answers is not None:
        evaluations = [one for read in arm.reads if (one := read.last(split)) is not None]
        measures = measures_of(answers, parsed_of(evaluations, answers), draws)
        return System(name=SPLIT_WORDS[split], what=what, num_items=answers.num_items, measures=measures)
    for row in reversed(list(arm.first.metrics.values())):
        prefix = f"{split}/"
        known = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
        measures = {key: Measure(value) for key, value in known.items() if value is not None}
        if measures and len(arm.reads) == 1:
            what = f"{what}; its rollouts are missing, so there are no intervals"
            return System(name=SPLIT_WORDS[split], what=what, num_items=None, measures=measures)
    return None


def _checkpoint(arm: LabelArm, split: Split) -> str:
    counted = arm.answered(split) or arm.reads
    seeds = f"seed{'' if len(counted) == 1 else 's'} {arm.seed_words(split) or arm.seed_words()}"
    manifest = arm.first.manifest
    if len(arm.reads) > 1:
        answers = arm.answers_on(split)
        values = [one.score(Metric.MACRO_F1) for one in answers.confusions()] if answers else []
        return f"{seeds}{f', macro-F1 {min(values):.3f} to {max(values):.3f}' if values else ''}"
    if split in (*_LAST, *EVALUATIONS):
        return f"{seeds}, step {arm.first.last_step}"
    if manifest is None or manifest.selected is None:
        return f"{seeds}; the manifest does not say which step was selected"
    last = "; also the last one" if last_is_selected(arm) else ""
    rule = metric_name(manifest.selected.by or "an unnamed rule")
    return f"{seeds}, step {manifest.selected.step}, selected by {rule}{last}"


def commonest_answer(measures: Measures) -> tuple[str, float]:
    """Return the most frequent answer, and its share; empty if unknown."""
    begin = f"{ClassMetric.PREDICTED_SHARE.value}/"
    shares = {key.removeprefix(begin): one.value for key, one in measures.items() if key.startswith(begin)}
    top = max(shares, key=shares.__getitem__, default="")
    return top, shares.get(top, 0.0)


def measures_of(runs: Runs, parsed: Runs | None = None, draws: Bootstrap = BOOTSTRAP) -> dict[str, Measure]:
    """Return the defined metrics of answers for pages; see `estimates_of`."""
    found = estimates_of(runs, draws, parsed, _SHOWN)
    return {name: from_estimate(one) for name, one in found.items() if not math.isnan(one.value)}


def baseline_systems(report: TargetReport | None) -> list[System]:
    """Return the baselines of a slice."""
    systems: list[System] = []
    for score in report.scores if report else ():
        name, what = BASELINE_WORDS[score.baseline]
        recalls = {f"recall/{label}": from_figure(one) for label, one in score.recall.items()}
        measures = {
            "label_match": from_figure(score.accuracy),
            "macro_f1": from_figure(score.macro_f1),
            "min_class_recall": from_figure(score.min_class_recall),
            **recalls,
        }
        if recalls:
            measures["balanced_accuracy"] = Measure(math.fsum(one.value for one in recalls.values()) / len(recalls))
        systems.append(System(name=name, what=what, num_items=score.n, measures=measures))
    return systems


def rival(baseline: Baseline | str, run: Run, other: Runs) -> Runs | None:
    """Return a baseline's answers to the papers of `other`, from the folder of `run`; None if it has none.

    They are its own where the folder keeps one for each of these papers, so that the comparison is paired; a mixture
    of its own and dealt ones would be neither.
    """
    score = next((one for one in (run.baselines.scores if run.baselines else ()) if one.baseline == baseline), None)
    if score is None or not is_paired(score, run, other):
        return score and unpaired(score, other)
    answers = run.baseline_answers[score.baseline]
    codes = encode(other.labels, [answers[item] for item in other.items])
    return Runs(BASELINE_WORDS[score.baseline][0], other.labels, other.items, other.golds, codes[None])


def is_paired(score: BaselineScore, run: Run, other: Runs) -> bool:
    """Return True if the run's folder has a baseline's answer to every paper."""
    answers = run.baseline_answers.get(score.baseline, {})
    return all(answers.get(item) in other.labels for item in other.items)


def unpaired(score: BaselineScore, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, reconstructed from its confusion matrix.

    Which papers it got right is not known then, so its answers are dealt out at random within each true label. A
    difference is as uncertain as between two systems that err independently: more than it truly is, as both find the
    same papers hard.
    """
    codes = np.empty(other.num_items, np.int64)
    for place, label in enumerate(other.labels):
        papers = np.flatnonzero(other.golds == place)
        row = score.confusion.get(label, {})
        shares = np.array([row.get(answer, 0.0) for answer in other.labels])
        dealt = np.repeat(np.arange(len(other.labels)), _apportioned(shares, len(papers)))
        random = np.random.Generator(np.random.PCG64(derive(0, "unpaired", score.baseline.value, label)))
        codes[papers] = random.permutation(dealt)
    return Runs(BASELINE_WORDS[score.baseline][0], other.labels, other.items, other.golds, codes[None])


def _apportioned(shares: np.ndarray, total: int) -> np.ndarray:
    """Round `shares` to integers with the sum `total`, as near as possible; unchanged if they are integers."""
    if shares.sum() == 0:
        shares = np.ones_like(shares)
    exact = shares / shares.sum() * total
    whole = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def standing_rows(arms: Iterable[LabelArm], bootstrap: Bootstrap) -> list[list[Measure | str | None]]:
    """Return arms' differences to constant, metadata and TF-IDF baselines, uncorrected and without controls."""
    return [
        [arm.name, BASELINE_WORDS[baseline][0], gap, _FINDINGS[gap.above(0.0) - gap.below(0.0)]]
        for arm in arms
        for baseline in RIVALS[:3]
        if not arm.shuffled and (gap := beside(arm, baseline, bootstrap)) is not None
    ]


def beside(arm: LabelArm, baseline: Baseline, bootstrap: Bootstrap = BOOTSTRAP) -> Measure | None:
    """Return an arm's macro-F1 minus a baseline's; None if either has no answers."""
    answers = arm.answers_on()
    other = None if answers is None else rival(baseline, arm.first, answers)
    if answers is None or other is None:
        return None
    return from_estimate(gap_of(answers, other, Metric.MACRO_F1, bootstrap))
