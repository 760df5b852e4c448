"""Shares, ratios and what was asked, from looks whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tinsmith.lab.experiment.model_pace import NANO_PACE, Lengths
from tinsmith.lab.study.results import Draws
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Training, Verdict
from tinsmith.stats.parity import ParityRecord
from tinsmith.studies.microscope.agreement import Agreement, Decoding, ItemLook, Writer
from tinsmith.studies.microscope.interventions import Rule
from tinsmith.studies.microscope.looking import Intervention, Looked
from tinsmith.studies.microscope.results import (
    Asked,
    agreement_rows,
    asked_of,
    intervention_rows,
    judged,
    lowest_of_control,
)
from tinsmith.studies.microscope.study import look_seconds

DRAWS = Bootstrap(draws=200)
ITEMS = [f"item-{place}" for place in range(12)]
REWARD = {Writer.FIRST: 0.0, Writer.SECOND: 1.0}


def item_look(name: str, *, reranked: int, shifted: int = 0) -> ItemLook:
    changed = reranked + shifted
    return ItemLook(
        item=name,
        tokens=20,
        reranked=reranked,
        shifted=shifted,
        ranks=3 * changed,
        entropy_changed=1.2 * changed,
        entropy_same=0.1 * (20 - changed),
    )


def seen(writer: Writer, decoding: Decoding, *, reranked: int = 1) -> Agreement:
    return Agreement(
        writer=writer,
        decoding=decoding,
        items=tuple(item_look(name, reranked=reranked) for name in ITEMS),
        earned={name: (REWARD[writer],) for name in ITEMS},
        failures=0,
        shown={},
    )


def intervention(rule: Rule, decoding: Decoding) -> Intervention:
    right = {Rule.ORACLE: 9, Rule.RANDOM: 0, Rule.UNCERTAIN: 6}[rule]
    return Intervention(
        rule=rule,
        decoding=decoding,
        earned={name: (float(place < right),) for place, name in enumerate(ITEMS)},
        tokens=240,
        taken=12,
        failures=0,
    )


def looked(**changed: int) -> Looked:
    return Looked(
        first="base",
        second="weights",
        agreements=tuple(seen(w, d, **changed) for w in Writer for d in Decoding),
        interventions=tuple(intervention(r, d) for d in Decoding for r in Rule),
        control=tuple(seen(Writer.SECOND, d, reranked=0) for d in Decoding),
    )


def test_shares_ranks_and_entropies_are_of_all_tokens() -> None:
    row = agreement_rows([looked(), looked()], DRAWS)[0]
    assert row.tokens == 2 * 12 * 20
    assert (row.unshifted.value, row.reranked.value, row.shifted.value) == (0.95, 0.05, 0.0)
    assert row.mean_rank == 3.0
    assert row.entropy_ratio is not None
    assert row.entropy_ratio.value == pytest.approx(12.0)
    assert row.entropy_ratio.low == pytest.approx(12.0)


def test_where_nothing_parts_there_is_no_rank_and_no_ratio() -> None:
    row = agreement_rows([looked(reranked=0)], DRAWS)[0]
    assert (row.unshifted.value, row.mean_rank, row.entropy_ratio) == (1.0, None, None)


def test_what_is_recovered_is_of_the_seconds_gain() -> None:
    found = {one.rule: one for one in intervention_rows([looked(), looked()], DRAWS)[:3]}
    shares = {rule: one.recovered for rule, one in found.items()}
    assert shares[Rule.RANDOM] == Measure(0.0, 0.0, 0.0)
    oracle = shares[Rule.ORACLE]
    assert oracle is not None
    assert oracle.value == 0.75
    assert oracle.low is not None
    assert oracle.low < 0.75
    assert found[Rule.ORACLE].taken == 0.05


def test_no_share_is_told_of_a_gain_that_may_be_none() -> None:
    def earning(right: int, of: Agreement) -> Agreement:
        earned = {name: (float(place < right),) for place, name in enumerate(ITEMS)}
        return msgspec.structs.replace(of, earned=earned)

    agreements = tuple(earning(1, each) if each.writer is Writer.SECOND else each for each in looked().agreements)
    one_of_twelve = msgspec.structs.replace(looked(), agreements=agreements)
    rows = intervention_rows([one_of_twelve], DRAWS)
    assert [row.recovered for row in rows] == [None] * 6
    asked = asked_of(agreement_rows([one_of_twelve], DRAWS), rows, control=1.0)
    assert [one.value for one in asked[3:7]] == [None] * 4
    assert not any(one.expected.met for one in asked[3:7])


def test_a_policy_against_itself_is_unshifted_everywhere() -> None:
    assert lowest_of_control([looked()]) == 1.0


def test_the_literatures_findings_are_met_by_the_figure() -> None:
    looks = [looked()]
    asked = asked_of(agreement_rows(looks, DRAWS), intervention_rows(looks, DRAWS), lowest_of_control(looks))
    assert [one.expected.met for one in asked] == [True, True, True, False, False, True, True, True]
    assert asked[3].expected.figures.startswith("0.750")


def test_what_could_not_be_measured_did_not_come_out() -> None:
    assert not Asked(words="entropy ratio", value=None, bound=3.0, at_least=True).came_out


def test_claims_are_the_gates() -> None:
    looks = [looked() for _ in range(5)]
    parity = ParityRecord(steps=10, unequal_bits=0)
    often = Draws(claims=Bootstrap(draws=2000), tables=DRAWS)  # else no p could be small enough
    claims = judged(looks, Training("data", 100), parity, often)
    assert len(claims) == 6
    assert {one.verdict for one in claims} == {Verdict.ALLOWED}
    without = judged(looks, Training("data", 100), None, Draws(claims=DRAWS, tables=DRAWS))
    assert Verdict.ALLOWED not in {one.verdict for one in without}


def test_what_a_look_takes_grows_with_answers_and_most_with_their_length() -> None:
    lengths = Lengths(prompt=60, answer=20, examined=24)

    def seconds(of: Lengths, samples: int = 2, *, pretrained: bool = True) -> float:
        return look_seconds(of, samples, NANO_PACE, pretrained=pretrained)

    usual = seconds(lengths)
    assert seconds(replace(lengths, examined=48)) == pytest.approx(2 * usual)
    assert seconds(lengths, samples=5) == pytest.approx(2 * usual)
    assert seconds(replace(lengths, answer=40)) > 2 * usual
    assert seconds(lengths, pretrained=False) < usual / 4
