"""Claims about a method, and differences: Student's t over seeds guards p and interval."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sentences import missing
from tinsmith.stats.estimates import Bootstrap, Runs
from tinsmith.stats.gate import (
    Beats,
    CheckName,
    Claim,
    Learned,
    ParityRecord,
    Training,
    Verdict,
    judge_beats,
    judge_learned,
)
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.rates import FloatArray
from tinsmith.stats.seed_tests import seed_test

QUICK = Bootstrap(draws=200)
SAME = Training("items", 80)
PARITY = ParityRecord(steps=3, unequal_bits=0)
ITEMS = tuple(f"item {at}" for at in range(12))
TRIALS = 300


def skilled(name: str, scores: Sequence[float]) -> MeanRuns:
    """Return a system whose seeds have these scores on every item: as with thousands of items, these add no noise."""
    return MeanRuns.of(name, [dict.fromkeys(ITEMS, Fraction(round(4000 * one), 4000)) for one in scores])


def beaten(first: MeanRuns, second: MeanRuns, *, same_models: bool = False, untrained: bool = False) -> Beats[MeanRuns]:
    training = (SAME, Training("items", 0) if untrained else SAME)
    return Beats(first=first, second=second, metric="reward", training=training, parity=PARITY, same_models=same_models)


def apart(rng: np.random.Generator) -> Beats[MeanRuns]:
    a, b = rng.normal(0.5, 0.05, (2, 5))
    return beaten(skilled("A", a), skilled("B", b))


def fixed(rng: np.random.Generator) -> Beats[MeanRuns]:
    return beaten(skilled("A", rng.normal(0.5, 0.05, 5)), skilled("the baseline b", [0.5]), untrained=True)


def before_and_after(rng: np.random.Generator) -> Beats[MeanRuns]:
    before, gains = rng.normal(0.5, 0.05, (2, 5))
    return beaten(skilled("A", before + gains - 0.5), skilled("A before", before), same_models=True)


@pytest.mark.parametrize("made", [apart, fixed, before_and_after])
def test_equal_methods_whose_seeds_differ_are_seldom_claimed_and_intervals_hold_the_truth(
    made: Callable[[np.random.Generator], Beats[MeanRuns]],
) -> None:
    rng, wrong, covered, differences = np.random.default_rng(3), 0, 0, 0
    for _ in range(TRIALS):
        one = made(rng)
        (claim,) = judge_beats([one], QUICK)
        wrong += claim.verdict is Verdict.ALLOWED
        covered += claim.interval.holds(0.0)
        gap = mean_difference(one.first, one.second, QUICK, paired=one.same_models)
        differences += gap.interval.holds(0.0)
    assert wrong / TRIALS <= 0.04
    assert covered / TRIALS >= 0.94
    assert differences / TRIALS >= 0.93, "differences outside of claims are guarded, too"


def test_items_that_vary_are_covered_as_before() -> None:
    rng, covered = np.random.default_rng(4), 0
    names = [f"item {at}" for at in range(40)]
    for _ in range(100):
        first, second = (
            MeanRuns.of(name, [{item: Fraction(int(x)) for item, x in zip(names, row, strict=True)} for row in drawn])
            for name, drawn in zip("AB", rng.random((2, 5, 40)) < 0.5, strict=True)
        )
        (claim,) = judge_beats([beaten(first, second)], QUICK)
        covered += claim.interval.holds(0.0)
    assert covered / 100 >= 0.94


def test_nothing_is_learned_from_seeds_that_differ_more_than_what_is_simpler_lies_below() -> None:
    rng, wrong = np.random.default_rng(5), 0
    low = skilled("a", [0.2])
    for _ in range(100):
        system, control = rng.normal(0.5, 0.05, (2, 5))
        before = skilled("A", rng.normal(0.2, 0.02, 5))
        one = Learned(
            system=skilled("A", system),
            metric="reward",
            before=before,
            baselines=(low,),
            control=skilled("A'", control),
            parity=PARITY,
        )
        wrong += judge_learned([one], QUICK)[0].verdict is Verdict.ALLOWED
    assert wrong / 100 <= 0.04


def test_labels_are_guarded_too() -> None:
    rng, golds = np.random.default_rng(6), np.arange(150) % 3
    items, wrong = tuple(map(str, range(150))), 0

    def drawn(name: str) -> Runs:
        # Each seed is right in a share of its own, and all items with it: seeds differ more than items do.
        right = np.arange(150)[None, :] < np.round(150 * np.clip(rng.normal(0.5, 0.08, (5, 1)), 0.1, 0.9))
        return Runs(name, ("a", "b", "c"), items, golds, np.where(right, golds, (golds + 1) % 3))

    for _ in range(100):
        one = Beats(first=drawn("A"), second=drawn("B"), metric="label_match", training=(SAME, SAME), parity=PARITY)
        wrong += judge_beats([one], QUICK)[0].verdict is Verdict.ALLOWED
    assert wrong / 100 <= 0.035


def judged(first: Sequence[float], second: Sequence[float], **words: bool) -> Claim:
    return judge_beats([beaten(skilled("A", first), skilled("B", second), **words)], QUICK)[0]


ABOVE_HALF = (0.1, 0.02, 0.16, 0.0, 0.11)
FIVE, OTHER = (0.6, 0.52, 0.66, 0.5, 0.61), (0.5, 0.55, 0.45, 0.56, 0.44)


@pytest.mark.parametrize(
    ("claim", "expected", "name"),
    [
        (judged(FIVE, OTHER), stats.ttest_ind(FIVE, OTHER, equal_var=False), "Welch's t over 5 and 5 seeds"),
        (judged(FIVE, OTHER, same_models=True), stats.ttest_rel(FIVE, OTHER), "paired t over 5 seeds"),
        (judged(FIVE, (0.5,), untrained=True), stats.ttest_1samp(ABOVE_HALF, 0.0), "Student's t over 5 seeds"),
    ],
)
def test_p_and_interval_are_no_better_than_those_of_t(claim: Claim, expected: object, name: str) -> None:
    assert claim.p_value >= expected.pvalue * (1 - 1e-6)
    ends = expected.confidence_interval(0.95)
    assert claim.interval.low <= ends.low + 1e-9
    assert claim.interval.high >= ends.high - 1e-9
    assert missing(" ".join(check.sentence for check in claim.checks), name) == []


def test_holms_level_widens_the_interval_over_seeds() -> None:
    one = beaten(skilled("A", FIVE), skilled("B", OTHER))
    alone, *_ = judge_beats([one], QUICK)
    family = judge_beats([one, *[beaten(skilled("A", OTHER), skilled("B", OTHER))] * 4], QUICK)
    ends = stats.ttest_ind(FIVE, OTHER, equal_var=False).confidence_interval(0.99)
    assert family[0].interval.low <= ends.low + 1e-9 < alone.interval.low
    assert family[0].p_holm == pytest.approx(5 * alone.p_value)


def test_a_refused_claim_says_which_p_or_interval_refuses_it() -> None:
    low, high = skilled("low", [0.2]), skilled("high", [0.5])
    seeds = skilled("A", (0.9, 0.51, 0.51, 0.51, 0.51))
    one = Learned(system=seeds, metric="reward", baselines=(low, high), parity=PARITY)
    (claim,) = judge_learned([one], QUICK)
    above, reaching, *_ = (check.sentence for check in claim.checks if check.name is CheckName.BASELINE)
    assert above.startswith("beats the baseline low")
    assert re.search(r"\(Student's t over 5 seeds, p = 0\.\d{3}, whose interval reaches 0\)$", reaching)
    few = MeanRuns.of("B", [dict.fromkeys(ITEMS[:3], Fraction(1))])
    zero = MeanRuns.of("zero", [dict.fromkeys(ITEMS[:3], Fraction(0))])
    one = Learned(system=few, metric="reward", baselines=(zero,), parity=PARITY)
    for family, found in (([one], "p = 0.250"), ([one, one], "Holm p = 0.500")):
        sentences = [check.sentence for check in judge_learned(family, QUICK)[0].checks]
        assert f"does not beat the baseline zero: +1.000 [1.000, 1.000] on reward ({found})" in sentences


def test_fewer_seeds_speak_for_their_models_and_are_not_guarded() -> None:
    claim = judged(FIVE[:4], OTHER[:4])
    assert "these trained models only" in claim.scope
    assert not any("Welch" in check.sentence for check in claim.checks)


def test_the_test_over_seeds_is_that_of_scipy() -> None:
    rng: np.random.Generator = np.random.default_rng(7)
    for size, other in ((5, 5), (5, 9), (2, 3), (12, 6)):
        first: FloatArray = rng.normal(0.1, 0.2, size)
        second: FloatArray = rng.normal(0.0, 0.1, other)
        found, expected = seed_test(first.tolist(), second.tolist()), stats.ttest_ind(first, second, equal_var=False)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-6)
        ends = expected.confidence_interval(0.9)
        assert (found.at(0.9).low, found.at(0.9).high) == pytest.approx((ends.low, ends.high), rel=1e-6)
    alike, shifted = seed_test([0.5] * 5, [0.5] * 5), seed_test([0.75] * 5, [0.5] * 5)
    assert (alike.p_value, shifted.p_value) == (1.0, 0.0)
    assert (shifted.at(0.99).low, shifted.at(0.99).high) == (0.25, 0.25)
    assert seed_test([0.5], [0.25]) is None
    assert [str(one).rpartition(", ")[2] for one in (alike, shifted)] == ["p = 1.000", "p < 0.0001"]
