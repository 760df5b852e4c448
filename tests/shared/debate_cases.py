"""Papers, answers and conversations that the suites of the debate use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinsmith.lab.labels.contracts import FOUR_KEY, Confidence
from tinsmith.lab.labels.task import Item, Paper, make_task
from tinsmith.lab.user_task.dialogue import Dialogue, converse
from tinsmith.lab.user_task.task import Task
from tinsmith.studies.debate.challenge import WORLD_CUES, Arm, Arms, Challenger, Script, Stance, load_script
from tinsmith.studies.debate.rewards import Exchange, debate_reward, reasons_of
from tinsmith.studies.debate.task import Debate

D, C, N = FOUR_KEY.labels
TASK = make_task("disruption", prompt="brief")
BRIEF, PLAIN = load_script("brief"), load_script("plain")
ABSTRACT = (
    "Gears of tin and copper turn in oil. We introduce a new class of gears for slow mills. "
    "We extend earlier work on oil in mills and towers. The wheels of the tower turn at night."
)
"""One cue for disruptive, one for consolidating, none for neutral."""


def item(gold: str = D, **changed: Any) -> Item:
    values: dict[str, Any] = {"id": "W1", "title": "Gears of tin", "abstract": ABSTRACT}
    return Item(paper=Paper(**values | changed), golds=(gold,), hidden=(0.0213471,))


def items(count: int, **changed: Any) -> list[Item]:
    return [item((D, C, N)[i % 3], id=f"W{i}", **changed) for i in range(count)]


def answer(
    label: str, *, reason: str = "", signals: Sequence[str] = (), confidence: Confidence = Confidence.LOW
) -> str:
    return FOUR_KEY.answer_text(label, confidence, justification=reason, signals=signals)


def only(arm: Arm, **changed: Any) -> Arms:
    shares = {one.value: float(one is arm) for one in Arm}
    return Arms(**shares, **changed)


def scripted(arms: Arms | None = None, **changed: Any) -> Challenger:
    return Challenger(labels=TASK.labels, script=BRIEF, arms=arms or Arms(), **changed)


def debate_task(challenger: Challenger | None, **more: Any) -> Task:
    about = Debate(
        question=TASK, reward=debate_reward("adversarial/gated"), challenger=challenger, cues=WORLD_CUES, **more
    )
    return about.task(items(3), (), ())


def talk(one: Item | None = None, arms: Arms | None = None, seed: int = 0) -> Dialogue:
    return converse(debate_task(scripted(arms)), one or item(), seed)


@dataclass(frozen=True)
class Said:
    stance: Stance
    text: str


def heard(one: Item, arms: Arms, first: str = "{}", seed: int = 0, script: Script = BRIEF) -> Said:
    challenger = replace(scripted(arms), script=script)
    answered = FOUR_KEY.parse(first).predicted
    words = challenger.challenge(one, answered, first, seed)
    assert isinstance(words, str)
    return Said(challenger.stance(one, answered, seed)[0], challenger.words(words))


def exchange(first: str, last: str, *, gold: str = D, claim: str | None = C) -> Exchange:
    """A finished conversation from two texts; B claims a label and quotes, or claims nothing."""
    arm = Arm.NULL if claim is None else Arm.TRUTHFUL if claim == gold else Arm.MISLEADING
    words = "Are you sure?" if claim is None else f'I say {claim}. It says: "wheels of the tower turn"'
    return Exchange(
        item=item(gold),
        first=FOUR_KEY.parse(first),
        last=FOUR_KEY.parse(last),
        stance=Stance(arm=arm, label=claim, with_evidence=claim is not None),
        challenge=words,
        reasons=reasons_of(FOUR_KEY, last),
    )
