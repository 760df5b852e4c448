"""Finds an installed environment of `verifiers` by name, its arguments as keys, and loads it without side effects."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import logging
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.functions import installed_version
from tinsmith.lab.user_task.task import Value
from tinsmith.studies.environments.play import Theirs
from tinsmith.types.errors import ConfigError

PREFIX: Final = "args."
_LOAD: Final = "load_environment"
_PLAIN: Final = (str, int, float, bool)


def load_function(name: str) -> tuple[ModuleType, Callable[..., Any]]:
    """Return an environment's module, and its function that makes the environment."""
    module_name = name.replace("-", "_").rpartition("/")[2]
    if not module_name.isidentifier() or importlib.util.find_spec(module_name) is None:
        allowed = f"the name of an installed package with {_LOAD}()"
        fix = f"prime env install {name if '/' in name else f'OWNER/{name}'}, or pip install its folder"
        raise ConfigError("there is no such environment", field="verifiers", value=name, allowed=allowed, fix=fix)
    with _quiet():
        module = attempt(importlib.import_module, module_name)
    if isinstance(module, Raised):
        raise ConfigError(f"this environment cannot be imported: {module}", field="verifiers", value=name)
    found = getattr(module, _LOAD, None)
    if not callable(found):
        what = f"this package has no {_LOAD}(): what the library calls a taskset (v1) is not served here"
        raise ConfigError(what, field="verifiers", value=name, allowed=f"a package with {_LOAD}()")
    return module, found


def environment_keys(given: Mapping[str, str]) -> Sequence[OwnKey]:
    """Return the arguments of the environment that is named, as keys."""
    installed_version("verifiers")
    name = given.get("environment", "")
    if not name:
        raise ConfigError("which environment?", field="verifiers", value=name, fix="tinsmith run verifiers:NAME")
    return _keys_of(load_function(name)[1])


def _keys_of(function: Callable[..., Any]) -> Sequence[OwnKey]:
    """Return the arguments of `load_environment` as keys; what is no plain value is told in JSON."""
    keys: list[OwnKey] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            continue
        default = "" if each.default is each.empty else each.default
        plain = type(default) in _PLAIN
        if not plain and _as_json(default) is None:
            continue
        words = f"Argument {each.name} of {_LOAD}" + ("." if plain else ", as JSON.")
        keys.append(
            OwnKey(
                name=f"{PREFIX}{each.name}",
                kind=type(default) if plain else str,
                default=default if plain else str(_as_json(default)),
                words=words,
            )
        )
    return keys


def load(name: str, function: Callable[..., Any], values: Mapping[str, Value]) -> Theirs:
    """Return the environment; only arguments that differ from their defaults are given."""
    arguments: dict[str, Any] = {}
    for key in _keys_of(function):
        if (value := values.get(key.name, key.default)) == key.default:
            continue
        default = inspect.signature(function).parameters[key.name.removeprefix(PREFIX)].default
        plain = type(default) in _PLAIN
        arguments[key.name.removeprefix(PREFIX)] = value if plain else _read(str(value))
    with _quiet():
        made = attempt(lambda: function(**arguments))
    if isinstance(made, Raised):
        fix = f"tinsmith run verifiers:{name} --help lists its arguments"
        raise ConfigError(f"{_LOAD}() fails: {made}", field="verifiers", value=name, fix=fix)
    return made


def code_of(module: ModuleType) -> dict[str, str]:
    """Return the SHA-256 of a module's sources, by file."""
    file = Path(str(module.__file__))
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    start = file.parent.parent if file.name == "__init__.py" else file.parent
    return {one.relative_to(start).as_posix(): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Let nothing be said, and put back what is done on Ctrl-C: an environment takes that for itself."""
    import datasets
    import verifiers  # which sets its log's level when it is imported

    del verifiers
    logging.getLogger("verifiers").setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            if signal.getsignal(each) is not handler:
                signal.signal(each, handler)


def _as_json(value: object) -> str | None:
    try:
        return json.dumps(value)
    except TypeError:
        return None


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
