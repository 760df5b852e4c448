"""What the installed `reasoning_gym` can generate: its tasks by name, and the settings of each as keys."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError, no_such

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
