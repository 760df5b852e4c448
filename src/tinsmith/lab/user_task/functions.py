"""A task that is a function: its arguments are keys, and its identity is the source that it reaches in its file."""

from __future__ import annotations

import ast
import gc
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any, Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.user_task.argument_keys import argument_keys
from tinsmith.lab.user_task.loading import load_module
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError

MakesTask = Callable[..., Task]
_SIZE: Final = "at"
"""An argument that is a key of every run, and stays one: the size of model."""

_PARSING: Final = Lock()
"""CPython 3.11 cannot make two syntax trees at once."""


def function_task(
    function: MakesTask,
    *,
    found_at: str = "",
    bound: Mapping[str, Value] | None = None,
    preset: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> TaskSource:
    """Return the source of a task by its function, in this package or in a file of a user's.

    Args:
        function: returns the task; its arguments are keys.
        found_at: the task's name on a command line; empty: the function's own.
        bound: arguments that the name decides.
        preset: other defaults.
        given: keys as they stand on a command line, on which further keys may depend (see `with_keys`).
    """
    name, bound = function.__name__, bound or {}
    file = Path(inspect.getfile(function))
    is_ours = function.__module__.startswith("tinsmith.")
    if name == "<lambda>" or vars(sys.modules.get(function.__module__)).get(name) is not function:
        raise ConfigError("a study's task is a function of a file, which its runs open again", field="task", value=name)
    asked = {**{key: str(value) for key, value in bound.items()}, **(preset or {}), **(given or {})}
    if _SIZE in inspect.signature(function).parameters:
        bound = {**bound, _SIZE: asked.get(_SIZE, At.NANO.value)}
    keys = {key.name: key for key in argument_keys(function, file, asked) if key.name not in bound}
    if preset:
        keys = {key: replace(one, default=one.read(preset.get(key))) for key, one in keys.items()}
    digest = reached_sha256(function)

    def made(arguments: Mapping[str, object]) -> Task:
        task = function(**bound, **arguments)
        if preset is None:  # a task with a preset goes by the preset's name
            return task
        shared = {key: value for key, value in preset.items() if key not in keys}
        return replace(task, name=found_at, keys={**task.keys, **shared})

    return TaskSource(
        title=name,
        found_at=found_at or (name if is_ours else f"{file}:{name}"),
        code=lambda: {name if is_ours else f"{file.name}:{name}": digest},
        made=made,
        folder=Path() if is_ours else file.parent,
        keys=tuple(keys.values()),
    )


def installed_version(package: str) -> str:
    """Return the version of a package that a task stands on."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            "this task stands on a package that is not installed",
            field="package",
            value=package,
            fix="pip install 'tinsmith[env]'",
        ) from None


def reached_sha256(function: Callable[..., Any]) -> str:
    """Return the SHA-256 of a function's source and of all in its file that it reaches by name.

    So a study's page and expectations may change without its runs becoming others.
    """
    source = Path(inspect.getfile(function)).read_text(encoding="utf-8")
    tree = _tree(source)
    defined = {name: node for node in tree.body for name in _names(node)}
    reached: dict[str, str] = {}
    left = [function.__name__]
    while left:
        name = left.pop()
        if name in reached or name not in defined:
            continue
        reached[name] = ast.get_source_segment(source, defined[name]) or ""
        left += [one.id for one in ast.walk(defined[name]) if isinstance(one, ast.Name)]
    return hashlib.sha256("\n".join(reached[name] for name in sorted(reached)).encode()).hexdigest()


def _tree(source: str) -> ast.Module:
    """Return the syntax tree of a source.

    Before 3.11.8 CPython counts the depth of all trees that are being made in one place, and a collection of garbage
    lets finalizers and other threads make theirs within this one: so none happens here.
    """
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if collects:
                gc.enable()


def _names(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a file defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(one.asname or one.name).split(".")[0] for one in names]
        case ast.Assign(targets=targets):
            return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def function_in_file(path: Path, name: str) -> TaskSource:
    """Return the source of a task that is a function of a user's file."""
    path = path.absolute()
    module, _ = load_module(path)
    found = vars(module).get(name)
    if not inspect.isfunction(found):
        raise ConfigError(f"{path.name} has no such function", field="task", value=name)
    return function_task(found)
