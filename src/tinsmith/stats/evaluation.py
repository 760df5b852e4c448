"""Evaluation of one system on one split: every reported figure, by its name in metrics.jsonl.

An answer is a record: what was true, what was answered, how the text failed. A rollout that failed is no answer and
must not come here. Where an answer labels an item for several tasks, an exact match has all labels right. Beside it
stands what independence would give, the product of the tasks' shares of right answers: a system that is right on the
easy papers and wrong on the hard ones matches more often than that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import log
from tinsmith.stats.draws import generator
from tinsmith.stats.estimates import Bootstrap, Estimate, Runs, pattern_counts, resampled_counts, resampled_seeds
from tinsmith.stats.intervals import percentile, wilson
from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, Confusion, FloatArray, Metric
from tinsmith.types.errors import DataError

STATED: Mapping[str, float] = MappingProxyType({"low": 0.2, "medium": 0.5, "high": 0.8})
"""The probability of being right that each word is read as."""


def calibration(confidences: Sequence[str | None], right: Sequence[bool]) -> Mapping[str, float]:
    """Return calibration errors of n stated confidences (None: no valid answer) against n correctness values.

    With c in {0, 1} and p the stated probability: `ece`, the expected calibration error, sum over words of
    n_w / n |accuracy_w - p_w|; `brier`, the mean (p - c)^2; `nll`, the mean -c log p - (1 - c) log(1 - p), in nats. All
    are NaN where no item states a confidence. Sources: Naeini, Cooper, Hauskrecht, AAAI 2015, the bins being the words;
    Brier, Monthly Weather Review 78 (1950), on being right.
    """
    if len(confidences) != len(right):
        raise DataError("every item needs a confidence and an answer", field="confidences")
    unknown = sorted({word for word in confidences if word is not None} - set(STATED))
    if unknown:
        what = "this is not a stated confidence"
        raise DataError(what, field="confidence", value=unknown[0], allowed=STATED)
    sums: dict[str, list[float]] = {"ece": [], "brier": [], "nll": []}
    for word, p in STATED.items():
        answers = [bool(c) for w, c in zip(confidences, right, strict=True) if w == word]
        hits, misses = sum(answers), len(answers) - sum(answers)
        sums["ece"].append(abs(hits - len(answers) * p))
        sums["brier"].append(hits * (1.0 - p) * (1.0 - p) + misses * p * p)
        sums["nll"].append(-hits * _log(p) - misses * _log(1.0 - p))
    n = sum(word is not None for word in confidences)
    return {name: math.fsum(values) / n if n else math.nan for name, values in sums.items()}


def _log(p: float) -> float:
    return float(log(np.array(p)))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Spearman's rank correlation, -1 to 1; 0 if either side is constant.

    >>> spearman([0.0, 0.5, 1.0], [0.1, 0.2, 0.9])
    1.0
    """
    a, b = _centred(x), _centred(y)
    scale = math.fsum(one * one for one in a) * math.fsum(one * one for one in b)
    if scale == 0.0:
        return 0.0
    return math.fsum(one * other for one, other in zip(a, b, strict=True)) / math.sqrt(scale)


def _centred(values: Sequence[float]) -> list[float]:
    middle = (len(values) + 1) / 2
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 - middle
        for one in values
    ]


_FORM, _PARSED = "format_strict_ok", "parse_ok"
FIGURES = (*(one.value for one in Metric), _FORM, _PARSED, *(one.value for one in ClassMetric))
"""Names of the figures; those of a single label are followed by `/` and the label."""


