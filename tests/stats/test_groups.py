"""Informative groups and determinism by true label."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import entropy

from tinsmith.lab.study.terms import Answer, audit_terms
from tinsmith.stats.groups import (
    FlatRewards,
    Group,
    LabelGroups,
    census,
    deviation,
    group_census,
    informative_rate,
    kept_groups,
)
from tinsmith.stats.information import information, label_information
from tinsmith.types.errors import DataError

LABELS = ("a", "b")


def group(gold: str, right: str, rewards: tuple[float, ...] | None = None) -> Group:
    """Return a group from a string of 1 and 0, rewarded by being right unless told otherwise."""
    flags = tuple(letter == "1" for letter in right)
    return Group(gold, rewards or tuple(map(float, flags)), flags)


def test_groups_are_counted_by_true_label() -> None:
    found = census(LABELS, [group("a", "11"), group("a", "10"), group("a", "00"), group("b", "01")])
    a = found["a"]
    assert (a.groups, a.informative, a.all_right, a.all_wrong) == (3, 1, 1, 1)
    assert a.informative_rate == a.mixed_rate == 1 / 3
    assert found["b"].informative_rate == 1.0


def test_rewards_can_differ_where_all_answers_are_wrong() -> None:
    found = census(LABELS, [group("a", "00", (-1.0, -0.55))])["a"]
    assert (found.informative, found.all_wrong, found.mixed_rate) == (1, 1, 0.0)


def test_a_group_of_one_compares_nothing() -> None:
    found = census(LABELS, [group("a", "1")])
    assert found["a"] == LabelGroups()
    assert math.isnan(found["a"].informative_rate)
    assert math.isnan(found["a"].determinism)


def test_the_expected_share_of_mixed_groups_is_the_binomial_one() -> None:
    found = census(LABELS, [group("a", "1100"), group("a", "0000"), group("a", "10")])["a"]
    p = 3 / 10
    four, two = 1 - p**4 - (1 - p) ** 4, 1 - p**2 - (1 - p) ** 2
    assert found.expected_mixed_rate == pytest.approx((2 * four + two) / 3)


def test_determinism_tells_coins_from_fixed_papers() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    coins = ["".join(map(str, row)) for row in (rng.random((4000, 4)) < 0.4).astype(int)]
    fixed = ["1111" if x else "0000" for x in rng.random(4000) < 0.4]
    coin = census(LABELS, [group("a", row) for row in coins])["a"]
    dead = census(LABELS, [group("a", row) for row in fixed])["a"]
    assert coin.determinism == pytest.approx(0.0, abs=0.03)
    assert dead.determinism == 1.0
    assert coin.mixed_rate == pytest.approx(1 - 0.4**4 - 0.6**4, abs=0.02)


def test_steps_add_up() -> None:
    first, second = [group("a", "11"), group("b", "10")], [group("a", "100")]
    parts = census(LABELS, first)["a"] + census(LABELS, second)["a"]
    assert parts == census(LABELS, first + second)["a"]
    assert parts.size_counts == ((2, 1), (3, 1))


def test_an_unknown_label_is_named() -> None:
    with pytest.raises(DataError, match="group = 'c'"):
        census(LABELS, [group("c", "10")])


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_the_closed_form_is_the_sum_over_all_groups(p: float, size: int) -> None:
    each = [
        math.prod(p if right else 1.0 - p for right in group)
        for group in product((True, False), repeat=size)
        if len(set(group)) > 1
    ]
    assert informative_rate(p, size) == pytest.approx(math.fsum(each), abs=1e-15)


def test_fixed_failure_has_index_one_and_random_failure_about_zero() -> None:
    fixed = [(float(place % 4 == 0),) * 8 for place in range(400)]
    drawn = np.random.default_rng(0).random((4000, 8)) < 0.25
    random = [tuple(map(float, row)) for row in drawn]
    assert group_census(fixed).determinism == 1.0
    assert abs(group_census(random).determinism) < 0.02
    assert group_census(fixed).expected == pytest.approx(informative_rate(0.25, 8))


def test_prompts_of_unequal_difficulty_lie_between() -> None:
    rng = np.random.default_rng(1)
    chances = rng.choice([0.05, 0.95], 2000)
    groups = [tuple((rng.random(8) < p).astype(float)) for p in chances]
    assert 0.2 < group_census(groups).determinism < 0.9


def test_rewards_of_more_than_two_values_and_groups_of_several_sizes() -> None:
    found = group_census([(0.0, 0.5), (1.0, 1.0, 1.0), (0.0,)])
    shares = (1 / 5, 1 / 5, 3 / 5)
    chance = [1.0 - sum(share**size for share in shares) for size in (2, 3)]
    assert (found.groups, found.mixed) == (2, 1)
    assert found.expected == pytest.approx(sum(chance) / 2)


def test_where_no_mixed_group_is_expected_there_is_no_index() -> None:
    assert math.isnan(group_census([(1.0, 1.0)] * 5).determinism)
    assert math.isnan(group_census([]).determinism)
    assert math.isnan(group_census([]).observed)


def test_the_published_example() -> None:
    assert kept_groups([0.5, 0.5, 0.3, 0.1, 0.0], 0.9) == (True, True, True, False, False)


def test_groups_without_spread_are_never_kept_and_none_may_be() -> None:
    assert kept_groups([0.0, 0.0], 0.9) == (False, False)
    assert kept_groups([0.0, 0.2, 0.0], 1.0) == (False, True, False)
    assert kept_groups([], 0.9) == ()


def test_of_equal_ones_the_earlier_is_taken_first_and_order_changes_nothing_else() -> None:
    assert kept_groups([0.4] * 4, 0.5) == (True, True, False, False)
    assert kept_groups([0.1, 0.5, 0.3, 0.5], 0.9) == (False, True, True, True)


def test_deviation_is_the_populations_and_exactly_zero_where_rewards_are_equal() -> None:
    assert deviation([0.1] * 7) == 0.0
    assert deviation([0.0, 1.0]) == pytest.approx(0.5)
    assert deviation([]) == 0.0


def test_it_stops_after_ten_steps_below_a_tenth_of_the_first() -> None:
    spread, flat = [[0.0, 1.0]], [[1.0, 1.0]]
    seen = FlatRewards()
    assert not any(seen.saw(spread) for _ in range(10))
    assert [seen.saw(flat) for _ in range(10)] == [False] * 9 + [True]
    assert not seen.saw(spread)
    assert seen.streak == 0


def test_it_goes_on_from_what_it_kept() -> None:
    seen = FlatRewards()
    for _ in range(15):
        seen.saw([[0.0, 1.0]] if len(seen.first) < 10 else [[0.0, 0.0]])
    again = FlatRewards(first=seen.first, streak=seen.streak)
    assert [again.saw([[0.0, 0.0]]) for _ in range(5)] == [False] * 4 + [True]


def groups(count: int = 40) -> list[list[Answer]]:
    random = Random(3)
    found: list[list[Answer]] = []
    for _ in range(count):
        level, group = random.random(), list[Answer]()
        for _ in range(random.randint(2, 6)):
            right = float(random.random() < level)
            terms = {"right": right, "form": random.choice((0.0, 0.2)), "level": level}
            group.append(Answer(terms=terms, right=right))
        found.append(group)
    return found


def test_every_figure_is_that_of_deviations_from_the_groups_means() -> None:
    some, names = groups(), ("right", "form", "level")
    found = audit_terms(some, names)

    def centred(of: str) -> np.ndarray:
        values = [np.array([one.terms[of] if of else sum(one.terms.values()) for one in group]) for group in some]
        return np.concatenate([each - each.mean() for each in values])

    reward, right = centred(""), centred("right")
    for name in names:
        values = centred(name)
        assert found[name].variance == pytest.approx(np.mean(values**2), abs=1e-15)
        assert found[name].share == pytest.approx(values @ reward / (reward @ reward), abs=1e-12)
    assert found["form"].with_right == pytest.approx(np.corrcoef(centred("form"), right)[0, 1], abs=1e-12)
    assert sum(one.share or 0.0 for one in found.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_term_that_differs_between_groups_alone_teaches_nothing() -> None:
    level = audit_terms(groups(), ("right", "form", "level"))["level"]
    assert (level.variance, level.share, level.differs, level.with_right) == (0.0, 0.0, 0.0, None)


def test_a_term_that_is_being_right_goes_with_it_wholly() -> None:
    assert audit_terms(groups(), ("right",))["right"].with_right == pytest.approx(1.0)


def test_groups_of_one_and_answers_whose_rightness_was_not_measured_are_in_no_figure_of_it() -> None:
    one = Answer(terms={"form": 1.0})
    assert audit_terms([[one]], ("form",)) == {}
    unknown = audit_terms([[one, Answer(terms={"form": 0.0})]], ("form",))["form"]
    assert (unknown.variance, unknown.with_right) == (0.25, None)


def test_a_permutation_code_tells_everything() -> None:
    assert label_information(np.eye(8)) == pytest.approx(math.log(8), abs=1e-12)


def test_one_answer_for_all_papers_tells_nothing_however_spread() -> None:
    assert label_information(np.tile([0.2, 0.5, 0.3], (50, 1))) == 0.0
    assert label_information(np.tile([1.0, 0.0, 0.0], (50, 1))) == 0.0


@settings(deadline=None)
@given(hnp.arrays(np.float64, (6, 3), elements=st.floats(0.01, 1)))
def test_it_is_the_entropy_of_the_mean_minus_the_mean_entropy(raw: np.ndarray) -> None:
    pi = raw / raw.sum(axis=1, keepdims=True)
    expected = entropy(pi.mean(axis=0)) - entropy(pi, axis=1).mean()
    assert label_information(pi) == pytest.approx(max(expected, 0.0), abs=1e-10)


def test_it_does_not_depend_on_the_order_of_the_papers() -> None:
    pi = np.random.Generator(np.random.PCG64(1)).dirichlet([1, 2, 3], 40)
    assert label_information(pi) == label_information(pi[::-1])


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(DataError, match="not a distribution"):
        label_information(np.array([[0.5, 0.6]]))
    with pytest.raises(DataError, match="shape"):
        label_information(np.zeros((0, 3)))


N = 64


def test_templates_that_do_not_depend_on_the_prompt_tell_nothing() -> None:
    each = np.log(np.random.default_rng(0).dirichlet(np.ones(8)))
    drawn = np.random.default_rng(1).integers(0, 8, N)
    found = information(np.repeat(each[drawn][:, None], N, axis=1))
    assert abs(found.mutual) < 1e-12
    assert found.retrieval == 1 / N
    assert found.given > 1.0


def test_a_code_of_the_prompt_tells_all_of_it() -> None:
    scores = np.full((N, N), math.log(1e-9))
    np.fill_diagonal(scores, math.log(1.0 - (N - 1) * 1e-9))
    found = information(scores)
    assert found.mutual == pytest.approx(math.log(N), abs=1e-6)
    assert found.retrieval == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_entropies_add_up_and_information_is_never_above_log_n(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(-20.0, 6.0, (16, 16))
    for found in (information(scores), information(scores, [3] * 16)):
        assert found.marginal == pytest.approx(found.mutual + found.given, abs=1e-9)
        assert found.mutual <= math.log(16) + 1e-12


def test_it_is_the_plain_formula() -> None:
    scores = np.random.default_rng(3).normal(-5.0, 2.0, (7, 7))
    mixed = np.log(np.exp(scores).mean(axis=1))
    expected = (np.diagonal(scores) - mixed).mean()
    assert information(scores).mutual == pytest.approx(expected, abs=1e-12)
    assert information(scores).z_score == pytest.approx(expected / (mixed.std() + 1e-3))


def test_by_token_every_answer_is_divided_by_its_length() -> None:
    scores = np.random.default_rng(4).normal(-9.0, 2.0, (5, 5))
    lengths = [1, 2, 3, 4, 5]
    found = information(scores, lengths)
    assert found.given == pytest.approx(-(np.diagonal(scores) / lengths).mean())


@pytest.mark.parametrize("scores", [np.zeros((2, 3)), np.zeros((1, 1)), np.array([[0.0, -np.inf], [0.0, 0.0]])])
def test_what_is_no_table_of_scores_is_refused(scores: np.ndarray) -> None:
    with pytest.raises(DataError):
        information(scores)


def test_an_answer_without_tokens_is_refused() -> None:
    with pytest.raises(DataError, match="lengths"):
        information(np.zeros((2, 2)), [1, 0])
