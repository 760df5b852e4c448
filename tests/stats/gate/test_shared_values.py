"""Claims on values that only some items have: the items that all systems have a value of are compared, and counted."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import pytest

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import (
    Beats,
    CheckName,
    Claim,
    Finding,
    Learned,
    ParityRecord,
    Training,
    Verdict,
    judge_beats,
    judge_learned,
)
from tinsmith.stats.mean_runs import MeanRuns, common_items, mean_difference, mean_ratio, shared_items
from tinsmith.types.errors import DataError

QUICK = Bootstrap(draws=1000)
SAME = Training("items", 80)
PARITY = ParityRecord(steps=3, unequal_bits=0)
ITEMS = [f"i{at}" for at in range(100)]


def some(name: str, *by_seed: Mapping[str, Fraction]) -> MeanRuns:
    return MeanRuns.some(name, by_seed, ITEMS)


def of(value: float, places: Iterable[int]) -> dict[str, Fraction]:
    return {f"i{at}": Fraction(repr(value)) for at in places}


def judged(first: MeanRuns, second: MeanRuns) -> Claim:
    (claim,) = judge_beats([Beats(first=first, second=second, metric="m", training=(SAME, SAME), parity=PARITY)], QUICK)
    return claim


def refusals(claim: Claim) -> set[CheckName]:
    return {check.name for check in claim.checks if not check.passed}


def test_n_is_the_number_of_items_with_a_value_in_both() -> None:
    claim = judged(some("A", of(1.0, range(8))), some("B", of(0.0, range(8))))
    assert (claim.verdict, claim.num_items, claim.value) == (Verdict.ALLOWED, 8, 1.0)
    assert claim.p_value == 2 / 2**8


def test_the_difference_is_that_on_the_items_that_both_have() -> None:
    # The first has the easy items and few of the others.
    first = some("A", of(1.0, range(12)) | of(0.51, range(12, 20)))
    claim = judged(first, some("B", of(0.5, range(12, 100))))
    assert claim.value == pytest.approx(0.01)
    assert claim.num_items == 8
    assert CheckName.ITEMS in refusals(claim)


def test_an_item_counts_in_a_claim_where_every_seed_has_its_value() -> None:
    easy, hard = range(50), range(50, 100)
    first = some("A", of(1.0, easy) | of(0.5, hard), of(1.0, easy) | of(0.5, range(50, 98)))
    second = some("B", of(1.0, easy) | of(0.5, hard), of(0.5, hard) | of(1.0, range(2, 50)))
    claim = judged(first, second)
    assert (claim.num_items, claim.value) == (96, 0.0)
    # Each seed lacks another half: every item has a value in both systems, and no two models share one.
    turned = judged(some("A", of(1.0, easy), of(0.5, hard)), some("B", of(0.5, hard), of(0.5, hard)))
    assert (turned.verdict, turned.num_items) == (Verdict.REFUSED, 0)


def test_systems_without_a_shared_item_are_refused_with_the_reason() -> None:
    claim = judged(MeanRuns.of("A", [of(1.0, [0])]), MeanRuns.of("B", [of(1.0, [1])]))
    assert (claim.verdict, claim.num_items, claim.interval, claim.p_value) == (Verdict.REFUSED, 0, None, 1.0)
    assert refusals(claim) == {CheckName.ITEMS, CheckName.DIFFERENCE}
    assert "2 of 2 items were not answered by all systems" in claim.sentence()
    apart = Learned(
        system=MeanRuns.of("A", [of(1.0, [0])]), metric="m", before=MeanRuns.of("A", [of(0.0, [1])]), parity=PARITY
    )
    whole = Learned(
        system=MeanRuns.of("A", [of(1.0, range(20))]), metric="m", before=MeanRuns.of("A", [of(0.0, range(20))])
    )
    refused, other = judge_learned([apart, whole], QUICK)
    assert (refused.verdict, refused.num_items, other.num_items) == (Verdict.REFUSED, 0, 20)
    found = {check.name: check.finding for check in refused.checks}
    assert (found[CheckName.ITEMS], found[CheckName.BEFORE]) == (Finding.FAILED, Finding.MISSING)


def test_what_stands_against_nothing_simpler_is_refused() -> None:
    (claim,) = judge_learned([Learned(system=MeanRuns.of("A", [of(1.0, range(20))]), metric="m", parity=PARITY)], QUICK)
    assert (claim.verdict, claim.num_items) == (Verdict.REFUSED, 20)


def test_a_seed_without_any_shared_value_leaves_nothing_to_compare() -> None:
    first, second = MeanRuns.some("A", [of(1.0, [0]), of(1.0, [9])], ["i0", "i9"]), MeanRuns.of("B", [of(0.0, [0])])
    assert common_items([first, second]) == ([], 2)
    for compare in (shared_items, lambda both: mean_difference(*both, QUICK), lambda both: mean_ratio(*both, QUICK)):
        with pytest.raises(DataError, match="no item"):
            compare([first, second])
    with pytest.raises(DataError, match="A has no value"):
        first.on(["i0"])
    assert judged(first, second).verdict is Verdict.REFUSED


def test_estimates_of_tables_use_each_seeds_own_values() -> None:
    first, second = some("A", of(1.0, range(8)), of(0.5, range(4))), some("B", of(0.0, range(2, 100)))
    (one, other), left_out = shared_items([first, second])
    assert (one.num_items, one.items) == (6, other.items)
    assert left_out == 94
    assert one.means() == (1.0, 0.5)
    assert mean_difference(first, second, QUICK).value == 0.75
