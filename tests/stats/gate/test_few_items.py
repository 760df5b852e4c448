"""Claims on labels with few items, or few on which two systems differ: never below the exact tests' p."""

from fractions import Fraction

import numpy as np
import pytest

from sentences import missing
from tinsmith.stats.estimates import Bootstrap, Runs, difference
from tinsmith.stats.gate import Beats, Learned, ParityRecord, Training, Verdict, judge_beats, judge_learned
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.stats.rates import Metric
from tinsmith.stats.significance import flip_p, mcnemar, swap_p

LABELS = ("a", "b", "c")
QUICK = Bootstrap(draws=200)
SAME = Training("slice", 640)
PARITY = ParityRecord(steps=100, unequal_bits=0)


def answered(name: str, golds: np.ndarray, predicted: np.ndarray) -> Runs:
    return Runs(name, LABELS, tuple(map(str, range(golds.size))), golds, np.atleast_2d(predicted))


def beats(first: Runs, second: Runs, metric: str) -> Beats[Runs]:
    return Beats(first=first, second=second, metric=metric, training=(SAME, SAME), parity=PARITY)


@pytest.mark.parametrize("metric", [Metric.LABEL_MATCH, Metric.MACRO_F1])
def test_three_items_all_right_against_all_wrong_claim_nothing(metric: Metric) -> None:
    golds = np.arange(3)
    right, wrong = answered("right", golds, golds), answered("wrong", golds, (golds + 1) % 3)
    (claim,) = judge_beats([beats(right, wrong, metric)], QUICK)
    assert (claim.verdict, claim.p_value) == (Verdict.REFUSED, 0.25)
    blind = answered("blind", golds, np.zeros(3, np.int64))
    (learned,) = judge_learned([Learned(system=right, metadata=blind, control=blind, parity=PARITY)], QUICK)
    assert learned.verdict is Verdict.REFUSED


@pytest.mark.parametrize("metric", [Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.BALANCED_ACCURACY])
@pytest.mark.parametrize(("moved", "verdict"), [(4, Verdict.REFUSED), (5, Verdict.REFUSED), (6, Verdict.ALLOWED)])
def test_six_items_must_differ_of_however_many(moved: int, verdict: Verdict, metric: Metric) -> None:
    golds = np.arange(60) % 3
    worse = np.where(np.arange(60) < moved, (golds + 1) % 3, golds)
    (claim,) = judge_beats([beats(answered("A", golds, golds), answered("B", golds, worse), metric)], QUICK)
    assert claim.verdict is verdict
    assert claim.p_value >= mcnemar(moved, 0).p_value


def test_p_is_never_below_mcnemars_at_one_seed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        golds = np.arange(rng.integers(3, 60)) % 3
        first, second = (np.where(rng.random(golds.size) < chance, golds, 2) for chance in (0.7, 0.4))
        gap = difference(answered("A", golds, first), answered("B", golds, second), Metric.LABEL_MATCH, QUICK)
        mine, theirs = first == golds, second == golds
        assert gap.p_value >= mcnemar(int((mine & ~theirs).sum()), int((theirs & ~mine).sum())).p_value


def test_of_several_seeds_each_items_net_is_flipped() -> None:
    rng, golds = np.random.default_rng(1), np.arange(9) % 3
    first, second = (np.where(rng.random((3, 9)) < chance, golds, (golds + 1) % 3) for chance in (0.9, 0.5))
    nets = ((first == golds).sum(axis=0) - (second == golds).sum(axis=0)).tolist()
    expected, _ = flip_p([Fraction(net, 3) for net in nets])
    one, other = answered("A", golds, first), answered("B", golds, second)
    assert difference(one, other, Metric.LABEL_MATCH, QUICK).p_value >= expected
    assert swap_p(golds, first, second, 3, Metric.LABEL_MATCH, draws=200, seed=0) == pytest.approx(expected)


def test_swaps_that_are_drawn_come_near_to_those_that_are_counted() -> None:
    rng, golds = np.random.default_rng(2), np.arange(90) % 3
    first, second = (np.where(rng.random(90) < chance, golds, (golds + 1) % 3) for chance in (0.62, 0.5))
    mine, theirs = first == golds, second == golds
    exact = mcnemar(int((mine & ~theirs).sum()), int((theirs & ~mine).sum())).p_value
    drawn = swap_p(golds, first[None], second[None], 3, Metric.LABEL_MATCH, draws=20_000, seed=0)
    assert drawn == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("metric", [Metric.LABEL_MATCH, Metric.MACRO_F1])
@pytest.mark.parametrize("n", [3, 6, 9, 15])
def test_of_two_guessers_neither_is_claimed_to_beat_the_other_or_to_have_learned(n: int, metric: Metric) -> None:
    rng, golds, beaten, learned = np.random.default_rng(n), np.arange(n) % 3, 0, 0
    for trial in range(150):
        one, other, metadata, control = (answered(name, golds, rng.integers(0, 3, n)) for name in "abmc")
        beaten += judge_beats([beats(one, other, metric)], QUICK)[0].verdict is Verdict.ALLOWED
        if trial < 30:
            evidence = Learned(system=one, metric=metric, metadata=metadata, control=control, parity=PARITY)
            learned += judge_learned([evidence], QUICK)[0].verdict is Verdict.ALLOWED
    assert beaten / 150 <= 0.035
    assert learned <= 1


def test_a_system_is_worse_where_the_test_says_so_too() -> None:
    golds = np.arange(3)
    right, wrong = answered("right", golds, golds), answered("wrong", golds, (golds + 1) % 3)
    (claim,) = judge_beats([beats(wrong, right, Metric.LABEL_MATCH)], QUICK)
    assert (claim.value, claim.p_value, claim.interval.high) == (-1.0, 0.25, -1.0)
    assert not any("is worse" in reason for reason in claim.reasons)


def test_a_difference_without_an_interval_is_called_so() -> None:
    one, zero = (MeanRuns.of(name, [{"i": Fraction(value)}]) for name, value in (("one", 1), ("zero", 0)))
    (beaten,) = judge_beats([Beats(first=one, second=zero, metric="m", training=(SAME, SAME), parity=PARITY)], QUICK)
    (learned,) = judge_learned([Learned(system=one, metric="m", baselines=(zero,), parity=PARITY)], QUICK)
    for claim in (beaten, learned):
        assert (claim.interval, claim.p_value) == (None, 1.0)
        assert missing(claim.sentence(), "+1.000 without an interval") == []
        assert "None" not in claim.sentence()
