"""`tinsmith run lookup`: questions that take one look-up or two, with a tool, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final

from tinsmith.lab.user_task.named import NamedTask, require_only
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value, of_conversation
from tinsmith.studies.pass_at_k.demonstrations import right, shown
from tinsmith.studies.pass_at_k.world import ANSWER, CODE, LISTS, Hops, Question, questions, told
from tinsmith.types.errors import ConfigError

NAME: Final = "lookup"
QUESTION: Final = "Does the model learn to look up what it is asked, in one step or in two?"
MOST_LOOKUPS: Final = 3
"""Look-ups that a conversation has room for, before its answer."""
_READ_BY_BASE: Final = 4_000
"""Questions of its own, so that it copies what it looked up and does not know it by heart."""
_HOW: Final = (
    f"You can look things up. Reply with one line and nothing else: '{LISTS[0]} NAME', '{LISTS[1]} NAME' or "
    f"'{LISTS[2]} NAME' to look in one of three lists for who is over NAME, '{CODE} NAME' for the code of NAME, or "
    f"'{ANSWER} CODE' to answer. The answer to a look-up comes back; none means that it is not there. At most "
    f"{MOST_LOOKUPS} look-ups.\n\n"
)


class Pays(StrEnum):
    """What is rewarded."""

    ANSWER = "answer"
    """The right code."""
    COIN = "coin"
    """A coin that is thrown by what was said: a control, from which no answer can be learned."""


KEYS: Final = (
    OwnKey(name="items", kind=int, default=200, words="Questions to train on."),
    OwnKey(name="held_out_items", kind=int, default=40, words="Questions never trained on."),
    OwnKey(name="two_hops", kind=float, default=0.7, words="The share that takes two look-ups."),
    OwnKey(name="draw_seed", kind=int, default=0, words="What the questions are drawn from."),
    OwnKey(
        name="pays",
        kind=str,
        default=Pays.ANSWER.value,
        words="What is rewarded: answer (the right code), or coin (a control: chance, fixed by what was said).",
    ),
    OwnKey(name="explain", kind=bool, default=False, words="Whether the prompt says how to look up."),
    OwnKey(name="base_steps", kind=int, default=800, words="Steps that the small base is trained."),
)


def lookup_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task.

    Raises:
        ConfigError: it is named with a colon, as there is only one.
    """
    del given
    require_only(NAME, rest)
    return NamedTask(found_at=NAME, keys=KEYS, sha256={}, entry=_made)


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
    """Whether a conversation ended with the right code."""
    return replies[-1] == f"{ANSWER} {question.code}"


def _asked(question: Question, *, explain: bool) -> str:
    of = question.person if question.hops is Hops.ONE else f"the one over {question.person}"
    return f"{_HOW if explain else ''}What is the code of {of}?"


def _reply(question: Question, said: Sequence[str]) -> str | None:
    """Return what a look-up finds; an answer ends the conversation, and so does what is neither."""
    words = said[-1].split()
    if len(words) != 2 or words[0] not in (*LISTS, CODE):
        return None
    return told(question, words)


def _count(question: Question, said: Sequence[str]) -> int:
    del question
    return len(lookups(said))


def _coin(question: Question, said: Sequence[str]) -> bool:
    return sha256("\n".join([question.id, *said]).encode()).digest()[0] % 2 == 0


def _made(values: Mapping[str, Value]) -> Task:
    seed, share = int(values["draw_seed"]), float(values["two_hops"])
    pays = str(values["pays"])
    if pays not in list(Pays):
        raise ConfigError("this cannot be rewarded", field="pays", value=pays, allowed=", ".join(Pays))
    if not 0.0 <= share <= 1.0:
        raise ConfigError("this is a share", field="two_hops", value=share, allowed="0 to 1")
    explain = bool(values["explain"])
    return Task(
        name=NAME,
        question=QUESTION,
        items=questions(int(values["items"]), "train", seed, two_hops=share),
        held_out=questions(int(values["held_out_items"]), "held_out", seed, two_hops=share),
        prompt=lambda item: _asked(item, explain=explain),
        parse=str.strip,
        reply=_reply,
        max_turns=MOST_LOOKUPS + 1,
        reward={pays: of_conversation(answered if pays == Pays.ANSWER else _coin)},
        metrics={"right": of_conversation(answered), "lookups": of_conversation(_count)},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=questions(_READ_BY_BASE, "base", seed, two_hops=share),
        base_steps=int(values["base_steps"]),
        answer=right,
        baselines={
            "one look-up, whatever is asked": lambda item: [f"{CODE} {item.person}", f"{ANSWER} {item.own_code}"]
        },
        keys={"max_tokens": 8, "eval_items": int(values["held_out_items"])},
    )