def _by_name(labels: Sequence[str], counts: FloatArray, names: Collection[str] = FIGURES) -> dict[str, FloatArray]:
    scores = {metric.value: SCORES[metric](counts) for metric in Metric if metric in names}
    if _FORM in names:
        scores[_FORM] = 1.0 - SCORES[Metric.INVALID_RATE](counts)
    for kind in (one for one in ClassMetric if one in names):
        values = CLASS_SCORES[kind](counts)
        scores |= {f"{kind.value}/{label}": values[..., i] for i, label in enumerate(labels)}
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Answer to one item, with its true label and outcome.

    `predicted` is None unless the answer satisfies its contract; `lenient` is the label found when
    fences, thoughts and text around the JSON object are forgiven.
    """

    item: str
    gold: str
    predicted: str | None
    outcome: str
    parse_ok: bool
    confidence: str | None = None
    lenient: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """All figures of one system on one split."""

    labels: tuple[str, ...]
    answers: tuple[Answered, ...]
    num_given: int = 0  # Items with those whose rollout failed; 0: not known.

    def __post_init__(self) -> None:
        if not self.answers:
            raise DataError("there is no answer to evaluate", field="answers")
        if len({answer.item for answer in self.answers}) != len(self.answers):
            raise DataError("an item is answered twice", field="answers")
        self.confusion()

    def confusion(self) -> Confusion:
        """Return the confusion matrix of the strict answers."""
        return self._confusion([answer.predicted for answer in self.answers])

    def runs(self, name: str) -> Runs:
        """Return the strict answers as runs with one seed, for intervals, tests and claims."""
        return combine(name, [self])

    def metrics(self, prefix: str = "eval") -> Mapping[str, float]:
        """Return every defined figure as `prefix/name`; undefined figures are left out, never zero.

        `label_match invalid_rate macro_f1 balanced_accuracy min_class_recall parse_ok
        format_strict_ok`, per label `recall precision f1 predicted_share`, the calibration errors
        `ece brier nll` where confidences are stated, and `lenient_label_match lenient_invalid_rate
        lenient_macro_f1` beside the strict ones.
        """
        lenient = self._confusion([answer.lenient for answer in self.answers])
        stated = [answer.confidence if answer.predicted is not None else None for answer in self.answers]
        scores = _by_name(self.labels, self.confusion().counts.astype(np.float64))
        # Metrics.jsonl is hashed, and a root's last bit depends on the machine.
        figures = {name: float(value) for name, value in scores.items() if name != Metric.G_MEAN.value}
        figures |= {name: count / len(self.answers) for name, count in self._shares().items()}
        for metric in (Metric.LABEL_MATCH, Metric.INVALID_RATE, Metric.MACRO_F1):
            figures[f"lenient_{metric.value}"] = lenient.score(metric)
        figures |= calibration(stated, [answer.predicted == answer.gold for answer in self.answers])
        return {f"{prefix}/{name}": value for name, value in sorted(figures.items()) if not math.isnan(value)}

    def estimates(self, bootstrap: Bootstrap, names: Collection[str] = FIGURES) -> Mapping[str, Estimate]:
        """Return figures of the strict answers with intervals, without prefix; see `estimates_of`."""
        runs = self.runs("system")
        return estimates_of(runs, bootstrap, parsed_of([self], runs) if _PARSED in names else None, names)

    def _shares(self) -> dict[str, int]:
        """Return the numbers of answers that shares of all items are of, by the share's name."""
        valid = sum(answer.predicted is not None for answer in self.answers)
        return {
            Metric.LABEL_MATCH.value: sum(answer.predicted == answer.gold for answer in self.answers),
            Metric.INVALID_RATE.value: len(self.answers) - valid,
            "parse_ok": sum(answer.parse_ok for answer in self.answers),
            "format_strict_ok": valid,
        }

    def _confusion(self, predicted: Sequence[str | None]) -> Confusion:
        return Confusion.of(self.labels, [answer.gold for answer in self.answers], predicted)


def combine(name: str, evaluations: Sequence[Evaluation]) -> Runs:
    """Combine one system's evaluations, one per seed, into the runs from which claims are computed.

    Only items that every seed answered are kept: a rollout that failed is left out, never scored.
    """
    if not evaluations:
        raise DataError(f"{name}: no evaluation was given", field="evaluations")
    by_item = [{answer.item: answer for answer in one.answers} for one in evaluations]
    shared = [answer for answer in evaluations[0].answers if all(answer.item in one for one in by_item)]
    for one, answers in zip(evaluations, by_item, strict=True):
        if one.labels != evaluations[0].labels or any(answers[answer.item].gold != answer.gold for answer in shared):
            raise DataError(f"{name}: its seeds were not scored on the same labels", field="labels")
    found = Runs.of(
        name,
        evaluations[0].labels,
        [answer.item for answer in shared],
        [answer.gold for answer in shared],
        [[answers[answer.item].predicted for answer in shared] for answers in by_item],
    )
    return replace(found, num_given=max(len(set().union(*by_item)), *(one.num_given for one in evaluations)))


def parsed_of(evaluations: Sequence[Evaluation], runs: Runs) -> Runs:
    """Return the validity of JSON as runs with the only label `json`; one row per evaluation."""
    by_seed = [{one.item: one.parse_ok for one in each.answers} for each in evaluations]
    rows = [["json" if each[item] else None for item in runs.items] for each in by_seed]
    return Runs.of(runs.name, ("json",), runs.items, ["json"] * runs.num_items, rows)


_SHARES = (Metric.LABEL_MATCH.value, Metric.INVALID_RATE.value, _FORM)  # Of all items.


