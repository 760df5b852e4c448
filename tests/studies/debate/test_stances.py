"""Which arm a challenge is in: its shares, and that neither it nor the label it names gives the truth away."""

from collections import Counter

import pytest
from debate_cases import TASK, C, D, N, item, items

from tinsmith.studies.debate.challenge import Arm, Arms, Stance, WrongLabel
from tinsmith.types.errors import ConfigError

MANY = items(3000)


def drawn(arms: Arms, answered: str | None = None) -> list[Stance]:
    return [arms.draw(one, TASK.labels, answered, 7) for one in MANY]


def test_the_shares_of_arms_and_of_evidence() -> None:
    stances = drawn(Arms(truthful=0.2, misleading=0.3, null=0.5, evidence=0.25))
    counts = Counter(one.arm for one in stances)
    for arm, share in ((Arm.TRUTHFUL, 0.2), (Arm.MISLEADING, 0.3), (Arm.NULL, 0.5)):
        assert counts[arm] / len(MANY) == pytest.approx(share, abs=0.03)
    claims = [one for one in stances if one.label is not None]
    assert {one.arm for one in claims} == {Arm.TRUTHFUL, Arm.MISLEADING}
    assert sum(one.with_evidence for one in claims) / len(claims) == pytest.approx(0.25, abs=0.03)
    assert not any(one.with_evidence for one in stances if one.label is None)


def test_the_arm_decides_whether_the_label_is_the_gold_one() -> None:
    for wrong in WrongLabel:
        for one, stance in zip(MANY, drawn(Arms(wrong=wrong), C), strict=True):
            assert (stance.label == one.gold) == (stance.arm is Arm.TRUTHFUL)


@pytest.mark.parametrize("wrong", list(WrongLabel))
@pytest.mark.parametrize("answered", [D, C, N, None])
def test_the_arm_never_looks_at_the_answer(wrong: WrongLabel, answered: str | None) -> None:
    arms = Arms(wrong=wrong)
    assert [one.arm for one in drawn(arms, answered)] == [one.arm for one in drawn(arms, D)]
    if wrong is WrongLabel.ANY:
        assert drawn(arms, answered) == drawn(arms, D)


def disagreement(arms: Arms, answered: str) -> tuple[float, float]:
    """Return how often a label that B names is not the answer: where the answer is right, and where it is wrong."""
    right, wrong = [], []
    for one, stance in zip(MANY, drawn(arms, answered), strict=True):
        if stance.label is None:
            continue
        differs = stance.label != answered
        (right if one.gold == answered else wrong).append(differs)
    return sum(right) / len(right), sum(wrong) / len(wrong)


@pytest.mark.parametrize("answered", [D, C, N])
def test_by_default_the_named_label_says_nothing_about_the_truth(answered: str) -> None:
    assert Arms().discrimination_for_nothing(3) == 0.0
    assert Arms(truthful=0.0, misleading=0.0, null=1.0).discrimination_for_nothing(3) == 0.0
    right, wrong = disagreement(Arms(), answered)
    assert wrong - right == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        (Arms(truthful=0.25, misleading=0.5, null=0.25, wrong=WrongLabel.OTHER), 1 / 3),
        (Arms(truthful=0.5, misleading=0.5, null=0.0), 0.25),
        (Arms(truthful=0.2, misleading=0.6, null=0.2), -0.125),
    ],
)
def test_other_designs_tell_it_to_a_model_that_reads_nothing(arms: Arms, expected: float) -> None:
    assert arms.discrimination_for_nothing(3) == pytest.approx(expected)
    right, wrong = disagreement(arms, D)
    assert wrong - right == pytest.approx(expected, abs=0.05)


def test_a_label_that_was_not_answered() -> None:
    arms = Arms(truthful=0.0, misleading=1.0, null=0.0, wrong=WrongLabel.OTHER)
    assert {arms.draw(item(D), TASK.labels, C, seed).label for seed in range(9)} == {N}
    assert {arms.draw(item(D), TASK.labels, D, seed).label for seed in range(9)} == {C, N}
    assert arms.draw(item(D), (D, C), C, 0).label == C  # there is no other wrong one


def test_the_seed_changes_the_arm() -> None:
    assert len({Arms().draw(item(), TASK.labels, None, seed).arm for seed in range(20)}) == 3


@pytest.mark.parametrize("bad", [{"truthful": 0.3}, {"evidence": 1.5}, {"null": -0.25}])
def test_shares_that_are_none(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="share"):
        Arms(**bad)
