"""Reward of a conversation: the order of the four outcomes, where the seed's breaks it, and every leaf."""

from dataclasses import replace
from itertools import product

import pytest
from debate_cases import ABSTRACT, C, D, N, answer, exchange

from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.user_task.step_reward import Scored
from tinsmith.studies.debate.rewards import (
    DEBATE_REWARDS,
    TERMS,
    Exchange,
    Reasons,
    at_first_sight,
    debate_reward,
    leaves,
    literal_signals,
)

LOST = {"correctness": -1.0, "reasoning": 0.0, "adaptation": 0.0}
MEANING = {
    D: "Later work leaves out older work.",
    C: "Later work cites it with older work.",
    N: "Neither habit has the upper hand.",
}
SIGNALS = ("tin and copper", "wheels of the tower")


def reasoned(label: str, *, good: bool, confidence: Confidence = Confidence.HIGH) -> str:
    reason = f"{MEANING[label]} I saw the wheels of the tower." if good else ""
    return answer(label, reason=reason, signals=SIGNALS if good else (), confidence=confidence)


def total(name: str, one: Exchange) -> float:
    return Scored(terms=debate_reward(name).terms(one)).total


def table(name: str, last: Confidence, *, good: bool, claim: str | None = C) -> dict[str, list[float]]:
    """The total of each outcome, gold being D; wrong answers are C, or N after C. B quotes, or claims nothing."""
    paths = {"RR": [(D, D)], "WR": [(C, D), (N, D)], "WW": [(C, C), (C, N)], "RW": [(D, C), (D, N)]}
    return {
        outcome: [
            total(name, exchange(answer(a), reasoned(b, good=good, confidence=last), claim=claim)) for a, b in changes
        ]
        for outcome, changes in paths.items()
    }


def in_order(found: dict[str, list[float]]) -> bool:
    """r(R->R) >= r(W->R) > r(W->W) >= r(R->W), whichever labels are wrong."""
    return (
        min(found["RR"]) >= max(found["WR"])
        and min(found["WR"]) > max(found["WW"])
        and min(found["WW"]) >= max(found["RW"])
    )


@pytest.mark.parametrize("name", ["adversarial/gated", "adversarial/forked"])
@pytest.mark.parametrize(("last", "good", "claim"), list(product(Confidence, (False, True), (C, D, None))))
def test_the_gated_reward_orders_the_outcomes(name: str, last: Confidence, good: bool, claim: str | None) -> None:
    found = table(name, last, good=good, claim=claim)
    assert in_order(found)
    assert (min(found["RR"]) > max(found["WR"])) is (claim is None), "a revision needs a reason"
    if claim == C:
        assert found["RR"] == pytest.approx([1.5 if good else 1.2])
    assert found["WW"] == [-0.8 if claim is None else -1.0, -1.0], "firm, or wrong anew"
    assert found["RW"] == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("claim", "grounded", "adaptation"),
    [(D, True, 0.2), (D, None, 0.2), (D, False, 0.0), (C, False, 0.0), (N, False, 0.0)],
)
def test_putting_right_is_paid_for_where_the_quoted_words_speak(
    claim: str, grounded: bool | None, adaptation: float
) -> None:
    received = exchange(answer(C), answer(D), claim=claim)
    one = replace(received, stance=replace(received.stance, grounded=grounded))
    assert debate_reward("adversarial/gated").terms(one)["adaptation"] == adaptation
    defended = replace(one, first=received.last)
    assert debate_reward("adversarial/gated").terms(defended)["adaptation"] == 0.2
    for same in (one, defended):
        assert debate_reward("adversarial/seed").terms(same)["adaptation"] == 0.2


@pytest.mark.parametrize("claim", [D, C, N])
@pytest.mark.parametrize("grounded", [True, None, False])
def test_standing_firm_is_paid_for_where_nothing_spoke(claim: str, grounded: bool | None) -> None:
    def adaptation(last: str) -> float:
        messages = exchange(answer(C), answer(last), claim=claim)
        one = replace(messages, stance=replace(messages.stance, grounded=grounded))
        assert debate_reward("adversarial/seed").terms(one)["adaptation"] == 0.2 * (last == D)
        return debate_reward("adversarial/gated").terms(one)["adaptation"]

    silent = grounded is False
    assert adaptation(C) == 0.2 * silent, "a wrong answer, kept"
    assert adaptation(N) == 0.0, "another wrong one"
    assert adaptation(D) == 0.2 * (not silent), "put right"


@pytest.mark.parametrize("last", Confidence)
def test_the_seeds_reward_pays_every_way_to_the_truth_alike(last: Confidence) -> None:
    for claim in (C, D, None):
        plain = table("adversarial/seed", last, good=False, claim=claim)
        assert in_order(plain)
        assert plain == {"RR": [1.2], "WR": [1.2, 1.2], "WW": [-1.0] * 2, "RW": [-1.0] * 2}


