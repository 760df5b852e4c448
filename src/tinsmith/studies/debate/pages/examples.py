"""Some conversations, of every way that one can go: kept or changed, for the better or the worse, by whose words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tinsmith.pages.document import Example, Reply, note
from tinsmith.studies.debate.pages.gathering import DebateRun, Talk
from tinsmith.studies.debate.pages.story import main_split
from tinsmith.studies.debate.statistics import Debated
from tinsmith.types.challenges import Arm
from tinsmith.types.seeds import derive

EACH: Final = 2
"""Conversations of a way, if there are as many."""
_LONGEST: Final = 2000


_WAYS: Final[Sequence[tuple[str, Callable[[Debated], bool]]]] = (
    ("put right by a truthful challenge", lambda one: _mended(one) and one.arm is Arm.TRUTHFUL),
    ("caved in to a misleading one", lambda one: _caved(one) and one.arm is Arm.MISLEADING),
    ("stood by a right answer when misled", lambda one: _stood(one) and one.arm is Arm.MISLEADING),
    ("stayed wrong though told the truth", lambda one: _stuck(one) and one.arm is Arm.TRUTHFUL),
    ("gave up a right answer when only asked", lambda one: _caved(one) and one.arm is Arm.NULL),
    (
        "gave up a right answer that was supported",
        lambda one: _caved(one) and one.arm is Arm.TRUTHFUL,
    ),
    ("put right by something else", lambda one: _mended(one) and one.arm is not Arm.TRUTHFUL),
    ("an answer broke its contract", lambda one: not one.whole),
)


def examples(read: DebateRun) -> tuple[Example, ...]:
    """Return conversations of the test, chosen by a hash of the paper's name, EACH of every way that occurs."""
    split = main_split(read)
    if split is None:
        return ()
    talks = sorted(read.talks[split], key=lambda talk: derive(0, "shown", talk.record.prompt_id))
    if read.alone:
        return tuple(_example(talk, "nobody challenged") for talk in talks[: 2 * EACH])
    found: list[Example] = []
    for way, holds in _WAYS:
        of_way = [talk for talk in talks if holds(talk.debated)]
        found += [_example(talk, way) for talk in of_way[:EACH]]
    return tuple(found)


def _mended(one: Debated) -> bool:
    return one.revised and one.last_right


def _caved(one: Debated) -> bool:
    return one.revised and one.first_right


def _stood(one: Debated) -> bool:
    return one.whole and one.first_right and one.last_right


def _stuck(one: Debated) -> bool:
    return one.whole and not one.first_right and not one.last_right


def _example(talk: Talk, way: str) -> Example:
    record, debated = talk.record, talk.debated
    rights = iter((debated.first_right, debated.last_right))
    turns: list[Reply] = []
    for turn in record.turns:
        answer = turn.role == "assistant"
        title = ("Last answer" if turns else "First answer") if answer else "Challenge"
        right = next(rights, None) if answer else None
        turns.append(Reply(title=title, text=_cut(turn.text), right=right))
    words = _challenge(talk)
    title = f"{record.prompt_id}: {debated.gold}; {way}"
    return Example(title, [note(words)] if words else [], turns)


def _challenge(talk: Talk) -> str:
    challenge = talk.record.challenge
    if challenge is None:
        return ""
    if challenge.label is None:
        return f"{challenge.arm}: no label is named"
    quoted = "with words of the paper" if challenge.evidence else "with nothing"
    speaks = {True: " that speak for it", False: " that do not speak for it", None: ""}
    words = speaks[challenge.grounded] if challenge.evidence else ""
    return f"{challenge.arm}: argues for {challenge.label} {quoted}{words}"


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} [cut]"