def estimates_of(
    runs: Runs, bootstrap: Bootstrap, parsed: Runs | None = None, names: Collection[str] = FIGURES
) -> dict[str, Estimate]:
    """Estimate the figures in `names`, keyed as in metrics.jsonl; `parsed` has the validity of JSON.

    Means over seeds, with percentile intervals over seeds and items, all from the same resamples of the items within
    true labels; shares of the items of one seed have Wilson's.
    """
    level, seed, estimates = bootstrap.level, bootstrap.seed, dict[str, Estimate]()
    drawn = resampled_counts(runs.golds, runs.predicted, len(runs.labels), draws=bootstrap.draws, seed=seed)
    draws = _by_name(runs.labels, drawn, names)
    for name, scores in _by_name(runs.labels, runs.counts().astype(np.float64), names).items():
        value, ends = float(scores.mean()), percentile(resampled_seeds(draws[name], seed=seed, system="first"), level)
        is_certain = value in (0.0, 1.0) and ends is not None and ends.low == ends.high
        if name in _SHARES and (runs.num_seeds == 1 or is_certain):
            ends = wilson(round(value * runs.num_items), runs.num_items, level)
        estimates[name] = Estimate(value, ends)
    if parsed is not None:
        estimates[_PARSED] = estimates_of(parsed, bootstrap, names=(Metric.LABEL_MATCH,))[Metric.LABEL_MATCH.value]
    return estimates


_MEANS = (Metric.MACRO_F1, Metric.BALANCED_ACCURACY)  # Of these a system has the mean over its tasks.


@dataclass(frozen=True, slots=True, eq=False)
class Evaluations:
    """Evaluations of one system by task, over the same items."""

    tasks: Mapping[str, Evaluation]

    def __post_init__(self) -> None:
        items = {tuple(one.item for one in each.answers) for each in self.tasks.values()}
        if len(items) != 1:
            raise DataError("every item is answered for every task", field="tasks")

    @property
    def num_items(self) -> int:
        """Number of items that were answered."""
        return len(self._right())

    @property
    def exact_match(self) -> float:
        """The share of items with all labels right."""
        return float(self._right().all(axis=1).sum()) / self.num_items

    def score(self, metric: Metric) -> float:
        """Return the mean of a metric over the tasks; of the smallest recall the smallest."""
        scores = [one.confusion().score(metric) for one in self.tasks.values()]
        if metric is Metric.MIN_CLASS_RECALL:
            return min(scores)
        return math.fsum(scores) / len(scores)

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return every figure as `prefix/name`; with several tasks also each task's as `prefix/TASK/name`."""
        if len(self.tasks) == 1:
            return dict(next(iter(self.tasks.values())).metrics(prefix))
        figures = {
            f"{prefix}/{name}/{key.removeprefix('eval/')}": value
            for name, one in self.tasks.items()
            for key, value in one.metrics("eval").items()
        }
        first = next(iter(self.tasks.values())).metrics("eval")
        for key in ("parse_ok", "format_strict_ok", "invalid_rate"):  # one text, one form
            figures[f"{prefix}/{key}"] = first[f"eval/{key}"]
        for metric in (*_MEANS, Metric.MIN_CLASS_RECALL):
            if not math.isnan(value := self.score(metric)):
                figures[f"{prefix}/{metric.value}"] = value
        return {**figures, f"{prefix}/exact_match": self.exact_match}

    def agreement(self, bootstrap: Bootstrap) -> tuple[Estimate, Estimate, Estimate]:
        """Return the exact-match rate, its expectation under independent tasks, and the gap between them.

        Independent tasks have the same shares of right answers; the gap is the covariance of being right, for two
        tasks. Intervals are over items: Wilson's, and bootstrapped ones.
        """
        right = self._right()
        n, tasks = right.shape
        every = np.arange(2**tasks)
        patterns = (every[:, None] >> np.arange(tasks)) & 1  # which tasks are right, (P, tasks)
        member = right.astype(np.int64) @ (1 << np.arange(tasks, dtype=np.int64))
        rng = generator(bootstrap.seed, "joint")
        chunks = pattern_counts(member, len(every), bootstrap.draws, rng)
        counts = np.concatenate(list(chunks))  # (R, P), whole numbers: their sums are exact
        exact, independent = counts[:, -1] / n, (counts @ patterns / n).prod(axis=1)
        alone = float((right.sum(axis=0) / n).prod())
        matched = int(right.all(axis=1).sum())
        return (
            Estimate(matched / n, wilson(matched, n, bootstrap.level)),
            Estimate(alone, percentile(independent, bootstrap.level)),
            Estimate(matched / n - alone, percentile(exact - independent, bootstrap.level)),
        )

    def _right(self) -> NDArray[np.bool_]:
        columns = [[answer.predicted == answer.gold for answer in one.answers] for one in self.tasks.values()]
        return np.array(columns, dtype=np.bool_).T
