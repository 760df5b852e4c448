"""Wilson and bootstrap intervals against scipy, and what resampling over seeds and items must do."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tinsmith.stats.estimates import (
    Bootstrap,
    Difference,
    Runs,
    difference,
    estimate,
    resampled_counts,
    resampled_seeds,
)
from tinsmith.stats.intervals import Interval, mean_over_seeds, percentile, wilson
from tinsmith.stats.rates import SCORES, Codes, Metric
from tinsmith.studies.debate.statistics import paired_difference, share_difference, stratified_difference
from tinsmith.types.errors import ConfigError, DataError

LABELS = ("a", "b", "c")
QUICK = Bootstrap(draws=4000, seed=3)


def system(name: str, accuracy: float, *, seeds: int = 1, n: int = 300, seed: int = 0) -> Runs:
    """Return a system that is right with the given chance, wrong or invalid otherwise."""
    rng = np.random.Generator(np.random.PCG64([seed, seeds, n]))
    golds = np.arange(n) % 3
    right = rng.random((seeds, n)) < accuracy
    predicted = np.where(right, golds, (golds + rng.integers(1, 4, (seeds, n))) % 4)
    return Runs(name, LABELS, tuple(map(str, range(n))), golds, predicted)


@settings(deadline=None)
@given(st.integers(1, 400), st.data(), st.sampled_from((0.8, 0.95, 0.99)))
def test_wilson_agrees_with_scipy(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    ours = wilson(successes, n, level)
    theirs = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)
    assert ours.holds(successes / n)


def test_the_seeds_best_line_does_not_exclude_the_constant() -> None:
    interval = wilson(198, 500)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.354, 0.440)
    assert interval.holds(189 / 500)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_an_impossible_share_is_named(successes: int, n: int) -> None:
    with pytest.raises(DataError, match="successes"):
        wilson(successes, n)


def test_a_level_is_a_share() -> None:
    with pytest.raises(ConfigError, match="level = 95"):
        wilson(1, 2, 95)
    with pytest.raises(ConfigError, match="draws = 10"):
        Bootstrap(draws=10)
    with pytest.raises(ConfigError, match=r"draws = 2000\.5"):
        Bootstrap(draws=2000.5)


def test_draws_that_are_no_numbers_make_no_p_smaller() -> None:
    known = np.linspace(-0.01, 0.99, 100)
    without, among = (Difference.of(0.5, draws, 0.95) for draws in (known, np.append(known, np.full(900, math.nan))))
    assert among.p_value == without.p_value == pytest.approx(4 / 101)
    assert Difference.of(0.5, np.full(100, math.nan), 0.95).p_value == 1.0


def test_resamples_keep_every_labels_items_and_only_answers_that_were_given() -> None:
    runs = system("s", 0.5, seeds=2, n=90)
    counts = resampled_counts(runs.golds, runs.predicted, 3, draws=500, seed=1)
    assert counts.shape == (500, 2, 3, 4)
    assert (counts.sum(axis=-1) == 30).all()
    observed = runs.counts() > 0
    assert not counts[:, ~observed].any()
    assert counts[:, :, 0, 0].std() > 0
    again = resampled_counts(runs.golds, runs.predicted, 3, draws=500, seed=1)
    np.testing.assert_array_equal(counts, again)
    other = resampled_counts(runs.golds, runs.predicted, 3, draws=500, seed=2)
    assert (counts != other).any()


def test_resampled_counts_have_the_mean_and_the_spread_of_a_multinomial() -> None:
    runs = system("s", 0.6, n=120)
    counts = resampled_counts(runs.golds, runs.predicted, 3, draws=20_000, seed=5)[:, 0]
    observed = runs.counts()[0]
    share = observed / 40
    np.testing.assert_allclose(counts.mean(axis=0), observed, atol=0.1)
    np.testing.assert_allclose(counts.var(axis=0), 40 * share * (1 - share), atol=0.35)


def test_all_seeds_meet_the_same_resample_of_the_items() -> None:
    runs = system("s", 0.5, n=60)
    twice = np.concatenate([runs.predicted, runs.predicted])
    counts = resampled_counts(runs.golds, twice, 3, draws=200, seed=1)
    np.testing.assert_array_equal(counts[:, 0], counts[:, 1])


def _stratified_score(metric: Metric, *answers: Codes, axis: int = -1) -> np.ndarray:
    """Return the score of answers sorted by true label, for scipy's vectorised bootstrap."""
    rows = [np.stack([(one == k).sum(axis=axis) for k in range(4)], axis=-1) for one in answers]
    return SCORES[metric](np.stack(rows, axis=-2).astype(np.float64))


