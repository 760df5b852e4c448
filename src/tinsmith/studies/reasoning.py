"""`tinsmith run reasoning_gym task=NAME`: a generator's items with its own scorer, as a task."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final, cast

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import with_keys
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError, no_such
from tinsmith.types.seeds import derive

Generator = Any  # A dataset of reasoning_gym.
Setting = Any  # A value in a generator's settings.

FIRST: Final = "chain_sum"
PREFIX: Final = "config."
_NOT_KEYS: Final = frozenset({"seed", "size"})
_COMMENT: Final = re.compile(r"^\s*(\w+)\s*:[^#\n]*#\s*(\S.*)$", re.MULTILINE)

MIXTURES: Final = frozenset({"composite"})  # Made of other tasks, which no key can say.
HASHED: Final = frozenset(
    {"isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"}
)
"""These run through sets of texts (as of 0.1.25), so that their items hang on the hash seed of the process."""
RAISING: Final = frozenset({"boxnet", "game_of_life", "prime_factorization"})
"""These raise on malformed answers (as of 0.1.25), which the metric `malformed` counts."""
_ON_TEXT: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, SyntaxError, TypeError, ValueError)


def task_names() -> list[str]:
    """Return the name of every generator, sorted."""
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - MIXTURES)


def require_task(name: str) -> None:
    """Check that a generator can be trained on."""
    names = task_names()
    if name not in names:
        listed = "tinsmith run reasoning_gym --help"
        raise no_such("task", field="task", value=name, name=name, known=names, listed_by=listed)
    if name in HASHED and not os.environ.get("PYTHONHASHSEED", "random").isdecimal():
        what = "this generator gives other items in every process, unless the process's hash seed is set"
        raise ConfigError(what, field="task", value=name, fix="put PYTHONHASHSEED=0 before the command")


def generator_keys(given: Mapping[str, str]) -> list[OwnKey]:
    """Return the key that names a generator, and the settings of the generator that is named."""
    installed_version("reasoning-gym")
    name = given.get("task", FIRST)
    require_task(name)
    words = f"One of {', '.join(task_names())}."
    return [OwnKey(name="task", kind=str, default=FIRST, words=words), *config_keys(name)]


def config_keys(name: str) -> tuple[OwnKey, ...]:
    """Return what can be set of a generator, with its defaults, as keys."""
    kind = _config_type(name)
    words = dict(_COMMENT.findall(_source(kind)))
    keys: list[OwnKey] = []
    for each, default in _fields(kind).items():
        plain = type(default) in (int, float, bool, str)
        keys.append(
            OwnKey(
                name=f"{PREFIX}{each}",
                kind=type(default) if plain else str,
                default=default if plain else json.dumps(default),
                words=words.get(each, f"A setting of {name}" + ("." if plain else ", as JSON.")),
            )
        )
    return tuple(keys)


def dataset(name: str, values: Mapping[str, Value], *, seed: int, size: int) -> Generator:
    """Return a generator of `size` items from a seed."""
    from reasoning_gym import create_dataset

    defaults = _fields(_config_type(name))
    changed = {
        each: _read(f"{PREFIX}{each}", values[f"{PREFIX}{each}"], default)
        for each, default in defaults.items()
        if f"{PREFIX}{each}" in values
    }
    try:
        return create_dataset(name, seed=seed, size=size, **changed)
    except (AssertionError, TypeError, ValueError) as error:
        what, fix = f"{name} does not take these settings: {error}", f"tinsmith run reasoning_gym task={name} --help"
        raise ConfigError(
            what, field=f"{PREFIX}*", value={key: one for key, one in changed.items() if one != defaults[key]}, fix=fix
        ) from None


def _config_type(name: str) -> type[Any]:
    from reasoning_gym.factory import DATASETS

    return DATASETS[name][1]


def _fields(kind: type[Any]) -> dict[str, Any]:
    """Return the settings that a text can say, with their defaults."""
    config = kind()
    found: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        default = getattr(config, each.name)
        try:
            json.dumps(default)
        except TypeError:
            continue  # times, dates and nested settings
        if each.name not in _NOT_KEYS:
            found[each.name] = default
    return found


def _read(key: str, value: Value, default: Setting) -> Setting:
    """Return a value in the type that its default has; what is no plain one is told in JSON."""
    if not isinstance(value, str) or type(default) is str:
        return value
    try:
        read = json.loads(value)
    except json.JSONDecodeError:
        read = value
    if isinstance(default, Enum):
        return type(default)(read)
    if isinstance(default, list | tuple):
        if not isinstance(read, list):
            raise ConfigError("this is a list", field=key, value=value, allowed=json.dumps(default))
        parts = cast(list[Any], read)
        first = next(iter(cast(list[Any], default)), None)
        if isinstance(first, Enum):
            parts = [type(first)(one) for one in parts]
        return tuple(parts) if isinstance(default, tuple) else parts
    return read


def _source(kind: type[Any]) -> str:
    """Return the text of a class; `inspect` makes syntax trees for it, which CPython 3.11 cannot in two threads."""
    text = Path(str(sys.modules[kind.__module__].__file__)).read_text("utf-8")
    found = re.search(rf"^class {kind.__name__}\b.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


NAME: Final = "reasoning_gym"
_PACKAGE: Final = "reasoning-gym"
_TRIES: Final = 4  # Items that are drawn for each one that is wanted, before a generator is taken to have no more.
_PROMPT: Final = "{question}\n\nGive only the answer, without steps and without explanation."
_TAG_PROMPT: Final = "{question}\n\nGive the answer as <answer>...</answer>."
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def _last_number(text: str) -> str | None:
    found = _NUMBER.findall(text)
    return found[-1].rstrip(",") if found else None


def _tagged(text: str) -> str | None:
    from reasoning_gym.utils import extract_answer

    return extract_answer(text)


READINGS: Final[Mapping[str, Callable[[str], str | None] | None]] = {
    "text": None,
    "number": _last_number,
    "tag": _tagged,
}
"""Scored part of a reply: all of it, its last number, or what stands in <answer>, the last one; a reply without
these cannot be read."""


@with_keys(generator_keys)
def reasoning_gym(
    task: str = FIRST,
    read: str = "text",
    items: int = 500,
    held_out_items: int = 100,
    train_seed: int = 0,
    held_out_seed: int = 0,
    **config: Value,
) -> Task:
    """Return items of a generator, which its own scorer rewards.

    read: What of a reply is scored: text (all of it), number (its last number), tag (what stands in <answer>).
    items: Items to train on.
    held_out_items: Items never trained on.
    train_seed: The items to train on are drawn from it.
    held_out_seed: The held-out items are.
    """
    version = installed_version(_PACKAGE)
    if read not in READINGS:
        raise ConfigError("there is no such way to read a reply", field="read", value=read, allowed=READINGS)
    parse = READINGS[read]
    entries: dict[str, tuple[Generator, dict[str, Any]]] = {}
    held_out = _items(task, config, "held_out", held_out_items, held_out_seed, entries)
    apart = [one["question"] for one in held_out]
    train = _items(task, config, "train", items, train_seed, entries, apart)
    answers = sorted({str(one["answer"]) for one in train})

    def scored(item: dict[str, Any], text: str) -> float | None:
        made_by, entry = entries[item["id"]]
        try:
            return float(made_by.score_answer(text.strip(), entry))
        except _ON_TEXT:
            return None

    def score(item: dict[str, Any], text: str | None) -> float:
        """Earn what the generator's own scorer gives; nothing where the reply or the answer could not be read."""
        return 0.0 if text is None else scored(item, text) or 0.0

    def malformed(item: dict[str, Any], text: str | None) -> float:
        return float(text is not None and scored(item, text) is None)

    def solved(item: dict[str, Any], text: str | None) -> float:
        """Say whether the scorer gives all it has."""
        return float(score(item, text) >= 1.0)

    def shown(item: dict[str, Any], random: Random) -> str:
        """Answer rightly, or as another item is answered."""
        said = str(item["answer"]) if random.random() < 0.5 else random.choice(answers)
        return _written(said, parse)

    common = Counter(str(one["answer"]) for one in train).most_common(1)[0][0]
    return Task(
        name=f"{NAME}/{task}",
        question=f"What does the model learn of {task}?",
        identity={_PACKAGE: version},
        items=train,
        held_out=held_out,
        prompt=_PROMPT if parse is not _tagged else _TAG_PROMPT,
        parse=parse,
        reward={"score": score},
        metrics={"solved": solved, **({"malformed": malformed} if task in RAISING else {})},
        demonstrate=shown,
        answer=lambda item: _written(str(item["answer"]), parse),
        baselines={"the most frequent answer": lambda _: _written(common, parse)},
    )


