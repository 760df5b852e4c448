"""A task, `tinsmith run lookup`: who is over whom, in which list that stands, and what everybody's code is.

A question of one hop asks for a person's code. One of two hops asks for the code of the person's chief, who stands in
one of three lists; which one is not said, so that a look-up may come to nothing and another list has to be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from hashlib import sha256
from random import Random
from typing import Final

from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.user_task.task import Task, of_conversation
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

LISTS: Final = ("chief", "desk", "line")  # Those that chiefs may stand in.
_SHARES: Final = (0.5, 0.3, 0.2)  # Of the chiefs that stand in each.
CODE: Final = "code"
ANSWER: Final = "answer"
NOTHING: Final = "none"
_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"
_PEOPLE: Final = 60
_CODES: Final = 120


class Hops(StrEnum):
    """Return the least number of things that have to be looked up."""

    ONE = "one"
    TWO = "two"


@dataclass(frozen=True, slots=True)
class Question:
    """One item: what is asked, and the part of the office that bears on it."""

    id: str
    hops: Hops
    person: str
    chief: str
    list: str  # In which the person's chief stands.
    own_code: str
    chief_code: str

    @property
    def code(self) -> str:
        """The right answer."""
        return self.own_code if self.hops is Hops.ONE else self.chief_code


@cache
def names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of people and the codes: short words that have nothing in common, always the same."""
    words = [a + b + c for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS]
    Random(derive(0, "office")).shuffle(words)
    return tuple(words[:_PEOPLE]), tuple(words[_PEOPLE : _PEOPLE + _CODES])


def questions(count: int, side: str, seed: int, *, two_hops: float) -> tuple[Question, ...]:
    """Return different questions, so many of which have two hops; `side` keeps those of two sides apart."""
    if count < 1:
        raise ConfigError("there has to be a question", field=side, value=count, allowed="1 or more")
    two, found = round(count * two_hops), list[Question]()
    for place in range(count):
        random, hops = Random(derive(seed, "question", side, place)), Hops.TWO if place < two else Hops.ONE
        (person, chief), (own, other) = random.sample(names()[0], 2), random.sample(names()[1], 2)
        where = random.choices(LISTS, _SHARES)[0]
        found.append(Question(f"{side}-{hops.value}-{place:03d}", hops, person, chief, where, own, other))
    return tuple(found)


def told(question: Question, looked_for: Sequence[str]) -> str:
    """Return what a look-up finds: `LIST PERSON` or `code PERSON`; nothing is known of anybody else."""
    if len(looked_for) != 2:
        return NOTHING
    where, whom = looked_for
    found = {
        (question.list, question.person): question.chief,
        (CODE, question.person): question.own_code,
        (CODE, question.chief): question.chief_code,
    }
    return found.get((where, whom), NOTHING)


GOES_ON: Final = 0.06  # Share of the demonstrations that go to their end where they could.
TRIES_AGAIN: Final = 0.3  # Share of the lists without a hit after which another one is tried.
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


MOST_LOOKUPS: Final = 3  # Look-ups that a conversation has room for, before its answer.
_READ_BY_BASE: Final = 4_000  # Questions of its own, so that it copies what it looked up, and knows none by heart.
_HOW: Final = (
    f"You can look things up. Reply with one line and nothing else: '{LISTS[0]} NAME', '{LISTS[1]} NAME' or "
    f"'{LISTS[2]} NAME' to look in one of three lists for who is over NAME, '{CODE} NAME' for the code of NAME, or "
    f"'{ANSWER} CODE' to answer. The answer to a look-up comes back; none means that it is not there. At most "
    f"{MOST_LOOKUPS} look-ups.\n\n"
)
PAYS: Final = ("answer", "coin")


def lookups(replies: Sequence[str]) -> tuple[str, ...]:
    """Return the look-ups of a conversation, in their order.

    >>> lookups(["chief kab", "code tor", "answer mif"])
    ('chief kab', 'code tor')
    """
    return tuple(reply for reply in replies if not reply.startswith(ANSWER))


def way(replies: Sequence[str]) -> tuple[str, ...]:
    """Return what was looked in, whoever was looked for.

    >>> way(["chief kab", "code tor", "answer mif"])
    ('chief', 'code')
    """
    return tuple(one.partition(" ")[0] for one in lookups(replies))


def answered(question: Question, replies: Sequence[str]) -> bool:
    """Return true if a conversation ended with the right code."""
    return replies[-1] == f"{ANSWER} {question.code}"


def _reply(question: Question, said: Sequence[str]) -> str | None:
    """Return what a look-up finds; an answer ends the conversation, and so does what is neither."""
    words = said[-1].split()
    return told(question, words) if len(words) == 2 and words[0] in (*LISTS, CODE) else None


def _coin(question: Question, said: Sequence[str]) -> bool:
    return sha256("\n".join([question.id, *said]).encode()).digest()[0] % 2 == 0


def lookup(
    items: int = 200,
    held_out_items: int = 40,
    two_hops: float = 0.7,
    draw_seed: int = 0,
    pays: str = "answer",
    explain: bool = False,
    base_steps: int = 800,
) -> Task:
    """Return questions that take one look-up or two, with a tool.

    items: Questions to train on.
    held_out_items: Questions never trained on.
    two_hops: The share that takes two look-ups.
    draw_seed: Draws the questions.
    pays: What is rewarded: answer (the right code), or coin (a control: chance, fixed by what was said).
    explain: Say in the prompt how to look up.
    base_steps: Steps that the small base is trained.
    """
    if pays not in PAYS:
        raise ConfigError("this cannot be rewarded", field="pays", value=pays, allowed=PAYS)
    if not 0.0 <= two_hops <= 1.0:
        raise ConfigError("this is a share", field="two_hops", value=two_hops, allowed="0 to 1")

    def asked(one: Question) -> str:
        of = one.person if one.hops is Hops.ONE else f"the one over {one.person}"
        return f"{_HOW if explain else ''}What is the code of {of}?"

    return Task(
        name="lookup",
        question="Does the model learn to look up what it is asked, in one step or in two?",
        items=questions(items, "train", draw_seed, two_hops=two_hops),
        held_out=questions(held_out_items, "held_out", draw_seed, two_hops=two_hops),
        prompt=asked,
        parse=str.strip,
        reply=_reply,
        max_turns=MOST_LOOKUPS + 1,
        reward={pays: of_conversation(answered if pays == "answer" else _coin)},
        metrics={"right": of_conversation(answered), "lookups": of_conversation(lambda _, said: len(lookups(said)))},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=questions(_READ_BY_BASE, "base", draw_seed, two_hops=two_hops),
        base_steps=base_steps,
        answer=right,
        baselines={
            "one look-up, whatever is asked": lambda item: [f"{CODE} {item.person}", f"{ANSWER} {item.own_code}"]
        },
        keys={"max_tokens": 8, "eval_items": held_out_items},
    )


HOPS: Final[Mapping[str, str]] = {"two": "two hops", "one": "one hop"}


def of_hops(hops: str) -> Callable[[str], bool]:
    """Return the test of whether an item, by its id, takes so many look-ups."""
    return lambda item: item.split("-")[1] == hops


def said(one: TaskRollout) -> list[str]:
    """Return the replies of a conversation."""
    return [turn.text.strip() for turn in one.turns if turn.role == "assistant"]
