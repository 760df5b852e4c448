"""Optimal policies against brute force, gradients against differences, and the worked example to its last digit."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sentences import missing
from tinsmith.cli.analyse.inputs import EXAMPLE, read_posteriors
from tinsmith.stats.incentives import (
    Optimum,
    Policy,
    Posteriors,
    ascend,
    best_deterministic,
    best_policy,
    best_rule,
    g_mean_gradient,
    macro_f1_gradient,
    reacting_optimum,
    sensitivity,
    table_optimum,
)
from tinsmith.stats.rates import ClassMetric, Metric
from tinsmith.types.errors import ConfigError, DataError

EYE = np.eye(3)
ACCURACY = 1.6 * EYE - 0.55
tables = hnp.arrays(np.float64, (3, 3), elements=st.floats(-3, 3))


@st.composite
def posteriors(draw: st.DrawFn) -> Posteriors:
    """Draw up to five kinds of papers with weights."""
    n = draw(st.integers(1, 5))
    raw = draw(hnp.arrays(np.float64, (n, 3), elements=st.floats(0.05, 1)))
    weights = draw(hnp.arrays(np.float64, n, elements=st.floats(0.1, 1)))
    return Posteriors.of("abc", raw / raw.sum(axis=1, keepdims=True), weights)


def said(optimum: Optimum | Policy) -> list[float]:
    """Return predicted shares, rounded as the reference prints them."""
    policy = optimum.policy if isinstance(optimum, Optimum) else optimum
    return [round(x, 2) for x in policy.class_score(ClassMetric.PREDICTED_SHARE).tolist()]


def recalls(policy: Policy, digits: int = 3) -> list[float]:
    """Return recalls, rounded."""
    return [round(x, digits) for x in policy.class_score(ClassMetric.RECALL).tolist()]


def rule(policy: Policy) -> str:
    """Return a deterministic policy as letters."""
    assert ((policy.probabilities == 0) | (policy.probabilities == 1)).all()
    return "".join("dcn"[k] for k in policy.probabilities.argmax(axis=1))


# The worked example: rl-methods 3.1(n)


def test_the_example_has_equal_priors() -> None:
    np.testing.assert_allclose(read_posteriors(EXAMPLE, None).prior, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize(
    ("weight", "share", "macro_f1"),
    [(1.05, 0.0, 0.313), (1.1, 0.5, 0.374), (1.2, 0.5, 0.374), (1.3, 0.75, 0.274), (1.5, 1.0, 0.167)],
)
def test_a_class_weight_is_a_knife_edge_on_the_example(weight: float, share: float, macro_f1: float) -> None:
    weighted = ACCURACY * np.array([[weight], [1.0], [1.0]])
    optimum = table_optimum(read_posteriors(EXAMPLE, None), weighted)
    assert said(optimum)[0] == share
    assert optimum.policy.score(Metric.MACRO_F1) == pytest.approx(macro_f1, abs=6e-4)
    turns = sensitivity(read_posteriors(EXAMPLE, None), ACCURACY, "disruptive")
    assert turns.share_at(weight) == share


def macro_f1_influence(shares: np.ndarray) -> np.ndarray:
    """rl-methods 3.1(e)."""
    total = shares.sum(axis=1) + shares.sum(axis=0)
    f1 = 2 * np.diagonal(shares) / total
    return (2 * EYE - f1) / (3 * np.maximum(total, 0.05))


def prior_matching(shares: np.ndarray) -> np.ndarray:
    """rl-methods 3.1(h), lambda = 1."""
    offset = np.log(np.maximum(shares.sum(axis=0), 1e-3) / shares.sum(axis=1))
    return 1.6 * EYE - 0.6 - offset


def test_the_influence_of_macro_f1_leads_to_the_stochastic_optimum_of_the_example() -> None:
    optimum = reacting_optimum(read_posteriors(EXAMPLE, None), lambda: macro_f1_influence)
    expected = [[0.66, 0.34, 0], [0.67, 0, 0.33], [0, 1, 0], [0, 0, 1]]
    np.testing.assert_allclose(optimum.policy.probabilities, expected, atol=0.006)
    assert optimum.policy.score(Metric.LABEL_MATCH) == pytest.approx(0.384, abs=5e-4)
    assert optimum.policy.score(Metric.MACRO_F1) == pytest.approx(0.384, abs=5e-4)
    assert recalls(optimum.policy, 2) == [0.36, 0.4, 0.4]
    assert said(optimum) == [0.33, 0.34, 0.33]
    assert optimum.settled
    assert (optimum.dead, optimum.ruling, optimum.resting_collapses) == ((), (), ())
    assert optimum.others == ()
    # Greedy decoding of it is the best min-recall rule: other shares, another macro-F1.
    assert rule(optimum.greedy) == "ddcn"


def test_the_best_policies_pass_the_best_plain_rules() -> None:
    example = read_posteriors(EXAMPLE, None)
    for metric in (Metric.MACRO_F1, Metric.G_MEAN):
        plain = best_deterministic(example, metric)
        assert best_policy(example, metric).score(metric) > plain.score(metric) + 0.005
    assert rule(best_policy(example, Metric.LABEL_MATCH)) == "cncn"
    with pytest.raises(ConfigError, match="min_class_recall"):
        best_policy(example, Metric.MIN_CLASS_RECALL)


# In general


@settings(deadline=None, max_examples=50)
@given(posteriors(), tables)
def test_a_tables_optimum_is_the_best_of_all_rules(known: Posteriors, matrix: np.ndarray) -> None:
    optimum = table_optimum(known, matrix)
    best = max(
        float((known.rule_shares(np.array(one)) * matrix).sum())
        for one in itertools.product(range(3), repeat=known.num_kinds)
    )
    assert optimum.reward == pytest.approx(best, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(posteriors(), st.floats(0.1, 5), st.floats(-2, 2))
def test_scale_and_offset_of_a_reward_change_no_optimum(known: Posteriors, gain: float, offset: float) -> None:
    plain, moved = table_optimum(known, EYE), table_optimum(known, gain * EYE + offset)
    if plain.tied == moved.tied == 0.0:
        np.testing.assert_array_equal(plain.policy.probabilities, moved.policy.probabilities)


@settings(deadline=None, max_examples=30)
@given(hnp.arrays(np.float64, (3, 3), elements=st.floats(0.02, 1)))
def test_gradients_are_the_differences_of_the_scores(raw: np.ndarray) -> None:
    shares = raw / raw.sum()

    def macro_f1(c: np.ndarray) -> float:
        return float(np.mean(2 * np.diagonal(c) / (c.sum(axis=0) + c.sum(axis=1))))

    def mean_log_recall(c: np.ndarray) -> float:
        return float(np.mean(np.log(np.diagonal(c))))  # the rows' sums stand still under a policy

    for score, gradient in ((macro_f1, macro_f1_gradient), (mean_log_recall, g_mean_gradient)):
        step = 1e-6
        numeric = np.zeros((3, 3))
        for y, k in itertools.product(range(3), repeat=2):
            move = np.zeros((3, 3))
            move[y, k] = step
            numeric[y, k] = (score(shares + move) - score(shares - move)) / (2 * step)
        np.testing.assert_allclose(gradient(shares), numeric, rtol=1e-4, atol=1e-6)


@settings(deadline=None, max_examples=3)
@given(posteriors())
def test_no_mixture_of_rules_passes_the_best_macro_f1(known: Posteriors) -> None:
    best = best_policy(known, Metric.MACRO_F1).score(Metric.MACRO_F1)
    rng = np.random.Generator(np.random.PCG64(1))
    drawn = rng.dirichlet([0.3] * 3, (300, known.num_kinds))
    scores = [Policy.of(known, one).score(Metric.MACRO_F1) for one in drawn]
    plain = best_deterministic(known, Metric.MACRO_F1)
    assert best >= max(*scores, plain.score(Metric.MACRO_F1)) - 2e-3


def test_a_reward_without_signal_and_balanced_labels_ends_uniform() -> None:
    flat = Posteriors.of("abc", np.full((4, 3), 1 / 3))
    optimum = reacting_optimum(flat, lambda: macro_f1_influence)
    np.testing.assert_allclose(said(optimum), 1 / 3, atol=0.01)
    tied = table_optimum(flat, ACCURACY)
    assert tied.tied == 1.0
    assert any(missing(warning, "100%", "papers") == [] for warning in tied.warnings())


def test_a_reward_that_feeds_a_collapse_is_told() -> None:
    def herd(shares: np.ndarray) -> np.ndarray:
        return EYE * (0.1 + shares.sum(axis=0) ** 2)

    optimum = reacting_optimum(read_posteriors(EXAMPLE, None), lambda: herd)
    assert optimum.resting_collapses == ("disruptive", "consolidating", "neutral")
    labels = ("disruptive", "consolidating", "neutral")
    assert any(missing(warning, "collapse", *labels) == [] for warning in optimum.warnings())
    assert len(optimum.others) >= 1


def test_a_reward_with_a_memory_of_its_own_reaches_its_constraint() -> None:
    def dual() -> object:
        multipliers = np.zeros(3)

        def functional(shares: np.ndarray) -> np.ndarray:
            nonlocal multipliers
            recall = np.diagonal(shares) / shares.sum(axis=1)
            multipliers = np.clip(multipliers + 0.02 * (0.30 - recall), 0.0, 5.0)
            return 1.6 * EYE * (1 + multipliers)[:, None] - 0.55

        return functional

    optimum = reacting_optimum(read_posteriors(EXAMPLE, None), dual)
    assert optimum.policy.score(Metric.MIN_CLASS_RECALL) == pytest.approx(0.30, abs=0.01)
    assert optimum.policy.score(Metric.LABEL_MATCH) < 0.391


def test_greedy_decoding_that_loses_a_label_is_told() -> None:
    known = Posteriors.of("abc", [[0.36, 0.4, 0.24], [0.36, 0.24, 0.4]])
    optimum = reacting_optimum(known, lambda: prior_matching)
    if not optimum.greedy.class_score(ClassMetric.PREDICTED_SHARE).all():
        assert any("greedy" in warning for warning in optimum.warnings())
    assert min(said(optimum)) > 0.2


def test_the_ascents_gap_closes_and_a_rerun_is_the_same() -> None:
    example = read_posteriors(EXAMPLE, None)
    start = np.full((4, 3), 1 / 3)
    (_, _, near), (policy, _, gap) = (ascend(example, macro_f1_influence, start, steps) for steps in (50, 1500))
    assert 0 <= gap < near
    again, _, _ = ascend(example, macro_f1_influence, start, 1500)
    np.testing.assert_array_equal(policy.probabilities, again.probabilities)


# Sensitivity


@settings(deadline=None, max_examples=50)
@given(posteriors(), st.floats(0.2, 4))
def test_the_turning_weights_are_those_of_the_optimum(known: Posteriors, weight: float) -> None:
    turns = sensitivity(known, ACCURACY, "b")
    if np.abs(turns.turns - weight).min() < 1e-6:
        return  # a tie: either answer is optimal
    weighted = ACCURACY.copy()
    weighted[1] *= weight
    chosen = best_rule(known, weighted) == 1
    assert turns.share_at(weight) == pytest.approx(float(known.weights[chosen].sum()))


def test_the_window_of_a_knife_edge() -> None:
    turns = sensitivity(read_posteriors(EXAMPLE, None), ACCURACY, "disruptive")
    np.testing.assert_allclose(turns.turns, [38 / 36, 38 / 36, 40 / 31, 0.40333333 / 0.30333333])
    assert turns.window == pytest.approx((38 / 36, 0.40333333 / 0.30333333))
    assert turns.width == pytest.approx(1.26, abs=0.005)
    assert turns.weight_for(1.1) == math.inf


def test_no_weight_brings_out_a_label_that_pays_nothing() -> None:
    matrix = ACCURACY.copy()
    matrix[0, 0] = matrix[0, 1]
    assert sensitivity(read_posteriors(EXAMPLE, None), matrix, "disruptive") is None


def test_a_label_that_is_impossible_for_a_paper_is_not_turned_on_there() -> None:
    known = Posteriors.of("ab", [[0.0, 1.0], [0.5, 0.5]])
    turns = sensitivity(known, np.eye(2), "a")
    assert turns.turns.tolist() == [1.0, math.inf]
    assert turns.window == (1.0, math.inf)


# What is given


def test_four_printed_decimals_are_a_distribution_and_percentages_are_none() -> None:
    known = Posteriors.of("abc", [[0.3033, 0.2933, 0.4033]])
    assert known.probabilities.sum() == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(DataError, match=r"field: row 0 = \[30\.0, 30\.0, 40\.0\]"):
        Posteriors.of("abc", [[30.0, 30.0, 40.0]])
    with pytest.raises(DataError, match=r"field: row 1 = \[-0\.1, 0\.6, 0\.5\]"):
        Posteriors.of("abc", [[0.2, 0.3, 0.5], [-0.1, 0.6, 0.5]])
    with pytest.raises(DataError, match="shape"):
        Posteriors.of("abc", [[0.5, 0.5]])
    with pytest.raises(DataError, match="weights"):
        Posteriors.of("abc", [[0.2, 0.3, 0.5]], np.zeros(1))


def test_a_reward_of_another_shape_is_named() -> None:
    with pytest.raises(ConfigError, match="matrix"):
        table_optimum(read_posteriors(EXAMPLE, None), np.eye(2))
    with pytest.raises(ConfigError, match="matrix"):
        reacting_optimum(read_posteriors(EXAMPLE, None), lambda: lambda _: np.full((3, 3), np.nan))


def test_too_many_rules_are_not_tried() -> None:
    many = Posteriors.of("abc", np.full((12, 3), 1 / 3))
    assert best_deterministic(many, Metric.MACRO_F1) is None