def _written(answer: str, parse: Callable[[str], str | None] | None) -> str:
    """Return an answer in the form that is read."""
    return f"<answer>{answer}</answer>" if parse is _tagged else answer


def _items(
    name: str,
    config: Mapping[str, Value],
    side: str,
    count: int,
    seed: int,
    entries: dict[str, tuple[Generator, dict[str, Any]]],
    apart: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Draw the items of a side, none of which is asked `apart`; what each is scored by goes to `entries`.

    An item of a generator is drawn from its seed and the item's number added, so that two seeds beside each other
    would share nearly all: the seeds are derived.
    """
    key = "items" if side == "train" else "held_out_items"
    if count < 1:
        raise ConfigError("there has to be an item", field=key, value=count, allowed="1 or more")
    made_by = dataset(name, config, seed=derive(seed, NAME, name, side) % 2**31, size=_TRIES * count)
    asked, found = set(apart), list[dict[str, Any]]()
    for number in range(_TRIES * count):
        entry = made_by[number]
        if entry["question"] in asked:
            continue
        asked.add(entry["question"])
        one = {"id": f"{side}-{len(found)}", "question": entry["question"], "answer": entry["answer"]}
        entries[one["id"]] = made_by, entry
        found.append(one)
        if len(found) == count:
            return found
    if found and side == "train":
        return found
    what, fix = f"{name} has {len(found)} different items at these settings", "ask for fewer, or for harder (config.*)"
    raise ConfigError(what, field=key, value=count, fix=fix)
