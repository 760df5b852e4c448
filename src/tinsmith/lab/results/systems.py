"""Figures of systems that label papers: arms on a split, with intervals over seeds and papers, and baselines.

Where a run's folder keeps what a baseline answered, paper by paper, arms are compared with these answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tinsmith.data.baselines.report import Baseline, BaselineScore, TargetReport
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.runs.records import SPLIT_WORDS, Run, Split
from tinsmith.pages.measures import BOOTSTRAP, Measure, Measures, from_figure, within
from tinsmith.stats.estimates import Bootstrap, Runs, difference, resampled_counts, resampled_seeds
from tinsmith.stats.intervals import percentile, wilson
from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, FloatArray, Metric, encode, metric_words
from tinsmith.types.seeds import derive

TESTS: Final = (Split.TEST, Split.TEST_GREEDY, Split.TEST_OFFSET, Split.TEST_LAST, Split.TEST_LAST_GREEDY)
EVALUATIONS: Final = (Split.EVAL, Split.EVAL_GREEDY)
_LAST: Final = (Split.TEST_LAST, Split.TEST_LAST_GREEDY)
BASELINE_WORDS: Final[Mapping[Baseline, tuple[str, str]]] = {
    Baseline.MAJORITY: ("Constant", "always the most frequent training class"),
    Baseline.PRIOR: ("Prior", "a guess by the training shares; expected values"),
    Baseline.METADATA: ("Metadata only", "gradient boosting on year, citations, field"),
    Baseline.TEXT: ("TF-IDF", "logistic regression on title and abstract"),
    Baseline.BOTH: ("TF-IDF + metadata", "logistic regression on both"),
    Baseline.ORACLE: ("Oracle", "knows the planted cause of every paper, and nothing else"),
}
"""Name of every baseline on a page, and what it is."""
RIVALS: Final = (Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT, Baseline.BOTH)
"""Baselines that a run is held against: the prior decides nothing, and the oracle knows what nobody does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A checkpoint, sampled or greedy, or a baseline."""

    name: str
    what: str
    num_items: int | None
    measures: Measures


Scored = Mapping[str, Mapping[Split, System]]  # By arm and split.


def systems_of(arm: Arm, draws: Bootstrap = BOOTSTRAP) -> dict[Split, System]:
    """Return an arm's systems on the test split, or those of its last validation where it has none."""
    found = {split: one for split in TESTS if (one := _system(arm, split, draws)) is not None}
    return found or {split: one for split in EVALUATIONS if (one := _system(arm, split, draws)) is not None}


def last_is_selected(arm: Arm) -> bool:
    """Return true if every run selected its last checkpoint."""
    manifests = [(member.run.manifest, member.run.last_step) for member in arm.members]
    return all(one is not None and one.selected is not None and one.selected.step == last for one, last in manifests)


def _system(arm: Arm, split: Split, draws: Bootstrap) -> System | None:
    if split in _LAST and last_is_selected(arm):
        return None
    what = _checkpoint(arm, split)
    answers = arm.answers(split)
    if answers is not None:
        found = measures_of(answers, _parsed(arm, split, answers), draws)
        return System(name=SPLIT_WORDS[split], what=what, num_items=answers.num_items, measures=found)
    for row in reversed(list(arm.first.metrics.values())):
        prefix = f"{split}/"
        known = {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}
        found = {key: Measure(value) for key, value in known.items() if value is not None}
        if found and len(arm.members) == 1:
            what = f"{what}; its rollouts are missing, so there are no intervals"
            return System(name=SPLIT_WORDS[split], what=what, num_items=None, measures=found)
    return None


def _checkpoint(arm: Arm, split: Split) -> str:
    counted = arm.counted(split) or arm.members
    seeds = f"seed{'' if len(counted) == 1 else 's'} {arm.seeds(split) or arm.seeds()}"
    manifest = arm.first.manifest
    if len(arm.members) > 1:
        answers = arm.answers(split)
        values = [one.score(Metric.MACRO_F1) for one in answers.confusions()] if answers else []
        return f"{seeds}{f', macro-F1 {min(values):.3f} to {max(values):.3f}' if values else ''}"
    if split in (*_LAST, *EVALUATIONS):
        return f"{seeds}, step {arm.first.last_step}"
    if manifest is None or manifest.selected is None:
        return f"{seeds}; the manifest does not say which step was selected"
    last = "; also the last one" if last_is_selected(arm) else ""
    rule = metric_words(manifest.selected.by or "an unnamed rule")
    return f"{seeds}, step {manifest.selected.step}, selected by {rule}{last}"


