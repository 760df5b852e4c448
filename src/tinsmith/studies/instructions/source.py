"""`tinsmith run instructions`: requests with checkable instructions, as a task."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from random import Random
from typing import Any, Final, TypeVar

from tinsmith.lab.user_task.named import NamedTask, require_only, version_of
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Answered, Task, Value
from tinsmith.studies.instructions.answers import right_answer
from tinsmith.studies.instructions.checkers import Followed, Suite, followed
from tinsmith.studies.instructions.draws import Pools, a_few_words, draw, pools
from tinsmith.studies.instructions.limits import can_be_followed
from tinsmith.types.errors import ConfigError

NAME: Final = "instructions"
_PACKAGE: Final = "if-verifiable"
_TRIES: Final = 20
_SHORT: Final = "Here is a short answer."


Choice = TypeVar("Choice", bound=StrEnum)


class HeldOut(StrEnum):
    """What the held-out prompts have that training has not."""

    PROMPTS = "prompts"
    KINDS = "kinds"


_KEYS: Final = (
    OwnKey(name="suite", kind=str, default="ifeval", words="Checkers: ifeval, ifbench or both."),
    OwnKey(
        name="held_out",
        kind=str,
        default="prompts",
        words="What is never trained on: prompts (other requests), or kinds (of instruction, with other requests).",
    ),
    OwnKey(name="fewest", kind=int, default=1, words="Instructions in a prompt, at least."),
    OwnKey(name="most", kind=int, default=3, words="Instructions in a prompt, at most."),
    OwnKey(name="items", kind=int, default=500, words="Prompts to train on."),
    OwnKey(name="held_out_items", kind=int, default=100, words="Prompts never trained on."),
    OwnKey(name="draw_seed", kind=int, default=0, words="The prompts and the split are drawn from it."),
    OwnKey(name="strict", kind=float, default=0.5, words="What following everything earns, as it stands."),
    OwnKey(
        name="loose",
        kind=float,
        default=0.5,
        words="What it earns where a first or last line, or asterisks, may be passed over.",
    ),
)


def instructions_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task.

    Raises:
        ConfigError: if-verifiable is not installed.
    """
    del given
    version = version_of(_PACKAGE)
    require_only(NAME, rest, fix="suite=ifbench")
    return NamedTask(found_at=NAME, keys=_KEYS, sha256={_PACKAGE: version}, entry=_made)


def _made(values: Mapping[str, Value]) -> Task:
    suite = _one_of("suite", Suite, values)
    new_kinds = _one_of("held_out", HeldOut, values) is HeldOut.KINDS
    fewest, most = int(values["fewest"]), int(values["most"])
    if not 1 <= fewest <= most:
        raise ConfigError(
            "a prompt has at least one instruction, and no more than the most",
            field="fewest",
            value=fewest,
            allowed=f"1 to {most}",
        )
    seed = int(values["draw_seed"])
    sides = pools(suite, seed, new_kinds=new_kinds)
    items: list[list[dict[str, Any]]] = []
    for pool, side, key in zip(sides, ("train", "held_out"), ("items", "held_out_items"), strict=True):
        random = Random(f"{seed} {side}")
        items.append(_drawn(pool, random, key, int(values[key]), fewest, most))

    weights = {"strict": float(values["strict"]), "loose": float(values["loose"])}
    return Task(
        name=NAME,
        question="Does the model learn to follow instructions that a program can check?",
        items=items[0],
        held_out=items[1],
        prompt="{prompt}",
        reward={
            "strict": lambda item, text: weights["strict"] * _share(_checked(item, text).strict),
            "loose": lambda item, text: weights["loose"] * _share(_checked(item, text).loose),
        },
        metrics={
            "instruction_strict": lambda item, text: _share(_checked(item, text).strict),
            "instruction_loose": lambda item, text: _share(_checked(item, text).loose),
            "prompt_strict": lambda item, text: all(_checked(item, text).strict),
            "prompt_loose": lambda item, text: all(_checked(item, text).loose),
        },
        demonstrate=lambda _item, random: a_few_words(random),
        answer=right_answer,
        baselines={"a short answer to everything": lambda _: _SHORT},
        sections={"By kind of instruction": _by_kind},
        keys={"max_tokens": 96},
    )


def _drawn(pool: Pools, random: Random, key: str, count: int, fewest: int, most: int) -> list[dict[str, Any]]:
    """Draw so many different items, each of which can be answered: what it asks for is not at odds.

    Raises:
        ConfigError: there are not so many.
    """
    found: dict[str, dict[str, Any]] = {}
    for _ in range(_TRIES * count):
        one = draw(pool, random, fewest=fewest, most=most)
        if can_be_followed(one):
            found.setdefault(one["prompt"], one)
        if len(found) == count:
            return list(found.values())
    raise ConfigError(
        "there are no more different prompts" if count > 0 else "there has to be a prompt",
        field=key,
        value=count,
        allowed=f"1 to {len(found)}" if found else "1 or more",
    )


def _one_of(key: str, kind: type[Choice], values: Mapping[str, Value]) -> Choice:
    try:
        return kind(str(values[key]))
    except ValueError:
        allowed = ", ".join(one.value for one in kind)
        raise ConfigError("there is no such choice", field=key, value=values[key], allowed=allowed) from None


def _checked(item: Mapping[str, Any], text: str) -> Followed:
    return _remembered(json.dumps(dict(item), sort_keys=True), text)


@lru_cache(maxsize=256)
def _remembered(item: str, text: str) -> Followed:
    """Check an answer once for all that is said of it."""
    one = json.loads(item)
    return followed(one["prompt"], one["kinds"], one["kwargs"], text)


def _share(followed: Sequence[bool]) -> float:
    return math.fsum(followed) / len(followed)


def _by_kind(answers: Sequence[Answered]) -> list[dict[str, object]]:
    """Make the rows of the page's table: how often each kind of instruction was followed."""
    found: dict[str, list[tuple[bool, bool]]] = {}
    for one in answers:
        checked = _checked(one.item, one.replies[-1])
        for kind, *each in zip(one.item["kinds"], checked.strict, checked.loose, strict=True):
            found.setdefault(kind, []).append((each[0], each[1]))
    return [
        {
            "kind": kind,
            "times asked": len(each),
            "followed, strict": f"{_share([one[0] for one in each]):.3f}",
            "followed, loose": f"{_share([one[1] for one in each]):.3f}",
        }
        for kind, each in sorted(found.items())
    ]
