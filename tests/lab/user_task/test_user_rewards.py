"""Earnings by a user's rewards: terms, groups, whole conversations; what fails is said, never a zero."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from tinsmith.lab.user_task.dialogue import Earned, Failed, score_group
from tinsmith.lab.user_task.task import Task, of_conversation, of_group
from tinsmith.ops.advantages import ADVANTAGES


def task(**changes: Any) -> Task:
    return Task(**{"items": ["x"], "prompt": "{item}", **changes})


def length(_item: str, text: str) -> float:
    return len(text) / 10


def earned(found: Sequence[Earned | Failed]) -> list[dict[str, float]]:
    assert all(isinstance(one, Earned) for one in found), found
    return [dict(one.terms) for one in found if isinstance(one, Earned)]


def test_the_reward_is_the_sum_of_its_terms_in_their_order() -> None:
    own = task(reward={"length": length, "same": lambda item, text: item == text})
    found = score_group(own, "x", [["x"], ["abc"]])
    assert earned(found) == [{"length": 0.1, "same": 1.0}, {"length": 0.3, "same": 0.0}]
    assert [one.total for one in found if isinstance(one, Earned)] == [1.1, 0.3]
    assert list(task(reward=length).rewards) == ["length"]
    assert list(task(reward=lambda _item, _text: 0).rewards) == ["reward"]


def test_a_reward_of_a_group_sees_all_answers_and_one_of_a_conversation_all_replies() -> None:
    def rare(_item: str, answers: Sequence[str]) -> list[float]:
        return [1 / answers.count(one) for one in answers]

    def longer(_item: str, replies: Sequence[str]) -> bool:
        return len(replies[-1]) > len(replies[0])

    own = task(reward={"rare": of_group(rare), "longer": of_conversation(longer)})
    found = score_group(own, "x", [["a", "bb"], ["cc", "bb"], ["ddd", "e"]])
    assert earned(found) == [{"rare": 0.5, "longer": 1.0}, {"rare": 0.5, "longer": 0.0}, {"rare": 1.0, "longer": 0.0}]


def test_rewards_and_metrics_see_what_the_parser_reads() -> None:
    def number(text: str) -> int | None:
        return int(text) if text.isdecimal() else None

    own = task(
        parse=number,
        reward=lambda _item, answer: 0 if answer is None else answer,
        metrics={"odd": lambda _item, answer: answer is not None and answer % 2},
    )
    first, second = score_group(own, "x", [["7"], ["seven"]])
    assert (first.total, first.metrics, first.readable) == (7.0, {"odd": 1.0}, True)
    assert (second.total, second.metrics, second.readable) == (0.0, {"odd": 0.0}, False)


def test_numbers_of_numpy_are_numbers() -> None:
    assert earned(score_group(task(reward=lambda _item, _text: np.float32(0.5)), "x", [["a"]])) == [{"reward": 0.5}]


class Broken:
    """A number that cannot be had."""

    def __float__(self) -> float:
        raise RuntimeError("two elements")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "NoneType"),
        ("1.0", "str"),
        (b"1.0", "bytes"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ([1.0], "list"),
        (1j, "complex"),
        (np.float64("nan"), "nan"),
        (Broken(), "Broken"),
        (1.7e308, "1e+15"),
        (-1.1e15, "1e+15"),
        (10**400, "1e+15"),
        (Fraction(10**400), "1e+15"),
    ],
)
def test_what_is_no_number_is_a_failure_and_no_reward(value: object, words: str) -> None:
    (found,) = score_group(task(reward={"right": lambda _item, _text: value}), "x", [["a"]])
    assert found.where == "reward"
    assert found.what.startswith("right: ")
    assert words in found.what


def test_a_reward_of_a_group_without_an_end_is_not_read_to_it() -> None:
    (found, _) = score_group(task(reward=of_group(lambda _item, _answers: count())), "x", [["a"], ["b"]])  # pyright: ignore[reportArgumentType]
    assert "more than 2 numbers" in found.what


def test_the_largest_rewards_have_finite_means_and_advantages() -> None:
    found = earned(score_group(task(reward=lambda _item, text: 1e15 if text else -1e15), "x", [["a"], [""]]))
    totals = np.array([one["reward"] for one in found])
    assert totals.tolist() == [1e15, -1e15]
    for rule in ADVANTAGES.values():
        assert np.isfinite(rule(totals).astype(np.float32) ** 2).all()


def test_one_that_fails_leaves_the_others_alone_and_says_where() -> None:
    def brittle(_item: str, text: str) -> float:
        return 1 / len(text.strip())  # line that raises

    def rare(_item: str, answers: Sequence[str]) -> list[float]:
        return [1 / len(answers)] * len(answers)

    own = task(reward={"brittle": brittle, "rare": of_group(rare)})
    found = score_group(own, "x", [["a"], [" "], ["bb"]])
    line = brittle.__code__.co_firstlineno + 1
    assert found[1].what == (f"brittle: test_user_rewards.py, line {line}: ZeroDivisionError: division by zero")
    assert earned([found[0], found[2]]) == [{"brittle": 1.0, "rare": 0.5}, {"brittle": 0.5, "rare": 0.5}]


def test_what_a_failure_says_has_no_address_and_one_line() -> None:
    def say(_item: str, _text: str) -> float:
        raise ValueError(f"{object()} is\nno number")

    (found,) = score_group(task(reward=say), "x", [["a"]])
    assert found.what.endswith("ValueError: <object object at 0x...> is")


@pytest.mark.parametrize(("numbers", "words"), [([1.0], "1 numbers for 2"), (3, "TypeError"), (["a", 1], "str")])
def test_a_group_reward_gives_a_number_for_each_answer(numbers: object, words: str) -> None:
    own = task(reward=of_group(lambda _item, _answers: numbers))
    found = score_group(own, "x", [["a"], ["b"]])
    assert words in found[0].what


def test_a_parser_that_raises_fails_its_conversation() -> None:
    own = task(parse=int, reward=lambda _item, answer: answer)
    good, bad = score_group(own, "x", [["3"], ["three"]])
    assert isinstance(good, Earned)
    assert bad.where == "parse"
