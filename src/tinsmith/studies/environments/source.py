"""Installed environments of `verifiers`: the module of a name, its arguments as keys, and the environment itself."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

import verifiers.v1 as vf
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError

AnyTask: TypeAlias = "vf.Task[Any, Any, Any]"
FIELD: Final = "verifiers"
_PLAIN: Final = (str, int, float, bool)
_ALLOWED: Final = "the name of an installed package that exports a vf.Taskset in __all__"


def environment_module(name: str) -> ModuleType:
    """Return the module of an environment's taskset; nothing that it loads shows progress or logs from now on."""
    logging.getLogger("verifiers").setLevel(logging.CRITICAL)
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    module = attempt(vf.import_taskset, name)
    config = module if isinstance(module, Raised) else attempt(vf.taskset_config_type, name)
    if not isinstance(config, Raised):
        assert not isinstance(module, Raised)
        return module
    missing = getattr(config.error.__cause__, "name", None)
    if missing is not None and missing == name.rpartition("/")[2].partition("@")[0].replace("-", "_").lower():
        fix = f"prime env install {name if '/' in name else f'OWNER/{name}'}, or pip install its folder"
        raise ConfigError("there is no such environment", field=FIELD, value=name, allowed=_ALLOWED, fix=fix)
    what = f"this environment cannot be imported: {config if missing is None else f'it lacks {missing}'}"
    if hasattr(module, "load_environment"):
        what = "this package is for verifiers before 0.4: it has load_environment(), and exports no taskset"
    raise ConfigError(what, field=FIELD, value=name, allowed=_ALLOWED)


def keys_of(name: str) -> Sequence[OwnKey]:
    """Return the arguments of an environment as keys; a value that is not plain is given in JSON."""
    environment_module(name)
    keys: list[OwnKey] = []
    for key, default in _defaults(name):
        if type(default) in _PLAIN:
            plain = cast(Value, default)
            keys.append(OwnKey(name=key, kind=type(plain), default=plain, words="Argument of the environment."))
        elif not isinstance(text := attempt(to_json, default), Raised):
            words = "Argument of the environment, as JSON."
            keys.append(OwnKey(name=key, kind=str, default=text.decode(), words=words))
    return keys


def load(name: str, values: Mapping[str, Value], changes: Mapping[str, object] | None = None) -> vf.Env[Any]:
    """Return the environment; only arguments that differ from their defaults are given, and `changes` replace these."""
    plain = {key: type(default) in _PLAIN for key, default in _defaults(name)}
    given = {
        key.name: value if plain[key.name] else _read(str(value))
        for key in keys_of(name)
        if (value := values.get(key.name, key.default)) != key.default
    }
    settings: dict[str, Any] = {"taskset": {"id": name}}
    for key, value in {**given, **{f"args.{one}": value for one, value in (changes or {}).items()}}.items():
        kind, *path, last = key.split(".")
        place = settings if kind == "env" else settings["taskset"]
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    config = attempt(vf.resolve_env_config, settings)
    env = config if isinstance(config, Raised) else attempt(vf.load_environment, config)
    if isinstance(env, Raised):
        fix = f"tinsmith run verifiers:{name} --help lists its arguments"
        raise ConfigError(f"it cannot be loaded: {_mistake(env)}", field=FIELD, value=name, fix=fix)
    return env


def tasks_of(name: str, env: vf.Env[Any]) -> Iterator[AnyTask]:
    """Yield the tasks of an environment."""
    tasks: Iterator[Any] | Raised = attempt(iter, env.taskset)
    while not isinstance(tasks, Raised):
        task: Any = attempt(next, tasks, None)
        if task is None:
            return
        if isinstance(task, Raised):
            tasks = task
        else:
            yield task
    raise ConfigError(f"its tasks cannot be loaded: {tasks}", field=FIELD, value=name)


def own_values(task: AnyTask) -> dict[str, Any]:
    """Return those fields of a task's data that the environment added, as JSON has them."""
    added = set(type(task.data).model_fields) - set(vf.TaskData.model_fields)
    return json.loads(task.data.model_dump_json(include=added, exclude_none=True))


def code_of(module: ModuleType) -> dict[str, str]:
    """Return the SHA-256 of a module's sources, by file."""
    file = Path(str(module.__file__))
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file]
    start = file.parent.parent if file.name == "__init__.py" else file.parent
    return {one.relative_to(start).as_posix(): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def _defaults(name: str) -> Iterator[tuple[str, object]]:
    """Yield the arguments of a taskset, of its environment and of its tasks, with their defaults."""
    taskset, env = vf.taskset_config_type(name), vf.env_config_type(name)
    bases: tuple[tuple[type[BaseModel], type[BaseModel], str], ...] = (
        (taskset, vf.TasksetConfig, "args"),
        (env, vf.EnvConfig, "env"),
    )
    for kind, base, prefix in bases:
        for each, about in kind.model_fields.items():
            default = "" if about.is_required() else about.get_default(call_default_factory=True)
            if isinstance(default, vf.AgentConfig):
                yield f"{prefix}.{each}.max_turns", default.max_turns
            elif each not in base.model_fields:
                yield f"{prefix}.{each}", default
    task = taskset.model_fields["task"].get_default(call_default_factory=True)
    for each in type(task).model_fields:
        if each not in vf.TaskConfig.model_fields:
            yield f"args.task.{each}", getattr(task, each)


def _mistake(found: Raised) -> str:
    if not isinstance(found.error, ValidationError):
        return str(found)
    first = found.error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _read(text: str) -> object:
    found = attempt(json.loads, text)
    return text if isinstance(found, Raised) else found
