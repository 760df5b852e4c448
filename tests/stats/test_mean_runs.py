"""Means over items and seeds: hand counts, clusters that are drawn together, and claims with missing evidence."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tinsmith.stats.estimates import Bootstrap, drawn_sums
from tinsmith.stats.gate import (
    Beats,
    CheckName,
    Finding,
    Learned,
    ParityRecord,
    Training,
    Verdict,
    judge_beats,
    judge_learned,
)
from tinsmith.stats.mean_runs import MeanRuns, mean_difference, mean_ratio, shared_items, varied_difference
from tinsmith.types.errors import DataError

DRAWS = Bootstrap(draws=4000)
SAME = ParityRecord(steps=3, unequal_bits=0)


def runs(name: str, *by_seed: dict[str, float], pairs: bool = False) -> MeanRuns:
    clusters = {item: item[0] for one in by_seed for item in one} if pairs else None
    return MeanRuns.of(
        name, [{item: Fraction(repr(value)) for item, value in one.items()} for one in by_seed], clusters
    )


def constant(name: str, value: float, count: int = 12, seeds: int = 2) -> MeanRuns:
    return runs(name, *[{f"item {at}": value for at in range(count)}] * seeds)


def test_means_are_over_the_items_that_every_seed_has() -> None:
    found = runs("A", {"a": 1.0, "b": 0.0, "c": 1.0}, {"a": 0.5, "b": 0.5})
    assert found.items == ("a", "b")
    assert found.means() == (0.5, 0.5)
    assert found.pooled() == {"a": Fraction(3, 4), "b": Fraction(1, 4)}
    assert (found.mean(), found.num_seeds) == (0.5, 2)
    with pytest.raises(DataError):
        runs("B", {"a": 1.0}, {"b": 1.0})
    with pytest.raises(DataError):
        found.on(["c"])


def test_clusters_are_drawn_whole_as_a_hand_count_says() -> None:
    values = {"a1": 1.0, "a2": 1.0, "b1": 0.0, "b2": 0.0, "c1": 1.0, "c2": 0.0}
    draws = runs("A", values, pairs=True).draws(DRAWS, "first")
    # Three pairs with sums 2, 0 and 1: every resample is a mean of three of them, over six items.
    by_hand = [sum(drawn) / 6 for drawn in product((2, 0, 1), repeat=3)]
    assert set(np.round(draws, 9)) == set(np.round(by_hand, 9))
    for value in set(by_hand):
        share = sum(one == value for one in by_hand) / len(by_hand)
        assert np.isclose(draws, value).mean() == pytest.approx(share, abs=0.03)
    alone = runs("A", values).draws(DRAWS, "first")
    assert draws.std() > alone.std()


def test_clusters_of_unequal_size_weigh_by_their_items() -> None:
    found = runs("A", {"a1": 1.0, "a2": 1.0, "b1": 0.0}, pairs=True)
    draws = found.draws(DRAWS, "first")
    assert set(np.round(draws, 9)) == {0.0, 1.0, round(2 / 3, 9)}
    assert found.mean() == pytest.approx(2 / 3)


def test_one_cluster_has_no_interval() -> None:
    found = runs("A", {"a1": 1.0, "a2": 0.0}, pairs=True)
    assert found.estimate(DRAWS).interval is None
    gap = mean_difference(found, runs("B", {"a1": 0.0, "a2": 0.0}, pairs=True), DRAWS)
    assert (gap.value, gap.interval, gap.at(0.9)) == (0.5, None, None)
    assert gap.p_value == 1.0


def test_seeds_that_differ_widen_the_interval() -> None:
    items = {f"item {at}": float(at % 2) for at in range(40)}
    alike = runs("A", items, items)
    apart = runs("A", dict.fromkeys(items, 0.9), dict.fromkeys(items, 0.1))
    ends = [one.estimate(DRAWS).interval for one in (alike, apart)]
    assert all(ends)
    narrow, wide = (one.high - one.low for one in ends if one is not None)
    assert alike.mean() == apart.mean() == 0.5
    assert wide > narrow
    # The same models before and after: what a seed has in both cancels.
    after = runs("B", dict.fromkeys(items, 1.0), dict.fromkeys(items, 0.2))
    together = mean_difference(after, apart, DRAWS, paired=True)
    separate = mean_difference(after, apart, DRAWS)
    assert together.interval.low == pytest.approx(0.1)
    assert separate.interval.low < 0.0 < together.interval.low


def test_the_p_of_few_clusters_is_that_of_their_flips() -> None:
    before = {f"{name}{side}": 0.0 for name in "abc" for side in "12"}
    after = dict.fromkeys(before, 1.0)
    by_pair = mean_difference(runs("A", after, pairs=True), runs("B", before, pairs=True), DRAWS, paired=True)
    by_item = mean_difference(runs("A", after), runs("B", before), DRAWS, paired=True)
    assert by_pair.p_value == 0.25  # 2 of 2^3 flips
    assert by_item.p_value == 2 / 2**6


def test_systems_are_held_against_each_other_on_the_items_they_share() -> None:
    (first, second), left_out = shared_items([runs("A", {"a": 1.0, "b": 0.0}), runs("B", {"b": 1.0, "c": 0.0})])
    assert first.items == second.items == ("b",)
    assert left_out == 2


def test_more_effort_refuses_that_one_beats_the_other() -> None:
    better, worse = constant("A", 0.9), constant("B", 0.1)
    family = [
        Beats(
            first=better,
            second=worse,
            metric="reward",
            training=(Training("items", mine), Training("items", theirs)),
            parity=SAME,
        )
        for mine, theirs in ((80, 80), (81, 80), (80, 0))
    ]
    even, more, untrained = judge_beats(family, DRAWS)
    assert [one.verdict for one in (even, more, untrained)] == [Verdict.ALLOWED, Verdict.REFUSED, Verdict.ALLOWED]
    assert [one.name for one in more.checks if not one.passed] == [CheckName.TRAINING]
    assert (even.seeds, untrained.seeds) == ((2, 2), (2,))
    assert even.p_holm == pytest.approx(3 * even.p_value)
    (reverse,) = judge_beats([Beats(first=worse, second=better, metric="reward", parity=SAME)], DRAWS)
    refused = {one.name: one.finding for one in reverse.checks if not one.passed}
    assert refused == {CheckName.TRAINING: Finding.MISSING, CheckName.DIFFERENCE: Finding.FAILED}


def test_what_is_learned_lies_above_all_that_is_simpler() -> None:
    system, before = constant("A", 0.8), constant("A", 0.2)
    baseline, control = constant("a word", 0.5, seeds=1), constant("A'", 0.3)
    whole = Learned(system=system, metric="reward", before=before, baselines=(baseline,), control=control, parity=SAME)
    bare = Learned(system=system, metric="reward", before=before, parity=SAME)
    low = Learned(
        system=constant("A", 0.4), metric="reward", before=before, baselines=(baseline,), control=control, parity=SAME
    )
    allowed, missing, below = judge_learned([whole, bare, low], DRAWS)
    assert allowed.verdict is Verdict.ALLOWED
    assert allowed.value == pytest.approx(0.3)
    assert allowed.second == "the baseline a word"
    assert {one.name: one.finding for one in missing.checks if not one.passed} == {
        CheckName.BASELINE: Finding.MISSING,
        CheckName.CONTROL: Finding.MISSING,
    }
    assert [one.name for one in below.checks if not one.passed] == [CheckName.BASELINE]


def test_values_that_only_some_items_have_are_averaged_under_each_seed() -> None:
    items = [f"item {at}" for at in range(12)]
    by_seed = [{item: Fraction(at < 2) for at, item in enumerate(items[:count])} for count in (8, 4)]
    found = MeanRuns.some("A", by_seed, items)
    assert found.means() == (0.25, 0.5)
    assert found.mean() == 0.375
    assert (found.num_items, len(found.pooled())) == (12, 8)
    interval = found.estimate(DRAWS).interval
    assert interval.low < 0.25
    assert interval.high > 0.5
    whole = [{item: Fraction(at % 3, 2) for at, item in enumerate(items)}] * 2
    assert MeanRuns.some("A", whole, items).estimate(DRAWS) == MeanRuns.of("A", whole).estimate(DRAWS)
    with pytest.raises(DataError, match="nothing to average"):
        MeanRuns.some("A", [*by_seed, {}], items)


def test_a_ratio_of_means_has_an_upper_end_only_where_the_lower_one_is_never_zero() -> None:
    half, rare = runs("half", *[{f"{at:02}": float(at < 20) for at in range(40)}] * 2), constant("one", 1.0, 40)
    few = runs("few", *[{f"{at:02}": float(at < 1) for at in range(40)}] * 2)
    found = mean_ratio(half, half, DRAWS)
    assert found.value == 1.0
    assert found.interval.holds(1.0)
    open_end = mean_ratio(half, few, DRAWS)
    assert (open_end.value, open_end.interval) == (20.0, None)
    assert mean_ratio(rare, constant("none", 0.0, 40), DRAWS) is None


def test_resamples_are_added_up_in_the_order_of_the_clusters() -> None:
    rng = np.random.default_rng(0)
    times, values = rng.integers(0, 4, (50, 37)).astype(np.float64), rng.normal(size=(37, 3))
    for row, found in zip(times, drawn_sums(times, values), strict=True):
        total = [0.0, 0.0, 0.0]
        for count, each in zip(row, values, strict=True):
            total = [one + float(count) * float(value) for one, value in zip(total, each, strict=True)]
        assert found.tolist() == total


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 2.0])
def test_equal_draws_give_a_mean_no_interval(value: float) -> None:
    assert constant("A", value).estimate(DRAWS).interval is None
    assert runs("A", {"a": 0.0, "b": value + 1.0}).estimate(DRAWS).interval is not None


EQUAL = [(1.0, 0.0, (0.724, 1.0)), (0.5, 0.5, (-0.138, 0.138)), (0.0, 1.0, (-1.0, -0.724)), (0.5, 0.25, None)]


@pytest.mark.parametrize(("first", "second", "ends"), [*EQUAL, (2.0, 2.0, None)])
def test_equal_draws_give_a_difference_of_shares_the_interval_of_as_many_pairs(
    first: float, second: float, ends: tuple[float, float] | None
) -> None:
    found = varied_difference(constant("A", first), constant("B", second), DRAWS).interval
    assert ends == (None if found is None else pytest.approx((found.low, found.high), abs=0.001))
    apart = runs("A", {"a": 0.0, "b": 1.0}), runs("B", {"a": 0.0, "b": 0.5})
    assert varied_difference(*apart, DRAWS).interval == mean_difference(*apart, DRAWS).interval
