"""Advantages and the overlong penalty: hand-computed numbers, torch, properties, mutants."""

import itertools
import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tinsmith.ops.advantages import ADVANTAGES, Advantage, overlong_penalty
from tinsmith.ops.confidence import FRACTIONS, WEIGHTS, forced_choice, premature, self_certainty
from tinsmith.ops.forks import turn_advantages
from tinsmith.ops.passk import pass_at_k
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
    """Assert what the rule must give; the mutants below must fail it."""
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


def test_by_hand() -> None:
    found = turn_advantages(np.array([[1.2, -1.0], [1.2, 1.2], [-1.0, -1.0]]))
    np.testing.assert_allclose(found.second_FK[0], [1.1, -1.1], rtol=1e-15)
    assert not found.second_FK[1].any()
    assert not found.second_FK[2].any()
    np.testing.assert_allclose(found.first_F, [0.1 - 0.1, 1.2 - 0.1, -1.0 - 0.1], atol=1e-15)
    loo = turn_advantages(np.array([[1.0, 0.0], [1.0, 1.0]]), Advantage.RLOO)
    np.testing.assert_allclose(loo.second_FK, [[1.0, -1.0], [0.0, 0.0]])
    np.testing.assert_allclose(loo.first_F, [-0.5, 0.5])


def test_rows_of_different_lengths_and_groups_of_one() -> None:
    found = turn_advantages([np.array([0.1, 0.1, 0.1]), np.array([0.1])], Advantage.RLOO)
    assert found.first_F.tolist() == [0.0, 0.0]  # equal means are equal bits
    assert [row.tolist() for row in found.second_FK] == [[0.0, 0.0, 0.0], [0.0]]
    alone = turn_advantages(np.array([[1.0, 0.0]]))
    assert alone.first_F.tolist() == [0.0]


@pytest.mark.parametrize(
    "bad", [[], [np.array([])], [np.array([[1.0]])], [np.array([np.nan])], [np.array([1.0, np.inf])]]
)
def test_what_is_no_table_of_returns(bad: list[np.ndarray]) -> None:
    with pytest.raises(InputError):
        turn_advantages(bad)


RETURNS = st.lists(st.floats(-2, 2, width=32), min_size=2, max_size=4)


@given(st.lists(RETURNS, min_size=2, max_size=4))
def test_order_changes_no_bit_and_everything_is_centred(rows: list[list[float]]) -> None:
    found = turn_advantages([np.array(row) for row in rows])
    turned = turn_advantages([np.array(row[::-1]) for row in rows[::-1]])
    assert found.first_F.tobytes() == turned.first_F[::-1].tobytes()
    for row, other in zip(found.second_FK, turned.second_FK[::-1], strict=True):
        assert row.tobytes() == other[::-1].tobytes()
        assert row.sum() == pytest.approx(0.0, abs=1e-12)
    assert found.first_F.sum() == pytest.approx(0.0, abs=1e-12)


# A policy of two turns with two choices each: p = P(first = 1), q[first] = P(second = 1 | first).
P, Q = 0.3, (0.6, 0.2)
R = ((0.5, -1.0), (1.2, -0.3))
"""By first and second choice."""


def expected(rule: Advantage, g1: int, g2: int) -> tuple[float, np.ndarray]:
    """E of mean A1 dlog p and of mean A2 dlog q, by the logits, over every table of g1 x g2 draws."""
    of_first, of_second = 0.0, np.zeros(2)
    rows = list(product((0, 1), product((0, 1), repeat=g2)))
    for drawn in product(rows, repeat=g1):
        chance = 1.0
        for first, seconds in drawn:
            chance *= P if first else 1 - P
            for second in seconds:
                chance *= Q[first] if second else 1 - Q[first]
        table = np.array([[R[first][second] for second in seconds] for first, seconds in drawn])
        found = turn_advantages(table, rule)
        for i, (first, seconds) in enumerate(drawn):
            of_first += chance * found.first_F[i] * (first - P) / g1
            for j, second in enumerate(seconds):
                of_second[first] += chance * found.second_FK[i][j] * (second - Q[first]) / (g1 * g2)
    return of_first, of_second


