"""The claim gate: what allows a claim, and that every missing or failing piece of evidence refuses it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sentences import missing
from tinsmith.stats.claims import CheckName, Claim, Comparison, Finding, Verdict, judge
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import ConfigError

LABELS = ("a", "b", "c")
QUICK = Bootstrap(draws=1000)
N = 900
GOLDS = np.arange(N) % 3


def system(name: str, accuracy: float, *, seeds: int = 1, lost: int | None = None) -> Runs:
    """Return a system right with the given chance; it never says the lost label."""
    rng = np.random.Generator(np.random.PCG64([len(name), seeds, round(1000 * accuracy)]))
    right = rng.random((seeds, N)) < accuracy
    said = np.where(right, GOLDS, (GOLDS + rng.integers(1, 3, (seeds, N))) % 3)
    if lost is not None:
        said = np.where(said == lost, (lost + 1) % 3, said)
    return Runs(name, LABELS, tuple(map(str, range(N))), GOLDS, said)


def comparison() -> Comparison:
    """Return a claim with everything in its favour."""
    return Comparison(
        first=system("better", 0.65),
        second=system("plain", 0.5),
        metadata=system("metadata", 0.45),
        control=system("shuffled", 1 / 3),
        parity=ParityRecord(steps=100, unequal_bits=0),
    )


def one(claimed: Comparison) -> Claim:
    """Judge a single claim."""
    return judge([claimed], QUICK)[0]


def refusals(claim: Claim) -> list[CheckName]:
    """Return the checks that stand in the way."""
    return [check.name for check in claim.checks if not check.passed]


def test_a_claim_with_all_its_evidence_is_allowed_and_says_what_it_is_about() -> None:
    claim = one(comparison())
    assert claim.verdict is Verdict.ALLOWED
    assert refusals(claim) == []
    assert re.match(r"better .*\bplain .*\bmacro_f1: \+0\.1.*\bn = 900\b", claim.sentence())
    assert claim.seeds == (1, 1)
    assert len(claim.reasons) == len(CheckName)


def test_five_seeds_a_side_speak_for_the_method() -> None:
    claimed = replace(
        comparison(), first=system("better", 0.65, seeds=5), second=system("plain", 0.5, seeds=5)
    )
    claim = one(claimed)
    assert claim.verdict is Verdict.ALLOWED
    assert claim.seeds == (5, 5)
    assert missing(claim.sentence(), "method", "5 and 5 seeds") == []


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"metadata": None}, CheckName.METADATA, "no metadata-only baseline"),
        ({"control": None}, CheckName.CONTROL, "no run on shuffled labels"),
        ({"parity": None}, CheckName.PARITY, "were not compared"),
        ({"parity": ParityRecord(0, 0)}, CheckName.PARITY, "were not compared"),
        ({"parity": ParityRecord(9, 4)}, CheckName.PARITY, "differ in 4 log-probabilities"),
        ({"metadata": system("metadata", 0.7)}, CheckName.METADATA, "does not beat the metadata"),
        ({"control": system("shuffled", 0.5)}, CheckName.CONTROL, "labels leak"),
        ({"second": system("plain", 0.64)}, CheckName.DIFFERENCE, "may be zero"),
        ({"second": system("plain", 0.8)}, CheckName.DIFFERENCE, "better is worse"),
    ],
)
def test_one_failing_or_missing_piece_refuses_with_its_reason(
    change: dict[str, object], name: CheckName, words: str
) -> None:
    claim = one(replace(comparison(), **change))
    assert claim.verdict is Verdict.REFUSED
    assert name in refusals(claim)
    assert any(words in reason for reason in claim.reasons)
    assert re.match(r"not .*\bbetter .*\bplain\b", claim.sentence())
    missing = change[next(iter(change))] in (None, ParityRecord(0, 0))
    found = next(check.finding for check in claim.checks if check.name is name)
    assert found is (Finding.MISSING if missing else Finding.FAILED)


def test_a_lost_label_refuses_a_gain_in_accuracy() -> None:
    first = system("better", 0.8, lost=0)
    claim = one(replace(comparison(), first=first, metric=Metric.LABEL_MATCH))
    assert CheckName.RECALL in refusals(claim)
    assert any("smallest recall 0.000" in reason for reason in claim.reasons)


def test_training_on_shuffled_labels_is_refused_every_claim() -> None:
    shuffled, collapsed = system("shuffled", 1 / 3), Runs.constant(system("x", 0.5), "a")
    base = replace(comparison(), first=shuffled, control=system("another", 1 / 3))
    family = [
        replace(base, second=second, metric=metric)
        for second in (collapsed, system("plain", 0.5))
        for metric in (Metric.MACRO_F1, Metric.LABEL_MATCH, Metric.BALANCED_ACCURACY)
    ]
    claims = judge(family, QUICK)
    assert {claim.verdict for claim in claims} == {Verdict.REFUSED}
    # Against a collapsed system the difference itself is real: balance alone raises the macro-F1.
    assert claims[0].interval is not None
    assert claims[0].interval.above(0.0)
    assert CheckName.CHANCE in refusals(claims[0])


def test_holm_widens_the_intervals_of_a_family_and_can_refuse() -> None:
    close = replace(comparison(), second=system("closer", 0.6))
    alone = one(close)
    hopeless = replace(comparison(), second=system("plainer", 0.655))
    family = judge([close, *[hopeless] * 9], QUICK)
    assert alone.interval is not None
    assert family[0].interval is not None
    assert family[0].interval.low < alone.interval.low
    assert family[0].p_holm >= 9 * alone.p_value
    assert family[0].value == alone.value


def test_unanswered_items_are_left_out_and_many_refuse() -> None:
    whole = comparison()
    few = replace(whole, second=whole.second.on(whole.second.items[10:]))
    assert one(few).verdict is Verdict.ALLOWED
    assert one(few).num_items == N - 10
    many = replace(whole, second=whole.second.on(whole.second.items[100:]))
    assert refusals(one(many)) == [CheckName.ITEMS]
    assert any("11% of the items" in reason for reason in one(many).reasons)


def test_the_order_of_items_and_a_rerun_change_nothing() -> None:
    whole = comparison()
    turned = replace(whole, second=whole.second.on(whole.second.items[::-1]))
    assert one(turned) == one(whole)


def test_less_is_better_is_no_claim() -> None:
    with pytest.raises(ConfigError, match="invalid_rate"):
        Comparison(first=system("f", 0.5), second=system("s", 0.5), metric=Metric.INVALID_RATE)