@pytest.mark.parametrize("metric", [Metric.MACRO_F1, Metric.G_MEAN])
def test_intervals_agree_with_scipys_bootstrap_of_three_samples(metric: Metric) -> None:
    runs = system("s", 0.75, n=120)
    answers = [runs.predicted[0, runs.golds == k] for k in range(3)]
    theirs = stats.bootstrap(
        answers,
        lambda *a, axis=-1: _stratified_score(metric, *a, axis=axis),
        n_resamples=9999,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = estimate(runs, metric, Bootstrap())
    assert ours.interval.low == pytest.approx(theirs.low, abs=0.006)
    assert ours.interval.high == pytest.approx(theirs.high, abs=0.006)


def test_the_same_seed_gives_the_same_interval() -> None:
    runs = system("s", 0.5)
    assert estimate(runs, Metric.MACRO_F1, QUICK) == estimate(runs, Metric.MACRO_F1, QUICK)


def test_copies_of_one_model_are_no_new_evidence() -> None:
    runs = system("s", 0.5)
    copies = Runs("s", LABELS, runs.items, runs.golds, np.repeat(runs.predicted, 5, axis=0))
    one, five = (estimate(r, Metric.LABEL_MATCH, QUICK).interval for r in (runs, copies))
    assert five.high - five.low >= 0.999 * (one.high - one.low)


def test_seeds_are_drawn_with_replacement() -> None:
    scores = np.tile([0.0, 1.0], (40_000, 1))
    means = resampled_seeds(scores, seed=1, system="first")
    values, counts = np.unique(means, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(counts / 40_000, [0.25, 0.5, 0.25], atol=0.01)


def test_a_difference_is_paired() -> None:
    first = system("first", 0.6, n=600)
    second = Runs("second", LABELS, first.items, first.golds, first.predicted.copy())
    second.predicted[0, :12] = (first.predicted[0, :12] + 1) % 4
    found = difference(first, second, Metric.LABEL_MATCH, QUICK)
    alone = estimate(first, Metric.LABEL_MATCH, QUICK)
    assert found.interval.high - found.interval.low < 0.5 * (alone.interval.high - alone.interval.low)


def test_a_difference_has_the_sign_the_p_value_and_the_share_below_zero() -> None:
    better, worse = system("better", 0.7), system("worse", 0.5, seed=1)
    found = difference(better, worse, Metric.MACRO_F1, QUICK)
    assert found.value > 0
    assert found.interval.above(0.0)
    assert found.p_value == pytest.approx(2 * ((found.draws <= 0).sum() + 1) / 4001)
    back = difference(worse, better, Metric.MACRO_F1, QUICK)
    assert back.value == -found.value
    same = difference(better, better, Metric.MACRO_F1, QUICK)
    assert (same.value, same.p_value) == (0.0, 1.0)


def test_a_difference_does_not_depend_on_the_order_of_the_second_systems_items() -> None:
    first, second = system("first", 0.6), system("second", 0.5, seed=1)
    turned = second.on(second.items[::-1])
    a = difference(first, second, Metric.MACRO_F1, QUICK)
    b = difference(first, turned, Metric.MACRO_F1, QUICK)
    np.testing.assert_array_equal(a.draws, b.draws)


def test_systems_on_other_items_are_not_compared() -> None:
    first, second = system("first", 0.6, n=300), system("second", 0.5, n=303)
    with pytest.raises(DataError, match="different items: 3 differ"):
        difference(first, second, Metric.MACRO_F1, QUICK)


def test_the_interval_over_seeds_covers_the_spread_between_them() -> None:
    runs = system("s", 0.5, seeds=4)
    golds = runs.golds
    apart = np.stack([golds, golds, (golds + 1) % 3, (golds + 1) % 3])
    found = estimate(Runs("s", LABELS, runs.items, golds, apart), Metric.LABEL_MATCH, QUICK)
    assert found.value == 0.5
    assert found.interval == Interval(0.0, 1.0, 0.95)


def test_undefined_draws_are_left_out_and_no_draw_gives_no_interval() -> None:
    assert percentile(np.array([np.nan, 1.0, 1.0])) == Interval(1.0, 1.0, 0.95)
    assert percentile(np.array([np.nan])) is None


def test_equivalence_is_an_interval_inside_the_margin() -> None:
    assert Interval(-0.005, 0.008, 0.9).within(0.01)
    assert not Interval(-0.005, 0.012, 0.9).within(0.01)


def test_runs_say_what_is_wrong_with_them() -> None:
    with pytest.raises(DataError, match="field: items, seeds"):
        Runs.of("s", LABELS, [], [], [[]])
    with pytest.raises(DataError, match="field: items"):
        Runs.of("s", LABELS, ["x", "x"], ["a", "a"], [["a", "a"]])
    with pytest.raises(DataError, match="field: answers = 1"):
        Runs.of("s", LABELS, ["x", "y"], ["a", "a"], [["a"]])
    with pytest.raises(DataError, match=r"field: items = \['z'\]"):
        Runs.of("s", LABELS, ["x"], ["a"], [[None]]).on(["x", "z"])
    first = Runs.of("s", LABELS, ["x"], ["a"], [["a"]])
    with pytest.raises(DataError, match=r"^s and t "):
        first.aligned(Runs.of("t", LABELS, ["x"], ["b"], [["a"]]))
    with pytest.raises(DataError, match="same question"):
        first.aligned(Runs.of("t", ("a", "b"), ["x"], ["a"], [["a"]]))


def test_one_seed_has_a_mean_and_no_interval() -> None:
    assert mean_over_seeds([0.5]) == (0.5, None)


def test_seeds_that_agree_leave_no_width() -> None:
    mean, interval = mean_over_seeds([0.25] * 5)
    assert (mean, interval.low, interval.high) == (0.25, 0.25, 0.25)


@pytest.mark.parametrize("count", [2, 5, 30])
def test_it_holds_the_truth_nineteen_times_of_twenty(count: int) -> None:
    drawn = np.random.default_rng(count).normal(0.3, 1.0, (2000, count))
    found = [mean_over_seeds(row.tolist())[1] for row in drawn]
    held = [one is not None and one.low <= 0.3 <= one.high for one in found]
    assert 0.93 < sum(held) / len(held) < 0.97


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [  # Statistics in Medicine 17, 873, table II, method 10
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
    ],
)
def test_independent_shares(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    found = share_difference(*counts).interval
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    turned = share_difference(counts[2], counts[3], counts[0], counts[1]).interval
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [  # Statistics in Medicine 17, 2635, table III, method 10
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.0562, 0.3292),
        ((54, 0, 0, 0), -0.0664, 0.0664),
        ((0, 30, 0, 0), 0.8395, 1.0),
    ],
)
def test_paired_shares(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    found = paired_difference(*counts).interval
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_agreement_narrows_the_interval() -> None:
    agree, apart = paired_difference(40, 5, 5, 40).interval, paired_difference(22, 23, 23, 22).interval
    assert agree.high - agree.low < apart.high - apart.low


def test_what_is_refused() -> None:
    for counts in ((0, 0, 0, 0), (1, -1, 0, 3)):
        with pytest.raises(DataError):
            paired_difference(*counts)
    with pytest.raises(DataError):
        share_difference(0, 0, 1, 2)


def test_one_stratum_is_walds_difference() -> None:
    found = stratified_difference([(56, 70, 48, 80)])
    assert found.value == pytest.approx(56 / 70 - 48 / 80)
    wald = 1.959964 * math.sqrt(0.8 * 0.2 / 70 + 0.6 * 0.4 / 80)
    assert found.interval.high - found.value == pytest.approx(wald, rel=0.01)


def test_strata_are_weighted_by_mantel_and_haenszel() -> None:
    strata = [(9, 10, 1, 10), (5, 50, 5, 50), (7, 7, 0, 0)]
    found = stratified_difference(strata)
    assert found.value == pytest.approx((5 * 0.8 + 25 * 0.0) / 30)
    assert stratified_difference(strata[2:]) is None, "a stratum of one group tells nothing"
    assert stratified_difference([]) is None


def test_where_the_strata_alone_decide_the_interval_is_put_together_from_theirs() -> None:
    one = stratified_difference([(0, 10, 0, 10)])
    assert one == share_difference(0, 10, 0, 10)
    for strata in ([(0, 10, 0, 10), (0, 5, 0, 10)], [(0, 3, 0, 40), (30, 30, 20, 20)]):
        found = stratified_difference(strata)
        assert found.value == 0.0
        weights = [n * m / (n + m) for _, n, _, m in strata]
        reaches = [
            weight / sum(weights) * share_difference(*each).interval.high
            for weight, each in zip(weights, strata, strict=True)
        ]
        assert found.interval.high == pytest.approx(math.hypot(*reaches))
        assert found.interval.holds(0.0)
    with pytest.raises(DataError):
        stratified_difference([(3, 2, 0, 1)])


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Few large strata and many small ones, where the groups' sizes go with the share."""
    generator = np.random.default_rng(0)
    for sizes, gap in (([(40, 80), (80, 40)], 0.1), ([(3, 4)] * 60, 0.0)):
        base = np.linspace(0.2, 0.6, len(sizes))
        held = 0
        for _ in range(800):
            strata = [
                (int(generator.binomial(n, p + gap)), n, int(generator.binomial(m, p)), m)
                for (n, m), p in zip(sizes, base, strict=True)
            ]
            found = stratified_difference(strata)
            held += found.interval.holds(gap)
        assert 0.93 <= held / 800 <= 0.97
