"""`tinsmith run instructions`: requests with checkable instructions, as a task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from random import Random
from statistics import fmean
from typing import Any, Final

from tinsmith.lab.experiment.key_text import one_of
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Answered, Task
from tinsmith.studies.instructions.answers import can_be_followed, right_answer
from tinsmith.studies.instructions.draws import Followed, Pools, Suite, a_few_words, draw, followed, pools
from tinsmith.types.errors import ConfigError

NAME: Final = "instructions"
_PACKAGE: Final = "if-verifiable"
_TRIES: Final = 20
_SHORT: Final = "Here is a short answer."


class HeldOut(StrEnum):
    """Part of the held-out prompts that training has not."""

    PROMPTS = "prompts"
    KINDS = "kinds"


def instructions(
    suite: str = "ifeval",
    held_out: str = "prompts",
    fewest: int = 1,
    most: int = 3,
    items: int = 500,
    held_out_items: int = 100,
    draw_seed: int = 0,
    strict: float = 0.5,
    loose: float = 0.5,
) -> Task:
    """Return requests with instructions that a program can check.

    suite: Checkers: ifeval, ifbench or both.
    held_out: What is never trained on: prompts (other requests), or kinds (of instruction, with other requests).
    fewest: Instructions in a prompt, at least.
    most: Instructions in a prompt, at most.
    items: Prompts to train on.
    held_out_items: Prompts never trained on.
    draw_seed: The prompts and the split are drawn from it.
    strict: What following everything earns, as it stands.
    loose: What it earns where a first or last line, or asterisks, may be passed over.
    """
    version = installed_version(_PACKAGE)
    new_kinds = one_of("held_out", HeldOut, held_out) is HeldOut.KINDS
    sides = pools(one_of("suite", Suite, suite), draw_seed, new_kinds=new_kinds)
    if not 1 <= fewest <= most:
        what = "a prompt has at least one instruction, and no more than the most"
        raise ConfigError(what, field="fewest", value=fewest, allowed=f"1 to {most}")
    drawn = [
        _drawn(pool, Random(f"{draw_seed} {side}"), key, count, fewest, most)
        for pool, side, key, count in zip(
            sides, ("train", "held_out"), ("items", "held_out_items"), (items, held_out_items), strict=True
        )
    ]
    return Task(
        name=NAME,
        question="Does the model learn to follow instructions that a program can check?",
        items=drawn[0],
        held_out=drawn[1],
        identity={_PACKAGE: version},
        prompt="{prompt}",
        reward={
            "strict": lambda item, text: strict * fmean(_checked(item, text).strict),
            "loose": lambda item, text: loose * fmean(_checked(item, text).loose),
        },
        metrics={
            "instruction_strict": lambda item, text: fmean(_checked(item, text).strict),
            "instruction_loose": lambda item, text: fmean(_checked(item, text).loose),
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
    """Draw so many different items, each of which can be answered: what it asks for is not at odds."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(_TRIES * count):
        one = draw(pool, random, fewest=fewest, most=most)
        if can_be_followed(one):
            found.setdefault(one["prompt"], one)
        if len(found) == count:
            return list(found.values())
    what = "there are no more different prompts" if count > 0 else "there has to be a prompt"
    raise ConfigError(what, field=key, value=count, allowed=f"1 to {len(found)}" if found else "1 or more")


def _checked(item: Mapping[str, Any], text: str) -> Followed:
    return _remembered(json.dumps(dict(item), sort_keys=True), text)


@lru_cache(maxsize=256)
def _remembered(item: str, text: str) -> Followed:
    """Check an answer once for all that is said of it."""
    one = json.loads(item)
    return followed(one["prompt"], one["kinds"], one["kwargs"], text)


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
            "followed, strict": f"{fmean([one[0] for one in each]):.3f}",
            "followed, loose": f"{fmean([one[1] for one in each]):.3f}",
        }
        for kind, each in sorted(found.items())
    ]