def measures_of(runs: Runs, parsed: Runs | None = None, draws: Bootstrap = BOOTSTRAP) -> dict[str, Measure]:
    """Return the figures of answers by their names in metrics.jsonl; `parsed` says which are JSON.

    Means over seeds, with percentile intervals over seeds and papers; shares of the papers of one seed have Wilson's.
    """

    def measured(of: Runs, score: Callable[[FloatArray], FloatArray], *, share: bool = False) -> Measure:
        value = float(score(of.counts().astype(np.float64)).mean())
        drawn = counts if of is runs else _resampled(of, draws)
        ends = percentile(resampled_seeds(score(drawn), seed=draws.seed, system="first"), draws.level)
        if share and (of.num_seeds == 1 or (value in (0.0, 1.0) and ends is not None and ends.low == ends.high)):
            ends = wilson(round(value * of.num_items), of.num_items)
        return within(value, ends)

    counts = _resampled(runs, draws)
    shares = (Metric.LABEL_MATCH, Metric.INVALID_RATE)
    metrics = [metric for metric in Metric if metric is not Metric.G_MEAN]
    found = {metric.value: measured(runs, SCORES[metric], share=metric in shares) for metric in metrics}
    for kind in (ClassMetric.RECALL, ClassMetric.PREDICTED_SHARE):
        for k, label in enumerate(runs.labels):
            found[f"{kind.value}/{label}"] = measured(
                runs, lambda some, kind=kind, k=k: CLASS_SCORES[kind](some)[..., k]
            )
    found["format_strict_ok"] = measured(runs, lambda some: 1.0 - SCORES[Metric.INVALID_RATE](some), share=True)
    if parsed is not None:
        found["parse_ok"] = measured(parsed, SCORES[Metric.LABEL_MATCH], share=True)
    return {name: one for name, one in found.items() if not math.isnan(one.value)}


def _resampled(runs: Runs, draws: Bootstrap) -> FloatArray:
    return resampled_counts(runs.golds, runs.predicted, len(runs.labels), draws=draws.draws, seed=draws.seed)


def _parsed(arm: Arm, split: Split, answers: Runs) -> Runs:
    """Return which answers are JSON, as if JSON were the only label."""
    found = [one for m in arm.counted(split) if (one := m.last(split)) is not None]
    by_seed = [{one.item: one.parse_ok for one in each.answers} for each in found]
    rows = [["json" if each[item] else None for item in answers.items] for each in by_seed]
    return Runs.of(arm.name, ("json",), answers.items, ["json"] * answers.num_items, rows)


def baseline_systems(report: TargetReport | None) -> list[System]:
    """Return the baselines of a slice."""
    found: list[System] = []
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
        found.append(System(name=name, what=what, num_items=score.n, measures=measures))
    return found


def rival(score: BaselineScore, run: Run, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, from the folder of `run`.

    They are its own where the folder keeps one for each of these papers, so that the comparison is paired; a mixture
    of its own and dealt ones would be neither.
    """
    if not is_paired(score, run, other):
        return unpaired(score, other)
    answers = run.baseline_answers[score.baseline]
    codes = encode(other.labels, [answers[item] for item in other.items])
    return Runs(BASELINE_WORDS[score.baseline][0], other.labels, other.items, other.golds, codes[None])


def is_paired(score: BaselineScore, run: Run, other: Runs) -> bool:
    """Return true if the run's folder keeps a baseline's answer to every paper."""
    answers = run.baseline_answers.get(score.baseline, {})
    return all(answers.get(item) in other.labels for item in other.items)


def rival_named(baseline: Baseline | str, run: Run, other: Runs) -> Runs | None:
    """Return a baseline's answers; None where the slice has none."""
    scores = run.baselines.scores if run.baselines else []
    found = next((score for score in scores if score.baseline == baseline), None)
    return rival(found, run, other) if found else None


def unpaired(score: BaselineScore, other: Runs) -> Runs:
    """Return a baseline's answers to the papers of `other`, from its confusion matrix alone.

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
    """Return whole numbers that add up to `total`, as near as can be to `shares`; those themselves if they do."""
    if shares.sum() == 0:
        shares = np.ones_like(shares)
    exact = shares / shares.sum() * total
    whole = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def standing_rows(arms: Iterable[Arm], bootstrap: Bootstrap) -> list[list[Measure | str | None]]:
    """Return where arms stand against constant, metadata and TF-IDF: differences without any gate; no control does."""
    rows: list[list[Measure | str | None]] = []
    for arm in arms:
        answers, report = arm.answers(), arm.first.baselines
        if arm.shuffled or answers is None or report is None:
            continue
        for score in (one for one in report.scores if one.baseline in RIVALS[:3]):
            gap, side = beside(arm, answers, score, bootstrap)
            finding = ("indistinguishable", "above", "below")[side]
            rows.append([arm.name, BASELINE_WORDS[score.baseline][0], gap, finding])
    return rows


def beside(arm: Arm, answers: Runs, score: BaselineScore, bootstrap: Bootstrap = BOOTSTRAP) -> tuple[Measure, int]:
    """Return how far an arm is above a baseline in macro-F1; and 1 above, -1 below, 0 where its interval holds 0."""
    apart = difference(answers, rival(score, arm.first, answers), Metric.MACRO_F1, bootstrap)
    ends = apart.interval
    if ends is None:
        return Measure(apart.value), 0
    return Measure(apart.value, ends.low, ends.high), (ends.low > 0.0) - (ends.high < 0.0)
