"""Which papers a step trains on, and when something is due."""

import numpy as np
import pytest

from tinsmith.lab.labels.labelled_papers import best_offsets, decide
from tinsmith.lab.schedule import batch, due, saves_after, subset


def test_an_epoch_sees_every_paper_once_and_the_next_in_another_order() -> None:
    items = list(range(10))
    seen = [item for step in range(10) for item in batch(items, 3, step, seed=1)]
    first, second, third = seen[:10], seen[10:20], seen[20:30]
    assert sorted(first) == sorted(second) == sorted(third) == items
    assert first != second
    assert seen != [item for step in range(10) for item in batch(items, 3, step, seed=2)]


def test_a_step_needs_no_step_before_it() -> None:
    items = list(range(7))
    assert batch(items, 4, 5, seed=0) == batch(items, 4, 5, seed=0)


def test_a_subset_is_not_the_beginning_and_keeps_the_order() -> None:
    items = [0] * 50 + [1] * 50
    chosen = subset(items, 40)
    assert len(chosen) == 40
    assert 10 < sum(chosen) < 30
    assert list(chosen) == sorted(chosen)
    assert subset(items, 0) is items
    assert subset(items, 200) is items


@pytest.mark.parametrize(("step", "every", "expected"), [(0, 5, True), (5, 5, True), (6, 5, False), (0, 0, False)])
def test_due(step: int, every: int, expected: bool) -> None:
    assert due(step, every) is expected


def test_the_last_step_is_saved_unless_nothing_is() -> None:
    assert [step for step in range(5) if saves_after(step, 5, 2)] == [1, 3, 4]
    assert not any(saves_after(step, 5, 0) for step in range(5))


def test_offsets_undo_a_tilt_and_are_zero_where_nothing_is_gained() -> None:
    labels = ("a", "b", "c")
    golds = ["a", "b", "c"] * 20
    straight = np.log(np.array([[0.5 if label == gold else 0.25 for label in labels] for gold in golds]))
    assert best_offsets(straight, golds, labels) == (0.0, 0.0, 0.0)
    tilted = straight + np.array([2.0, 0.0, 0.0])
    assert set(decide(tilted, (0.0, 0.0, 0.0))) == {0}
    offsets = best_offsets(tilted, golds, labels)
    assert [labels[k] for k in decide(tilted, offsets)] == golds


def in_pairs(item: int) -> str:
    return str(item // 2)


def test_items_of_one_unit_are_taken_in_the_same_step() -> None:
    items = list(range(20))
    for step in range(15):
        taken = batch(items, 4, step, 7, in_pairs)
        assert [in_pairs(one) for one in taken[::2]] == [in_pairs(one) for one in taken[1::2]]
    epoch = [one for step in range(5) for one in batch(items, 4, step, 7, in_pairs)]
    assert sorted(epoch) == items
    assert epoch != [one for step in range(5, 10) for one in batch(items, 4, step, 7, in_pairs)]


def test_units_of_one_are_taken_as_items_are() -> None:
    items = list(range(11))
    for step in range(9):
        assert batch(items, 4, step, 3, str) == batch(items, 4, step, 3)
    assert subset(items, 5, str) == subset(items, 5)


def test_a_subset_has_whole_units() -> None:
    items = list(range(40))
    for count in (2, 5, 12, 39):
        taken = subset(items, count, in_pairs)
        assert len(taken) == count - count % 2
        assert taken == sorted(taken)
        assert {one ^ 1 for one in taken} == set(taken)
    assert len(subset(items, 1, in_pairs)) == 2, "the first one is whole all the same"