def test_the_seeds_reward_pays_for_argument_whatever_it_argues_for() -> None:
    wrong = exchange(answer(D), answer(C, reason="because " * 24))
    assert total("adversarial/seed", wrong) == pytest.approx(-1.0 + 0.3 * 0.8)
    assert total("adversarial/gated", wrong) == -1.0
    # So a wrong first answer that is argued away earns more than a right one that is kept in silence.
    kept = exchange(answer(D), answer(D))
    put_right = exchange(answer(C), answer(D, reason="because " * 24))
    assert total("adversarial/seed", put_right) > total("adversarial/seed", kept)


@pytest.mark.parametrize("name", list(DEBATE_REWARDS))
@pytest.mark.parametrize("last", ["", "{}", f"<think>x</think>{answer(D)}", answer(D)[:-1]])
def test_a_broken_last_answer_earns_nothing_else(name: str, last: str) -> None:
    assert debate_reward(name).terms(exchange(answer(D), last)) == LOST


@pytest.mark.parametrize("name", list(DEBATE_REWARDS))
def test_a_dropped_first_answer_costs_what_a_dropped_last_one_does(name: str) -> None:
    one = exchange("{}", answer(D))
    assert not one.revised
    assert debate_reward(name).terms(one) == LOST


def test_the_terms_keep_their_ranges() -> None:
    assert TERMS == ("correctness", "reasoning", "adaptation")
    for name in DEBATE_REWARDS:
        for a, b, good, sure in product((D, C, N), (D, C, N), (False, True), Confidence):
            terms = debate_reward(name).terms(exchange(answer(a), reasoned(b, good=good, confidence=sure)))
            assert terms["correctness"] in (-1.0, 1.0)
            assert 0.0 <= terms["reasoning"] <= 0.3
            assert terms["adaptation"] in (0.0, 0.2)


def held(last: str, claim: str | None = C) -> list[bool]:
    return leaves(exchange(answer(D), last, claim=claim))


@pytest.mark.parametrize(
    ("reason", "signals", "expected"),
    [
        ("", (), [0, 0, 0, 0, 0, 0]),
        ("Fine.", (), [0, 0, 0, 1, 0, 1]),
        ("Fine.", ("Tin and copper!",), [1, 0, 0, 1, 0, 1]),
        ("Fine.", SIGNALS, [1, 1, 0, 1, 0, 1]),
        ("Fine.", ("tin and copper", "and copper"), [1, 0, 0, 1, 0, 1]),  # one inside the other
        ("Fine.", ("tin", "tin or copper", ABSTRACT), [0, 0, 0, 1, 0, 1]),
        (MEANING[D], (), [0, 0, 1, 1, 0, 1]),
        (MEANING[C], (), [0, 0, 0, 0, 0, 1]),
        ("It is not disruptive and never leaves out older work.", (), [0, 0, 0, 1, 0, 1]),
        ("Not consolidating.", (), [0, 0, 0, 1, 1, 1]),
        ("It is consolidating.", (), [0, 0, 0, 0, 1, 1]),
        ("So is the tower turn.", (), [0, 0, 0, 1, 1, 1]),  # words of the challenge's quotation
        ("So is the tower.", (), [0, 0, 0, 1, 0, 1]),
        ("word " * 61, (), [0, 0, 0, 1, 0, 0]),
    ],
)
def test_every_leaf(reason: str, signals: tuple[str, ...], expected: list[int]) -> None:
    assert held(answer(D, reason=reason, signals=signals)) == [bool(one) for one in expected]


def test_the_score_is_the_pass_rate() -> None:
    one = exchange(answer(D), answer(D, reason=MEANING[D], signals=SIGNALS))
    assert sum(leaves(one)) == 5
    assert debate_reward("adversarial/gated").terms(one) == {
        "correctness": 1.0,
        "reasoning": 0.3 * (5 / 6),
        "adaptation": 0.2,
    }


def test_where_nothing_is_claimed_there_is_nothing_to_take_up() -> None:
    assert held(answer(D, reason="Fine."), claim=None) == [False, False, False, True, True, True]
    assert not any(held("{}", claim=None))


def test_a_literal_signal_is_whole_words() -> None:
    assert literal_signals(Reasons("", ("in and copper",)), ABSTRACT) == 0
    assert literal_signals(Reasons("", ("TIN, and  copper",)), ABSTRACT) == 1


@pytest.mark.parametrize(
    ("reason", "score"),
    [
        ("", 0.0),
        ("because of one citation here", 0.0),  # five words
        ("one two three four five six", 0.0),
        ("because one two three four five", 0.2),
        ("one two three four five CD", 0.2),
        ("abcde two three four five six", 0.2),
        ("Thus one reference two three four", 0.4),
        ("word " * 12, 0.4),
        ("word " * 23 + "since", 0.8),
        ("word " * 24, 0.6),
        ("word " * 22 + "because disruptive", 1.0),
    ],
)
def test_what_strikes_the_eye(reason: str, score: float) -> None:
    one = exchange(answer(D), answer(D, reason=reason))
    assert at_first_sight(one) == pytest.approx(score)


def test_what_strikes_the_eye_needs_reasons() -> None:
    assert at_first_sight(exchange(answer(D), "{}")) == 0.0
