"""Loads the file of a user's task: a mistake in it is told with file and line, and its identity is that of its bytes.

The file has a `task = Task(...)`, or a function `task(...)` that returns one, whose arguments are keys of their own.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, cast

from tinsmith.lab.user_task.argument_keys import argument_keys
from tinsmith.lab.user_task.calls import Raised, attempt, mistake_in_file
from tinsmith.lab.user_task.source import TaskSource
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError

ENTRY: Final = "task"
"""What a file has to define."""


def load_file(path: Path, entry_name: str = ENTRY) -> TaskSource:
    """Load a task's file; what it prints is printed."""
    path = path.absolute()
    module, digests = load_module(path)
    entry = vars(module).get(entry_name)
    if not isinstance(entry, Task) and not inspect.isfunction(entry):
        raise ConfigError(
            f"{path.name} has no task",
            field=entry_name,
            value=None if entry is None else type(entry).__name__,
            allowed=f"{ENTRY} = Task(...), or a function {ENTRY}(key=default, ...) that returns one",
        )
    keys = () if isinstance(entry, Task) else argument_keys(entry, path)

    def made(arguments: Mapping[str, object]) -> Task:
        if isinstance(entry, Task):
            return entry
        with _beside(path.parent):
            found = attempt(lambda: cast("Callable[..., object]", entry)(**arguments))
        if isinstance(found, Raised):
            raise mistake_in_file(found, path)
        if not isinstance(found, Task):
            raise ConfigError(
                f"{path.name}: {ENTRY}() returns no tinsmith.Task", field=ENTRY, value=type(found).__name__
            )
        return found

    return TaskSource(
        title=path.stem,
        found_at=str(path),
        code=lambda: digests,
        made=made,
        folder=path.parent,
        keys=keys,
        file=path.name,
    )


def load_module(path: Path) -> tuple[ModuleType, dict[str, str]]:
    """Run a file; return its module, and the SHA-256 of its bytes and of the modules beside it, by name."""
    if not path.is_file():
        raise ConfigError(
            "there is no such file",
            field="FILE.py",
            value=str(path),
            fix=f"tinsmith new {path.name} writes one to begin with",
        )
    source = path.read_bytes()
    modules = modules_beside(path, source)
    with _beside(path.parent):
        for name in modules:
            sys.modules.pop(name, None)
        module = _executed(path, source)
    digests = {path.name: hashlib.sha256(source).hexdigest()}
    digests |= {
        file.relative_to(path.parent).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in modules.values()
    }
    return module, dict(sorted(digests.items()))


def _executed(path: Path, source: bytes) -> ModuleType:
    module = ModuleType(f"tinsmith_task_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses of the file look themselves up there
    code = attempt(compile, source, str(path), "exec")
    found = code if isinstance(code, Raised) else attempt(exec, code, vars(module))
    if isinstance(found, Raised):
        raise mistake_in_file(found, path)
    return module


@contextmanager
def _beside(folder: Path) -> Generator[None, None, None]:
    """Let modules beside the file be imported, as Python lets a script, and leave no compiled files there."""
    writes = sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes


def modules_beside(path: Path, source: bytes) -> dict[str, Path]:
    """Return the modules beside the file that it imports, and those that they import, by name."""
    found: dict[str, Path] = {}
    left = [source]
    while left:
        try:
            code = compile(left.pop(), path.name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue  # told where the file is run
        for name in sorted(_imported(code)):
            file = _module_file(path.parent, name)
            if file is not None and name not in found and file != path:
                found[name] = file
                left.append(file.read_bytes())
    return found


def _imported(code: CodeType) -> set[str]:
    """Return every module that might be meant, packages around it included.

    From the compiled code and not from a syntax tree: CPython 3.11 cannot make syntax trees in two threads at once.
    """
    names: set[str] = set()
    left = [code]
    while left:
        steps = list(dis.get_instructions(here := left.pop()))
        left += [each for each in here.co_consts if isinstance(each, CodeType)]
        module = ""
        for place, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":  # after the level of a relative import, and the names taken
                module = "" if steps[place - 2].argval else str(step.argval)
                names.add(module)
            elif step.opname == "IMPORT_FROM" and module:
                names.add(f"{module}.{step.argval}")
    parts = [name.split(".") for name in names if name]
    return {".".join(each[:count]) for each in parts for count in range(1, len(each) + 1)}


def _module_file(folder: Path, name: str) -> Path | None:
    bare = folder.joinpath(*name.split("."))
    for file in (bare.with_name(f"{bare.name}.py"), bare / "__init__.py"):
        if file.is_file():
            return file
    return None
