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
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from tinsmith.lab.user_task.argument_keys import argument_keys
from tinsmith.lab.user_task.calls import Raised, attempt, mistake_in_file
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError, TinsmithError

ENTRY: Final = "task"
"""What a file has to define."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A file with a task in it: see TaskSource."""

    path: Path
    """Absolute."""
    sha256: Mapping[str, str]
    """Of its bytes, and of those of the modules beside it that it imports, by name."""
    keys: tuple[OwnKey, ...]
    _entry: Task | Callable[..., Any]

    @property
    def title(self) -> str:
        """See TaskSource."""
        return self.path.stem

    @property
    def found_at(self) -> str:
        """See TaskSource."""
        return str(self.path)

    @property
    def folder(self) -> Path:
        """See TaskSource."""
        return self.path.parent

    def make(self, values: Mapping[str, Value]) -> Task:
        """Return the task with these values of its own keys."""
        if isinstance(self._entry, Task):
            return self._entry
        entry = self._entry
        with _beside(self.path.parent):
            made = attempt(
                lambda: entry(**{key.name: key.argument(values[key.name]) for key in self.keys if key.name in values})
            )
        if isinstance(made, Raised):
            raise mistake_in_file(made, self.path)
        if not isinstance(made, Task):
            raise ConfigError(
                f"{self.path.name}: {ENTRY}() returns no tinsmith.Task", field=ENTRY, value=type(made).__name__
            )
        return made

    def told(self, error: TinsmithError) -> TinsmithError:
        """See TaskSource."""
        return error.located_at(self.path.name)


def load_file(path: Path, entry_name: str = ENTRY) -> TaskFile:
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
    return TaskFile(path=path, sha256=digests, keys=keys, _entry=entry)


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
    modules = _modules_beside(path, source)
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


def _modules_beside(path: Path, source: bytes) -> dict[str, Path]:
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
