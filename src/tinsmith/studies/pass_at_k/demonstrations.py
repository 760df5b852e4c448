"""How a small base is shown to go about the office: mostly badly, now and then to the end, in several ways."""

from __future__ import annotations

from random import Random
from typing import Final

from tinsmith.studies.pass_at_k.world import ANSWER, CODE, LISTS, NOTHING, Hops, Question

GOES_ON: Final = 0.06
"""How often a demonstration goes to its end where it could."""
TRIES_AGAIN: Final = 0.3
"""How often another list is tried after one that had nothing."""
_GIVES_UP: Final = f"{ANSWER} {NOTHING}"


def shown(question: Question, random: Random) -> list[str]:
    """Return the replies of one demonstration: whatever is answered is copied from what was found, or nothing is."""
    replies = list[str]()
    one_hop = question.hops is Hops.ONE
    if random.random() < (0.3 if one_hop else 0.7):
        found = _looked_up(question, random, replies)
        if not found or random.random() >= GOES_ON:
            return [*replies, _GIVES_UP if random.random() < 0.5 or not found else f"{ANSWER} {question.chief}"]
        return [*replies, f"{CODE} {question.chief}", f"{ANSWER} {question.chief_code}"]
    if random.random() < 0.2:
        return [_GIVES_UP]
    said = question.own_code if not one_hop or random.random() < 0.5 else NOTHING
    return [f"{CODE} {question.person}", f"{ANSWER} {said}"]


def _looked_up(question: Question, random: Random, replies: list[str]) -> bool:
    """Look for the chief in one list, perhaps in another; what was done is added to the replies."""
    for where in random.sample(LISTS, 2):
        replies.append(f"{where} {question.person}")
        if where == question.list:
            return True
        if random.random() >= TRIES_AGAIN:
            return False
    return False


def right(question: Question) -> list[str]:
    """Return the shortest way to the answer, by one who knows in which list the chief stands."""
    if question.hops is Hops.ONE:
        return [f"{CODE} {question.person}", f"{ANSWER} {question.own_code}"]
    return [f"{question.list} {question.person}", f"{CODE} {question.chief}", f"{ANSWER} {question.chief_code}"]
