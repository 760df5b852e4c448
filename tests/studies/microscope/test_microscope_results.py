"""Shares, ratios and what was asked, from looks whose figures are known."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from tinsmith.lab.experiment.estimate import NANO_PACE, Lengths
from tinsmith.lab.study.measures import ArmRuns, Results, measure_study
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.study import OnRuns
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import Verdict
from tinsmith.studies.microscope.looking import Agreement, Decoding, Intervention, ItemLook, Looked, Rule, Writer
from tinsmith.studies.microscope.study import agreed, corrected, look_seconds, lowest_of_control, with_looks
from tinsmith.studies.microscope.study import study as microscope

DRAWS = Bootstrap(draws=200)
ITEMS = [f"item-{place}" for place in range(12)]
CONFIG: Final = SimpleNamespace(
    settings={"steps": 10, "groups_per_batch": 10}, data=SimpleNamespace(fingerprint="data"), seed=1
)
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
    row = agreed([looked(), looked()], Writer.FIRST, Decoding.GREEDY, DRAWS)
    assert row["tokens"] == Measure(2 * 12 * 20)
    shares = [row[name] for name in ("unshifted", "reranked", "shifted")]
    assert [one.value for one in shares if one is not None] == [0.95, 0.05, 0.0]
    assert row["mean rank"] == Measure(3.0)
    assert row["entropy ratio"].value == pytest.approx(12.0)
    assert row["entropy ratio"].low == pytest.approx(12.0)


def test_where_nothing_parts_there_is_no_rank_and_no_ratio() -> None:
    row = agreed([looked(reranked=0)], Writer.FIRST, Decoding.GREEDY, DRAWS)
    assert (row["unshifted"].value, row["mean rank"], row["entropy ratio"]) == (1.0, None, None)


def test_what_is_recovered_is_of_the_seconds_gain() -> None:
    looks = [looked(), looked()]
    found = {rule: corrected(looks, rule, Decoding.GREEDY, DRAWS) for rule in Rule}
    assert found[Rule.RANDOM]["recovered"] == Measure(0.0, 0.0, 0.0)
    oracle = found[Rule.ORACLE]["recovered"]
    assert oracle.value == 0.75
    assert oracle.low < 0.75
    assert found[Rule.ORACLE]["taken"] == Measure(0.05)


def test_no_share_is_stated_of_a_gain_that_may_be_none() -> None:
    def earning(right: int, of: Agreement) -> Agreement:
        earned = {name: (float(place < right),) for place, name in enumerate(ITEMS)}
        return msgspec.structs.replace(of, earned=earned)

    agreements = tuple(earning(1, each) if each.writer is Writer.SECOND else each for each in looked().agreements)
    one_of_twelve = msgspec.structs.replace(looked(), agreements=agreements)
    rows = [corrected([one_of_twelve], rule, each, DRAWS) for rule in Rule for each in Decoding]
    assert [row["recovered"] for row in rows] == [None] * 6


def test_a_policy_against_itself_is_unshifted_everywhere() -> None:
    assert lowest_of_control([looked()]) == 1.0


def results(looks: int, tables: Bootstrap, claims: Bootstrap, *, unequal: int | None = 0) -> Results:
    """Measure the study on looks at made-up runs."""
    row = {} if unequal is None else {"optim/unequal_logprob_bits": float(unequal)}
    made = [SimpleNamespace(folder=Path(str(at)), config=CONFIG, metrics={1: row, 2: row}) for at in range(looks)]
    items = [SimpleNamespace(id=name, prompt=name) for name in ITEMS]
    reads: Any = tuple(
        SimpleNamespace(run=run, sampled=(), greedy=(), task=SimpleNamespace(items=items, baselines=())) for run in made
    )
    on = OnRuns(folder="looks", name="grpo", make=lambda *_: None, arm="grpo")
    study = with_looks(microscope, 1, 0.7, on, (), "made", "GRPO")
    seen = tuple(looked() for _ in range(looks))
    arms = {arm.name: ArmRuns(arm, reads, str, made=seen) for arm in study.arms}
    return measure_study(study, arms, Draws(claims=claims, tables=tables))


def test_the_literatures_findings_are_met_by_the_figure() -> None:
    found = [one.check(results(1, DRAWS, DRAWS)) for one in microscope.expectations]
    assert [one.met for one in found] == [True, True, True, False, False, True, True, True]
    assert found[3].figures.startswith("0.750")


def test_claims_are_the_gates() -> None:
    often = Bootstrap(draws=2000)  # else no p could be small enough
    claims = results(5, DRAWS, often).beats
    assert len(claims) == 6
    assert {one.verdict for one in claims} == {Verdict.ALLOWED}
    without = results(5, DRAWS, DRAWS, unequal=None).beats
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
