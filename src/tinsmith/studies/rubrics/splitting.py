"""How a rubric data set is dealt to training and test: by task id and seed, never by file order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.studies.rubrics.task import RubricTask
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSplit:
    """Training and test tasks, each in the order the seed gave them."""

    train: tuple[RubricTask, ...]
    test: tuple[RubricTask, ...]
    train_ratio: float
    data_seed: int

    @property
    def sha256(self) -> str:
        """Fingerprint of every task's content, its side and its place."""
        return sha256_of(self)


def split_tasks(tasks: Sequence[RubricTask], *, train_ratio: float = 0.9, data_seed: int = 42) -> RubricSplit:
    """Deal tasks out; a ratio below 1 leaves at least one task on either side.

    Equal tasks in any order give the same split.
    """
    if not 0 < train_ratio <= 1:
        raise ConfigError("a share of the tasks", field="train_ratio", value=train_ratio, allowed="0 < r <= 1")
    if len({task.task_id for task in tasks}) < len(tasks):
        raise DataError("a task id occurs twice", field="task_id")
    sides = 1 if train_ratio == 1 else 2
    if len(tasks) < sides:
        raise DataError("there are too few tasks to split", field="tasks", value=len(tasks))
    order = sorted(tasks, key=lambda task: (_rank(task, data_seed), task.task_id))
    # As the ratio is written: 0.29 of 100 tasks are 29.
    count = int(Fraction(repr(float(train_ratio))) * len(tasks))
    if sides == 2:
        count = min(max(count, 1), len(tasks) - 1)
    return RubricSplit(
        train=tuple(order[:count]), test=tuple(order[count:]), train_ratio=float(train_ratio), data_seed=data_seed
    )


def _rank(task: RubricTask, seed: int) -> int:
    return derive(seed, "rubrics", "split", task.task_id)