def truth() -> tuple[float, np.ndarray]:
    """The gradient of E[R] by the logits of p, q[0] and q[1]."""
    value = [Q[a] * R[a][1] + (1 - Q[a]) * R[a][0] for a in (0, 1)]
    of_first = P * (1 - P) * (value[1] - value[0])
    of_second = [w * Q[a] * (1 - Q[a]) * (R[a][1] - R[a][0]) for a, w in ((0, 1 - P), (1, P))]
    return of_first, np.array(of_second)


@pytest.mark.parametrize(("g1", "g2"), [(2, 2), (3, 2), (2, 3)])
def test_leave_one_out_is_unbiased_and_centring_only_shortens(g1: int, g2: int) -> None:
    first, second = truth()
    found = expected(Advantage.RLOO, g1, g2)
    assert found[0] == pytest.approx(first, rel=1e-12)
    np.testing.assert_allclose(found[1], second, rtol=1e-12)
    centred = expected(Advantage.CENTER, g1, g2)
    assert centred[0] == pytest.approx(first * (g1 - 1) / g1, rel=1e-12)
    np.testing.assert_allclose(centred[1], second * (g2 - 1) / g2, rtol=1e-12)


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(n=64, c=3, k=8) == pytest.approx(0.334677, abs=5e-7)
    assert pass_at_k(n=64, c=1, k=1) == 0.015625
    assert pass_at_k(n=5, c=0, k=5) == 0.0
    assert pass_at_k(n=5, c=1, k=5) == 1.0


def test_pass_at_k_counts_the_draws_that_hold_a_correct_sample() -> None:
    for n, c in [(5, 2), (6, 1), (4, 4)]:
        for k in range(1, n + 1):
            draws = list(itertools.combinations(range(n), k))
            hits = sum(1 for draw in draws if min(draw) < c)
            assert pass_at_k(n=n, c=c, k=k) == hits / len(draws)


def test_pass_at_k_agrees_with_the_product_form() -> None:
    for c in range(1, 65):
        product = 1.0 - math.prod(1.0 - 16 / i for i in range(64 - c + 1, 65))
        assert pass_at_k(n=64, c=c, k=16) == pytest.approx(product, rel=1e-12)


@pytest.mark.parametrize(("n", "c", "k", "field"), [(4, 5, 1, "c"), (4, -1, 1, "c"), (4, 1, 0, "k"), (4, 1, 5, "k")])
def test_an_impossible_draw_is_named(n: int, c: int, k: int, field: str) -> None:
    with pytest.raises(InputError, match=f"field: {field} = "):
        pass_at_k(n=n, c=c, k=k)


@given(st.floats(0.0, 1.0))
def test_a_constant_confidence_costs_exactly_nothing(c: float) -> None:
    assert premature([c] * len(FRACTIONS)) == 0.0


def test_weights_are_the_published_ones() -> None:
    assert WEIGHTS == (0.5, 0.3, 0.1, -0.1, -0.3, -0.5)


@given(st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6))
def test_what_rises_is_paid_and_the_same_falling_costs_as_much(values: list[float]) -> None:
    rising = sorted(values)
    assert premature(rising) <= 0.0
    assert premature(rising[::-1]) == -premature(rising)


@given(st.lists(st.floats(-60.0, 0.0), min_size=2, max_size=8))
def test_a_forced_choice_is_a_softmax(logprobs: list[float]) -> None:
    found = forced_choice(np.array(logprobs))
    expected = np.exp(logprobs) / np.exp(logprobs).sum()
    assert found == pytest.approx(expected, rel=1e-12)


def test_self_certainty_is_the_divergence_of_the_uniform() -> None:
    assert self_certainty(np.full(4, 0.25)) == 0.0
    p = np.array([0.7, 0.2, 0.1])
    assert self_certainty(p) == pytest.approx(float(np.sum(np.log((1 / 3) / p)) / 3), rel=1e-12)
    assert np.isfinite(self_certainty(np.array([1.0, 0.0])))
