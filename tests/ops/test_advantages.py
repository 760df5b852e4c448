"""Advantages and the overlong penalty: hand-computed numbers, torch, properties, mutants."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinsmith.ops.advantages import ADVANTAGES, Advantage, overlong_penalty
from tinsmith.types.errors import InputError

ALL = list(Advantage)
NEEDS_TWO = [Advantage.RLOO, Advantage.STD_DDOF1]
Rule = Callable[[np.ndarray], np.ndarray]

BY_HAND = {
    Advantage.CENTER: ([1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25]),
    Advantage.STD: ([1, 0, 0, 0], [1.7320508, -0.5773503, -0.5773503, -0.5773503]),
    Advantage.STD_DDOF1: ([1, 0, 0, 0], [1.5, -0.5, -0.5, -0.5]),
    Advantage.RLOO: ([1, 0, 0, 0], [1.0, -1 / 3, -1 / 3, -1 / 3]),
    Advantage.DRGRPO: ([1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25]),
}
PAIRS = {  # rewards 0.3 and 0.29: only std forgets how far apart they are
    Advantage.CENTER: 0.005,
    Advantage.STD: 1.0,
    Advantage.STD_DDOF1: math.sqrt(0.5),
    Advantage.RLOO: 0.01,
    Advantage.DRGRPO: 0.005,
}


def rewards(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def check_advantage(name: Advantage, rule: Rule) -> None:
    """What the rule must give; also what the mutants below must fail."""
    group, expected = BY_HAND[name]
    np.testing.assert_allclose(rule(rewards(*group)), expected, rtol=1e-7)
    pair = rule(rewards(0.3, 0.29))
    np.testing.assert_allclose(pair, [PAIRS[name], -PAIRS[name]], rtol=1e-12)
    for constant in (0.1, -3.7, 0.0, 1e300):
        assert not rule(np.full(7, constant)).any()


@pytest.mark.parametrize("name", ALL)
def test_advantages_by_hand(name: Advantage) -> None:
    check_advantage(name, ADVANTAGES[name])


def test_every_advantage_is_in_the_registry() -> None:
    assert set(ADVANTAGES) == set(Advantage)


@pytest.mark.parametrize("name", ALL)
def test_advantages_agree_with_torch(name: Advantage) -> None:
    group = np.random.default_rng(3).normal(size=9)
    r = torch.tensor(group)
    centred = r - r.mean()
    expected = {
        Advantage.CENTER: centred,
        Advantage.DRGRPO: centred,
        Advantage.STD: centred / r.std(correction=0),
        Advantage.STD_DDOF1: centred / r.std(),
        Advantage.RLOO: r - (r.sum() - r) / (len(group) - 1),
    }[name]
    np.testing.assert_allclose(ADVANTAGES[name](group), expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize("name", ALL)
@settings(derandomize=True, database=None)
@given(group=st.lists(st.floats(-1e100, 1e100), min_size=2, max_size=8), data=st.data())
def test_the_order_of_a_group_changes_no_bit(name: Advantage, group: list[float], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(group))))
    values = np.array(group)
    straight, mixed = ADVANTAGES[name](values), ADVANTAGES[name](values[order])
    np.testing.assert_array_equal(straight[order].view(np.int64), mixed.view(np.int64))


@pytest.mark.parametrize("name", ALL)
@settings(derandomize=True, database=None)
@given(group=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8))
@example(group=[1000.0, 1000.0000000000001])  # the mean rounds to one of the two
@example(group=[5e-324, 0.0])
@example(group=[1.0, 1.0, math.nextafter(1.0, 2.0)])
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(name: Advantage, group: list[float]) -> None:
    values = np.array(group)
    result = ADVANTAGES[name](values)
    assert np.isfinite(result).all()
    assert abs(math.fsum(result)) <= 1e-9 * max(1.0, float(np.abs(result).max()))
    assert (np.diff(result[np.argsort(values, kind="stable")]) >= 0.0).all()


@pytest.mark.parametrize("name", [Advantage.STD, Advantage.STD_DDOF1])
@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e200])
def test_standardised_advantages_do_not_depend_on_the_scale(name: Advantage, scale: float) -> None:
    base = ADVANTAGES[name](rewards(1.0, 0.0, 0.0, 2.0))
    scaled = ADVANTAGES[name](scale * rewards(1.0, 0.0, 0.0, 2.0))
    np.testing.assert_allclose(scaled, base, rtol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_a_reward_that_is_not_finite_is_refused(name: Advantage) -> None:
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(InputError, match="field: rewards = "):
            ADVANTAGES[name](rewards(1.0, bad))


@pytest.mark.parametrize("name", ALL)
def test_an_empty_or_two_dimensional_group_is_refused(name: Advantage) -> None:
    for shape in ((0,), (2, 2)):
        with pytest.raises(InputError, match=r"field: rewards\.shape"):
            ADVANTAGES[name](np.zeros(shape))


@pytest.mark.parametrize("name", ALL)
def test_a_group_of_one_has_no_advantage_or_is_refused(name: Advantage) -> None:
    if name in NEEDS_TWO:
        with pytest.raises(InputError, match="G >= 2"):
            ADVANTAGES[name](rewards(0.7))
    else:
        assert ADVANTAGES[name](rewards(0.7)).tolist() == [0.0]


@pytest.mark.parametrize("name", ALL)
def test_the_rewards_are_left_alone(name: Advantage) -> None:
    group = rewards(1.0, 0.0)
    ADVANTAGES[name](group)[:] = 9.0
    assert group.tolist() == [1.0, 0.0]


# Overlong penalty


@pytest.mark.parametrize(
    ("length", "penalty"), [(0, 0.0), (16384, 0.0), (16385, -1 / 4096), (18432, -0.5), (20480, -1.0), (20481, -1.0)]
)
def test_overlong_penalty_by_hand(length: int, penalty: float) -> None:
    assert overlong_penalty(length, max_length=20480, cache=4096) == penalty


@pytest.mark.parametrize(
    ("length", "max_length", "cache", "field"), [(-1, 10, 2, "length"), (1, 10, 0, "cache"), (1, 10, 11, "cache")]
)
def test_an_impossible_length_is_named(length: int, max_length: int, cache: int, field: str) -> None:
    with pytest.raises(InputError, match=f"field: {field} = "):
        overlong_penalty(length, max_length=max_length, cache=cache)


# Mutants: the checker above must tell each of them from the real thing


def median_baseline(group: np.ndarray) -> np.ndarray:
    return group - np.median(group)


def sign_flipped(group: np.ndarray) -> np.ndarray:
    return -ADVANTAGES[Advantage.CENTER](group)


def epsilon_in_the_denominator(group: np.ndarray) -> np.ndarray:
    return (group - group.mean()) / (group.std() + 1e-6)


def rounded_mean_of_a_constant_group(group: np.ndarray) -> np.ndarray:
    return group - np.add.reduce(group) / group.size


def population_std(group: np.ndarray) -> np.ndarray:
    return ADVANTAGES[Advantage.STD](group)


def sample_std(group: np.ndarray) -> np.ndarray:
    return ADVANTAGES[Advantage.STD_DDOF1](group)


def baseline_with_itself(group: np.ndarray) -> np.ndarray:
    return ADVANTAGES[Advantage.CENTER](group)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        (Advantage.CENTER, median_baseline),
        (Advantage.CENTER, sign_flipped),
        (Advantage.CENTER, rounded_mean_of_a_constant_group),
        (Advantage.STD, epsilon_in_the_denominator),
        (Advantage.STD, sample_std),
        (Advantage.STD_DDOF1, population_std),
        (Advantage.RLOO, baseline_with_itself),
        (Advantage.DRGRPO, population_std),
    ],
)
def test_a_mutated_advantage_is_found(name: Advantage, mutant: Rule) -> None:
    with pytest.raises(AssertionError):
        check_advantage(name, mutant)
