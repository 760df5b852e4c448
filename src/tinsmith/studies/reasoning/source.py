"""`tinsmith run reasoning_gym task=NAME`: a generator's items with its own scorer, as a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tinsmith.lab.user_task.named import NamedTask, version_of
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.studies.reasoning.generators import (
    Generator,
    config_keys,
    dataset,
    require_task,
    task_names,
)
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

NAME: Final = "reasoning_gym"
_PACKAGE: Final = "reasoning-gym"
_FIRST: Final = "chain_sum"
_SIDES: Final = ("train", "held_out")
_TRIES: Final = 4
"""Items that are drawn for each one that is wanted, before a generator is taken to have no more."""
_PROMPT: Final = "{question}\n\nGive only the answer, without steps and without explanation."

_KEYS: Final = (
    OwnKey(name="items", kind=int, default=500, words="Items to train on."),
    OwnKey(name="held_out_items", kind=int, default=100, words="Items never trained on."),
    OwnKey(
        name="train_seed", kind=int, default=0, words="The items to train on are drawn from it."
    ),
    OwnKey(name="held_out_seed", kind=int, default=0, words="The held-out items are."),
)


def reasoning_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task with the keys of the generator that is named.

    Raises:
        ConfigError: reasoning_gym is not installed, or there is no such generator.
    """
    version = version_of(_PACKAGE)
    if rest:
        raise ConfigError("the task is a key", field=NAME, value=rest, fix=f"task={rest}")
    name = given.get("task", _FIRST)
    require_task(name)
    task = OwnKey(name="task", kind=str, default=_FIRST, words=f"One of {', '.join(task_names())}.")
    keys = (task, *_KEYS, *config_keys(name))
    return NamedTask(found_at=NAME, keys=keys, sha256={_PACKAGE: version}, entry=_made)


def _made(values: Mapping[str, Value]) -> Task:
    name = str(values["task"])
    entries: dict[str, tuple[Generator, dict[str, Any]]] = {}
    held_out = _items(name, values, _SIDES[1], entries, apart=())
    train = _items(name, values, _SIDES[0], entries, apart=[one["question"] for one in held_out])
    answers = sorted({str(one["answer"]) for one in train})

    def score(item: dict[str, Any], text: str) -> float:
        """Earn what the generator's own scorer gives."""
        made_by, entry = entries[item["id"]]
        return float(made_by.score_answer(text.strip(), entry))

    def solved(item: dict[str, Any], text: str) -> float:
        """Say whether the scorer gives all it has."""
        return float(score(item, text) >= 1.0)

    def shown(item: dict[str, Any], random: Random) -> str:
        """Answer rightly, or as another item is answered."""
        return str(item["answer"]) if random.random() < 0.5 else random.choice(answers)

    common = Counter(str(one["answer"]) for one in train).most_common(1)[0][0]
    return Task(
        name=f"{NAME}/{name}",
        question=f"What does the model learn of {name}?",
        items=train,
        held_out=held_out,
        prompt=_PROMPT,
        reward={"score": score},
        metrics={"solved": solved},
        demonstrate=shown,
        answer=lambda item: str(item["answer"]),
        baselines={"the most frequent answer": lambda _: common},
    )


def _items(
    name: str,
    values: Mapping[str, Value],
    side: str,
    entries: dict[str, tuple[Generator, dict[str, Any]]],
    apart: list[str] | tuple[str, ...],
) -> list[dict[str, Any]]:
    """Draw the items of a side, none of which is asked `apart`; what each is scored by goes to `entries`.

    An item of a generator is drawn from its seed and the item's number added, so that two seeds beside each other
    would share nearly all: the seeds are derived.

    Raises:
        ConfigError: the generator has no item more.
    """
    key = "items" if side == _SIDES[0] else "held_out_items"
    count = int(values[key])
    if count < 1:
        raise ConfigError("there has to be an item", field=key, value=count, allowed="1 or more")
    seed = derive(int(values[f"{side}_seed"]), NAME, name, side) % 2**31
    made_by = dataset(name, values, seed=seed, size=_TRIES * count)
    asked, found = set(apart), list[dict[str, Any]]()
    for number in range(_TRIES * count):
        entry = made_by[number]
        if entry["question"] in asked:
            continue
        asked.add(entry["question"])
        one = {
            "id": f"{side}-{len(found)}",
            "question": entry["question"],
            "answer": entry["answer"],
        }
        entries[one["id"]] = made_by, entry
        found.append(one)
        if len(found) == count:
            return found
    if found and side == _SIDES[0]:
        return found
    raise ConfigError(
        f"{name} has {len(found)} different items at these settings",
        field=key,
        value=count,
        fix="ask for fewer, or for harder ones (config.*)",
    )
