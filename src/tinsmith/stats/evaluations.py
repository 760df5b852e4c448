"""One system that labels every item for one task or several in one answer: their figures, and how often all are right.

All labels right is an exact match. Beside it stands what independence would give, the product of the tasks' shares of
right answers: a system that is right on the easy papers and wrong on the hard ones matches more often than that, and
one that trades one label for the other less often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.estimates import Bootstrap, Estimate
from tinsmith.stats.evaluation import Evaluation
from tinsmith.stats.intervals import percentile, wilson
from tinsmith.stats.rates import Metric
from tinsmith.stats.resampling import generator, pattern_counts
from tinsmith.types.errors import DataError

_MEANS = (Metric.MACRO_F1, Metric.BALANCED_ACCURACY)
"""Of these a system has the mean over its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often all labels of an answer are right."""

    exact_match: Estimate
    independent: Estimate
    """What independent tasks with the same shares of right answers would give."""
    difference: Estimate
    """The first minus the second: the covariance of being right, for two tasks."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluations:
    """The evaluations of one system's answers, one a task, by the task's name."""

    tasks: Mapping[str, Evaluation]

    def __post_init__(self) -> None:
        items = {tuple(one.item for one in each.answers) for each in self.tasks.values()}
        if len(items) != 1:
            raise DataError("every item is answered for every task", field="tasks")

    @property
    def num_items(self) -> int:
        """How many items were answered."""
        return len(self._right())

    @property
    def exact_match(self) -> float:
        """The share of items with all labels right."""
        return float(self._right().all(axis=1).sum()) / self.num_items

    def score(self, metric: Metric) -> float:
        """Return the mean of a metric over the tasks; of the smallest recall the smallest."""
        found = [one.confusion().score(metric) for one in self.tasks.values()]
        if metric is Metric.MIN_CLASS_RECALL:
            return min(found)
        return math.fsum(found) / len(found)

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return every figure as `prefix/name`; of several tasks as `prefix/TASK/name`, and of all together beside."""
        if len(self.tasks) == 1:
            return dict(next(iter(self.tasks.values())).metrics(prefix))
        found = {
            f"{prefix}/{name}/{key.removeprefix('eval/')}": value
            for name, one in self.tasks.items()
            for key, value in one.metrics("eval").items()
        }
        first = next(iter(self.tasks.values())).metrics("eval")
        for key in ("parse_ok", "format_strict_ok", "invalid_rate"):  # one text, one form
            found[f"{prefix}/{key}"] = first[f"eval/{key}"]
        for metric in (*_MEANS, Metric.MIN_CLASS_RECALL):
            if not math.isnan(value := self.score(metric)):
                found[f"{prefix}/{metric.value}"] = value
        return {**found, f"{prefix}/exact_match": self.exact_match}

    def agreement(self, bootstrap: Bootstrap) -> Agreement:
        """Return how often all labels are right, with intervals over items: Wilson's, and bootstrapped ones."""
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
        return Agreement(
            exact_match=Estimate(matched / n, wilson(matched, n, bootstrap.level)),
            independent=Estimate(alone, percentile(independent, bootstrap.level)),
            difference=Estimate(matched / n - alone, percentile(exact - independent, bootstrap.level)),
        )

    def _right(self) -> NDArray[np.bool_]:
        """Return which tasks were answered rightly, (n, tasks)."""
        columns = [[answer.predicted == answer.gold for answer in one.answers] for one in self.tasks.values()]
        return np.array(columns, dtype=np.bool_).T
