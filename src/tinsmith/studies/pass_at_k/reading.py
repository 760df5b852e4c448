"""Reads what the runs of an arm answered at their end: every sample's right or wrong, and what it looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.task_arms import ArmRead
from tinsmith.lab.user_task.records import TaskRollout
from tinsmith.stats.diagnostics.diversity import different, distinct_n
from tinsmith.stats.diagnostics.pass_at_k import boundary, pass_at_k
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.pass_at_k.source import MOST_LOOKUPS, lookups, way
from tinsmith.studies.pass_at_k.world import Hops
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer to a question."""

    right: bool
    looked_up: tuple[str, ...]
    way: tuple[str, ...]
    """What was looked in."""

    def within(self, turns: int) -> bool:
        """Whether it was right after so many look-ups at most: how many it may make is not told to the model."""
        return self.right and len(self.looked_up) <= turns


Samples = Mapping[str, Sequence[Sample]]
"""By question; those that failed are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSamples:
    """All samples of an arm, a mapping a seed."""

    words: str
    by_seed: tuple[Samples, ...]

    def of(self, hops: Hops) -> ArmSamples:
        """Return those of the questions with so many hops."""
        return ArmSamples(
            words=self.words,
            by_seed=tuple(
                {item: some for item, some in one.items() if item.split("-")[1] == hops.value} for one in self.by_seed
            ),
        )

    @property
    def fewest(self) -> int:
        """The fewest samples that any question has: the largest k there is."""
        return min(len(some) for one in self.by_seed for some in one.values())

    def passed(self, k: int, turns: int = MOST_LOOKUPS) -> MeanRuns:
        """Return pass@(k, T) of every question."""
        return MeanRuns.of(
            self.words,
            [
                {item: pass_at_k(len(some), sum(each.within(turns) for each in some), k) for item, some in one.items()}
                for one in self.by_seed
            ],
        )

    def boundaries(self) -> tuple[frozenset[str], ...]:
        """Return the questions that any sample solves, for each seed."""
        return tuple(
            boundary({item: [each.right for each in some] for item, some in one.items()}) for one in self.by_seed
        )

    def sequences(self) -> MeanRuns:
        """Return how many different sequences of look-ups every question gets."""
        return self._by_item(lambda some: Fraction(different([one.looked_up for one in some])))

    def ways(self) -> MeanRuns:
        """Return how many different ways (which lists, in which order) every question gets."""
        return self._by_item(lambda some: Fraction(different([one.way for one in some])))

    def distinct_pairs(self) -> MeanRuns:
        """Return distinct-2 of the look-ups, 0 where no two follow each other."""
        return self._by_item(lambda some: distinct_n([one.looked_up for one in some], 2) or Fraction())

    def _by_item(self, value: Callable[[Sequence[Sample]], Fraction]) -> MeanRuns:
        return MeanRuns.of(self.words, [{item: value(some) for item, some in one.items()} for one in self.by_seed])


def read_samples(read: ArmRead) -> ArmSamples:
    """Read the last evaluation of every run of an arm.

    Raises:
        DataError: a question has no sample left.
    """
    last = read.steps[-1]
    found: list[Samples] = []
    for one in read.reads:
        by_item: dict[str, list[Sample]] = {item.id: [] for item in one.task.items}
        for rollout in json_lines(one.run.folder / ROLLOUTS, TaskRollout, []):
            if (rollout.split, rollout.step) == (Split.EVAL, last) and rollout.failure is None:
                by_item[rollout.prompt_id].append(_sample(rollout))
        empty = next((item for item, some in by_item.items() if not some), None)
        if empty is not None:
            raise DataError("every answer to a question failed", field="cells", value=f"{read.words}: {empty}")
        found.append(by_item)
    return ArmSamples(words=read.words, by_seed=tuple(found))


def _sample(rollout: TaskRollout) -> Sample:
    said = [turn.text.strip() for turn in rollout.turns if turn.role == "assistant"]
    return Sample(right=rollout.metrics["right"] == 1.0, looked_up=lookups(said), way=way(said))
