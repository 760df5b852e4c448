"""The split of rubric tasks: by id and seed, whole, repeatable, and fingerprinted."""

import dataclasses
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.studies.rubrics.dataset import Rubric, RubricTask, split_tasks
from tinsmith.types.errors import ConfigError, DataError


def tasks(count: int) -> list[RubricTask]:
    rubrics = (Rubric(criterion="c", number=1),)
    return [RubricTask(task_id=f"t{i}", prompt=f"p{i}", rubrics=rubrics) for i in range(count)]


@given(st.integers(2, 40), st.floats(0.01, 1), st.integers(0, 99), st.randoms(use_true_random=False))
def test_a_split_deals_every_task_once_whatever_the_order(count: int, ratio: float, seed: int, random: Random) -> None:
    given_tasks = tasks(count)
    first = split_tasks(given_tasks, train_ratio=ratio, data_seed=seed)
    random.shuffle(given_tasks)
    again = split_tasks(given_tasks, train_ratio=ratio, data_seed=seed)
    assert first == again
    assert first.sha256 == again.sha256
    assert sorted(one.task_id for one in first.train + first.test) == sorted(one.task_id for one in given_tasks)
    assert first.train
    assert bool(first.test) == (ratio < 1)


def test_the_share_is_as_written_and_the_seed_changes_who() -> None:
    hundred = tasks(100)
    assert [len(split_tasks(hundred, train_ratio=r).train) for r in (0.29, 0.9, 0.57)] == [29, 90, 57]
    one, other = (split_tasks(hundred, data_seed=seed) for seed in (42, 43))
    assert set(one.test) != set(other.test)
    assert one.sha256 != other.sha256


def test_the_split_of_known_ids_is_frozen() -> None:
    found = split_tasks(tasks(10), train_ratio=0.7, data_seed=42)
    assert [one.task_id for one in found.test] == FROZEN


def test_content_is_fingerprinted() -> None:
    some = tasks(4)
    changed = [dataclasses.replace(some[0], prompt="other"), *some[1:]]
    assert split_tasks(some).sha256 != split_tasks(changed).sha256


def test_what_cannot_be_split_is_refused() -> None:
    for ratio in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="train_ratio"):
            split_tasks(tasks(4), train_ratio=ratio)
    with pytest.raises(DataError, match="too few"):
        split_tasks(tasks(1))
    with pytest.raises(DataError, match="twice"):
        split_tasks([*tasks(2), *tasks(1)])


FROZEN = ["t2", "t7", "t1"]
