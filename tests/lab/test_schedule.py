"""Items and rate of a step, steps at which something is due, and batches of two pools."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.data.slices.splits import Split
from tinsmith.lab.course import Course
from tinsmith.lab.labels.labelled_papers import best_offsets, decide
from tinsmith.lab.policy import rate
from tinsmith.lab.schedule import Ratio, batch, due, ratio_of, saves_after, subset
from tinsmith.lab.settings import RlSettings, Schedule, SftSettings, identity_settings
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError, DataError


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


def rates(schedule: Schedule, steps: int = 10, warmup: float = 0.0) -> list[float]:
    settings = SftSettings(steps=steps, learning_rate=0.5, lr_schedule=schedule, lr_warmup=warmup)
    return [rate(settings, step) for step in range(steps)]


def test_schedules_without_warming_up() -> None:
    assert rates(Schedule.CONSTANT) == [0.5] * 10
    assert rates(Schedule.LINEAR) == [0.5 * (10 - step) / 10 for step in range(10)]
    cosine = rates(Schedule.COSINE)
    assert (cosine[0], cosine[5]) == (0.5, 0.25)
    assert cosine == sorted(cosine, reverse=True)
    assert 0.0 < cosine[-1] < 0.02


@pytest.mark.parametrize("schedule", Schedule)
def test_the_rate_rises_first_and_the_schedule_is_that_of_the_steps_after(schedule: Schedule) -> None:
    found = rates(schedule, steps=14, warmup=0.25)
    assert found[:4] == [0.125, 0.25, 0.375, 0.5]
    assert found[4:] == rates(schedule, steps=10)


def test_a_share_of_the_steps_is_rounded_up() -> None:
    assert rates(Schedule.COSINE, steps=157, warmup=0.03)[:5] == [pytest.approx(0.1 * step) for step in range(1, 6)]
    # 0.07 * 100 is a little above 7 in floats, and is meant to be 7.
    assert rates(Schedule.CONSTANT, steps=100, warmup=0.07)[6] == 0.5


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_warming_up_is_a_part_of_a_run(share: float) -> None:
    with pytest.raises(ConfigError, match="lr_warmup"):
        SftSettings(steps=1, learning_rate=1.0, lr_warmup=share)


def test_all_weights_include_the_unembedding() -> None:
    with pytest.raises(ConfigError, match="train_unembed"):
        SftSettings(steps=1, learning_rate=1.0, adapter=AdapterKind.FULL, train_unembed=False)


def test_a_later_key_names_a_run_only_where_it_is_used() -> None:
    plain = identity_settings(SftSettings(steps=1, learning_rate=1.0))
    assert "lr_schedule" in plain
    assert not {"lr_warmup", "train_unembed"} & set(plain)
    used = identity_settings(SftSettings(steps=1, learning_rate=1.0, lr_warmup=0.1, train_unembed=False))
    assert used == {**plain, "lr_warmup": 0.1, "train_unembed": False}


RL = RlSettings(steps=3, learning_rate=1e-3)


@pytest.mark.parametrize(("main", "aside"), [(10, 1), (5, 1), (2, 1), (1, 1), (2, 3), (1, 4)])
def test_the_ratio_is_exact_over_every_round_and_never_off_by_one(main: int, aside: int) -> None:
    ratio, taken = Ratio(main, aside), 0
    for step in range(4 * (main + aside)):
        turn = ratio.turn(step)
        assert turn.before == (taken if turn.aside else step - taken)
        taken += turn.aside
        assert taken == (step + 1) * aside // (main + aside)
    assert taken == 4 * aside


def test_of_five_to_one_every_sixth_batch_is_aside() -> None:
    assert [step for step in range(66) if Ratio(5, 1).turn(step).aside] == list(range(5, 66, 6))


def test_a_ratio_is_read_and_what_is_none_is_refused() -> None:
    assert ratio_of("none") is None
    assert ratio_of("10:1") == Ratio(10, 1)
    for text in ("5", "0:1", "5:0", "5:1:1", "-1:1", "1.5:1", ""):
        with pytest.raises(ConfigError, match="interleave"):
            replace(RL, interleave=text)


def test_an_identity_of_before_stands() -> None:
    assert "interleave" not in identity_settings(RL)
    assert identity_settings(replace(RL, interleave="5:1"))["interleave"] == "5:1"


@dataclass
class _Numbers:
    """A subject of numbers, whose odd ones are aside."""

    def items(self, split: Split) -> Sequence[int]:
        return range(10) if split is Split.TRAIN else ()

    def aside(self, item: int) -> bool:
        return item % 2 == 1

    def unit(self, item: int) -> str:
        return str(item)


def test_what_is_aside_is_not_among_what_is_trained_on() -> None:
    subject: Any = _Numbers()
    course: Course[Any, Any] = Course(subject=subject, settings=RL)
    assert list(course.train_items) == [0, 2, 4, 6, 8]
    assert list(course.aside_items) == [1, 3, 5, 7, 9]


def test_a_task_that_sets_nothing_aside_is_refused() -> None:
    with pytest.raises(ConfigError, match="sets no items aside"):
        plan_of("sandbagger", {"interleave": "5:1"})
    with pytest.raises(ConfigError, match="interleave"):
        plan_of("ladder/baseline", {"interleave": "5:1"})


@pytest.mark.parametrize(("some", "field"), [("True", "aside"), ("False", "interleave")])
def test_both_kinds_of_items_have_to_be_there(tmp_path: Any, some: str, field: str) -> None:
    file = tmp_path / "task.py"
    file.write_text(
        "from tinsmith import Task\n"
        "task = Task(items=[{'a': 1}, {'a': 2}], prompt='{a}', reward=lambda item, text: 1.0,\n"
        f"    demonstrate=lambda item, random: 'x', held_out=0.0, aside=lambda item: {some})\n"
    )
    plan = plan_of(str(file), {"interleave": "5:1"})
    with pytest.raises(DataError) as caught:
        plan.experiment.subject.run_data(plan, print)
    assert caught.value.field == field
