"""Batches of two pools: the ratio is exact as far as it can be after every step, and each pool is gone through."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.lab.course import Course
from tinsmith.lab.schedule import Ratio, ratio_of
from tinsmith.lab.settings import RlSettings, told_apart
from tinsmith.lab.subject import Split
from tinsmith.types.errors import ConfigError, DataError

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
    assert ratio.overhead == aside / (main + aside)


def test_of_five_to_one_every_sixth_batch_is_aside() -> None:
    assert [step for step in range(66) if Ratio(5, 1).turn(step).aside] == list(range(5, 66, 6))


def test_a_ratio_is_read_and_what_is_none_is_refused() -> None:
    assert ratio_of("none") is None
    assert ratio_of("10:1") == Ratio(10, 1)
    for text in ("5", "0:1", "5:0", "5:1:1", "-1:1", "1.5:1", ""):
        with pytest.raises(ConfigError, match="interleave"):
            replace(RL, interleave=text)


def test_an_identity_of_before_stands() -> None:
    assert "interleave" not in told_apart(RL)
    assert told_apart(replace(RL, interleave="5:1"))["interleave"] == "5:1"


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
