"""`tinsmith run shell`: files that somebody wants, in a small shell, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.user_task.named import NamedTask, require_only
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value, of_conversation
from tinsmith.studies.environment_loss.world import (
    GET,
    MOST_REPLIES,
    PLACES,
    Errand,
    Facts,
    answer,
    errands,
    found,
    other_worlds,
    shown,
)
from tinsmith.types.errors import ConfigError

NAME: Final = "shell"
QUESTION: Final = "Does the model learn where files are, from what a shell answers?"
_READ_BY_BASE: Final = 4_000
_HOW: Final = (
    f"You are in a shell. Reply with one command and nothing else: 'ls PLACE', 'history', 'pwd' or '{GET} FILE PLACE'. "
    f"Places: {' '.join(PLACES)}. You have {MOST_REPLIES} commands.\n\n"
)

KEYS: Final = (
    OwnKey(name="world", kind=int, default=0, words="Which files are where is drawn from it."),
    OwnKey(
        name="facts",
        kind=str,
        default=Facts.TRUE.value,
        words="What the shell tells: true, or scrambled (a control: another world's at every look).",
    ),
    OwnKey(name="explain", kind=bool, default=False, words="Whether the prompt has the commands."),
    OwnKey(name="base_steps", kind=int, default=600, words="Steps that the small base is trained."),
)


def shell_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task.

    Raises:
        ConfigError: it is named with a colon, as there is only one.
    """
    del given
    require_only(NAME, rest)
    return NamedTask(found_at=NAME, keys=KEYS, sha256={}, entry=_made)


def _paid(errand: Errand, said: Sequence[str]) -> bool:
    return found(errand, said)


def _commands(errand: Errand, said: Sequence[str]) -> int:
    del errand
    return len(said)


def _made(values: Mapping[str, Value]) -> Task:
    world, facts, explain = int(values["world"]), str(values["facts"]), bool(values["explain"])
    if facts not in list(Facts):
        raise ConfigError("a shell cannot tell this", field="facts", value=facts, allowed=", ".join(Facts))
    if not 0 <= world < 1_000:
        raise ConfigError("there is no such world", field="world", value=world, allowed="0 to 999")
    told = Facts(facts)
    return Task(
        name=NAME,
        question=QUESTION,
        items=errands(world, told, held_out=False),
        held_out=errands(world, told, held_out=True),
        prompt=lambda item: f"{_HOW if explain else ''}{item.user} wants the {item.file}.",
        parse=str.strip,
        reply=answer,
        max_turns=MOST_REPLIES,
        reward={"found": of_conversation(_paid)},
        metrics={"right": of_conversation(_paid), "commands": of_conversation(_commands)},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=other_worlds(_READ_BY_BASE),
        base_steps=int(values["base_steps"]),
        baselines={"always the first place": lambda item: f"{GET} {item.file} {PLACES[0]}"},
        keys={"max_tokens": 8, "eval_items": 48},
    )
