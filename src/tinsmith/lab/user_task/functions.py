"""Tasks from a function, a file or a value in Python: their keys, and the identity of their code.

A file has a `task = Task(...)`, or a function `task(...)` that returns one, whose arguments are keys of their own. A
mistake in it is reported with file and line, and its identity is that of its bytes.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Final, cast

from tinsmith.lab.experiment.key_text import At, OwnKey
from tinsmith.lab.user_task.calls import Raised, argument_keys, attempt, mistake_in_file
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.lab.user_task.task import Task, Value, function_of
from tinsmith.types.errors import ConfigError, TinsmithError, perhaps
from tinsmith.types.fingerprints import file_sha256, sha256_of

_ENTRY: Final = "task"  # The name that a file has to define.
_SIZE: Final = "at"  # An argument that is a key of every run, and stays one: the size of model.
_PARSING: Final = Lock()  # CPython 3.11 cannot make two syntax trees at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """Origin of a task, its keys, and the identity of its code."""

    title: str  # Name of a run whose task has none.
    found_at: str | None  # Opens it on a command line, in full; None: it was handed over, and cannot be opened again.
    code: Callable[[], Mapping[str, str]]  # Returns the identity of its code, by name of what was hashed.
    made: Callable[[Mapping[str, object]], Task]  # Returns the task with these arguments.
    folder: Path = Path()  # Folder in which data files are searched.
    keys: tuple[OwnKey, ...] = ()
    file: str = ""  # Name of the file that an error of the task lies in.
    is_packaged: bool = False

    @property
    def sha256(self) -> Mapping[str, str]:
        """The identity of its code."""
        return self.code()

    def make(self, values: Mapping[str, Value]) -> Task:
        """Return the task with these values of its own keys."""
        known = [key for key in self.keys if key.name in values]
        return self.made({k.name: Path(str(values[k.name])) if k.is_file else values[k.name] for k in known})

    def located(self, error: TinsmithError) -> TinsmithError:
        """Return an error with the task's file as its location."""
        return error.located_at(self.file) if self.file else error


def load_file(path: Path) -> TaskSource:
    """Load a task's file; its output is printed."""
    path = path.absolute()
    module, digests = load_module(path)
    entry: object = vars(module).get(_ENTRY)
    if not isinstance(entry, Task) and not inspect.isfunction(entry):
        what = f"{path.name} has no task"
        allowed = f"{_ENTRY} = Task(...), or a function {_ENTRY}(key=default, ...) that returns one"
        raise ConfigError(what, field=_ENTRY, value=None if entry is None else type(entry).__name__, allowed=allowed)

    def made(arguments: Mapping[str, object]) -> Task:
        if isinstance(entry, Task):
            return entry
        with _beside(path.parent):
            found = attempt(lambda: cast("Callable[..., object]", entry)(**arguments))
        if isinstance(found, Raised):
            raise mistake_in_file(found, path)
        if not isinstance(found, Task):
            what = f"{path.name}: {_ENTRY}() returns no tinsmith.Task"
            raise ConfigError(what, field=_ENTRY, value=type(found).__name__)
        return found

    return TaskSource(
        title=path.stem,
        found_at=str(path),
        code=lambda: digests,
        made=made,
        folder=path.parent,
        keys=() if isinstance(entry, Task) else argument_keys(entry, path),
        file=path.name,
    )


def load_module(path: Path) -> tuple[ModuleType, dict[str, str]]:
    """Run a file; return its module, and the SHA-256 of its bytes and of the modules beside it, by name."""
    if not path.is_file():
        name, is_file = path.name, path.suffix == ".py"
        named = f"a file of yours, such as {name}.py; packaged tasks run on the command line: tinsmith run {name}"
        begin = f"tinsmith new {name} writes one to begin with"
        meant = perhaps(name, [each.name for each in path.parent.glob("*.py")])
        fix = (f"{meant}; {begin}" if meant else begin) if is_file else named
        raise ConfigError("there is no such file", field="FILE.py", value=str(path), fix=fix)
    source = path.read_bytes()
    files = modules_beside(path, source)
    module = ModuleType(f"tinsmith_task_{path.stem}")
    module.__file__ = str(path)
    with _beside(path.parent):
        for name in files:
            sys.modules.pop(name, None)
        sys.modules[module.__name__] = module  # dataclasses of the file look themselves up there
        code = attempt(compile, source, str(path), "exec")
        found = code if isinstance(code, Raised) else attempt(exec, code, vars(module))
        if isinstance(found, Raised):
            raise mistake_in_file(found, path)
    read = {path.name: source, **{one.relative_to(path.parent).as_posix(): one.read_bytes() for one in files.values()}}
    return module, {name: hashlib.sha256(read[name]).hexdigest() for name in sorted(read)}


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
    """Return the modules beside the file that it imports directly or indirectly, by name."""
    modules: dict[str, Path] = {}
    left = [source]
    while left:
        try:
            tree = _tree(left.pop())
        except (SyntaxError, ValueError):
            continue  # reported where the file is run
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        parts = [name.split(".") for name in names]
        for name in sorted({".".join(each[:count]) for each in parts for count in range(1, len(each) + 1)}):
            bare = path.parent.joinpath(*name.split("."))
            files = [one for one in (bare.with_name(f"{bare.name}.py"), bare / "__init__.py") if one.is_file()]
            if files and name not in modules and files[0] != path:
                modules[name] = files[0]
                left.append(files[0].read_bytes())
    return modules


def function_in_file(path: Path, name: str) -> TaskSource:
    """Return the source of a task that is a function of a user's file."""
    path = path.absolute()
    found = vars(load_module(path)[0]).get(name)
    if not inspect.isfunction(found):
        raise ConfigError(f"{path.name} has no such function", field="task", value=name)
    return function_task(found)


def function_task(
    function: Callable[..., Task],
    *,
    found_at: str = "",
    bound: Mapping[str, Value] | None = None,
    preset: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> TaskSource:
    """Return the source of a task by its function, in this package or in a file of a user's.

    `found_at` is its name on a command line (empty: the function's own), `given` the keys that stand there, on which
    further keys may depend (see `with_keys`).
    """
    name, bound = function.__name__, bound or {}
    file = Path(inspect.getfile(function))
    is_ours = _is_ours(function)
    if name == "<lambda>" or vars(sys.modules.get(function.__module__)).get(name) is not function:
        raise ConfigError("a study's task must be a function in a file", field="task", value=name)
    values = {**{key: str(value) for key, value in bound.items()}, **(preset or {}), **(given or {})}
    if _SIZE in inspect.signature(function).parameters:
        bound = {**bound, _SIZE: values.get(_SIZE, At.NANO.value)}
    keys = {key.name: key for key in argument_keys(function, file, values) if key.name not in bound}
    if preset:
        keys = {key: replace(one, default=one.read(preset.get(key))) for key, one in keys.items()}
    code = {name if is_ours else f"{file.name}:{name}": reached_sha256(function)}
    if not is_ours:
        beside = modules_beside(file, _reached(function).encode()).values()
        code |= {one.relative_to(file.parent).as_posix(): file_sha256(one) for one in beside}

    def made(arguments: Mapping[str, object]) -> Task:
        task = function(**bound, **arguments)
        if preset is None:  # a task with a preset goes by the preset's name
            return task
        shared = {key: value for key, value in preset.items() if key not in keys}
        return replace(task, name=found_at, keys={**task.keys, **shared})

    return TaskSource(
        title=name,
        found_at=found_at or (name if is_ours else f"{file}:{name}"),
        code=lambda: code,
        made=made,
        folder=Path() if is_ours else file.parent,
        keys=tuple(keys.values()),
        is_packaged=is_ours,
    )


def installed_version(package: str) -> str:
    """Return the version of a package that a task depends on."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        what = "this task needs a package that is not installed"
        raise ConfigError(what, field="package", value=package, fix="pip install 'tinsmith[env]'") from None


def reached_sha256(function: Callable[..., Any]) -> str:
    """Return the SHA-256 of a function's source and of everything in its file that it references, directly or not.

    So a study's page and expectations may change without its runs becoming others.
    """
    return hashlib.sha256(_reached(function).encode()).hexdigest()


def _reached(function: Callable[..., Any]) -> str:
    defined = _defined(Path(inspect.getfile(function)).read_text(encoding="utf-8"), _is_ours(function))
    reached: dict[str, str] = {}
    left = [function.__name__, "*"]
    while left:
        name = left.pop()
        if name not in reached and name in defined:
            reached[name], names = defined[name]
            left += names
    return "\n".join(reached[name] for name in sorted(reached))


def _is_ours(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith("tinsmith.")


def code_sha256(function: Callable[..., Any]) -> str:
    """Return the SHA-256 of a function and its references in its file; of the whole file for a nested function."""
    function = cast("Callable[..., Any]", inspect.unwrap(function))
    file = Path(inspect.getfile(function))
    source = file.read_text(encoding="utf-8") if file.is_file() else inspect.getsource(function)  # of a notebook's cell
    is_found = file.is_file() and function.__name__ in _defined(source, _is_ours(function))
    return reached_sha256(function) if is_found else hashlib.sha256(source.encode()).hexdigest()


@lru_cache(maxsize=128)  # a study opens its tasks once for each of its runs
def _defined(source: str, is_ours: bool) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return a file's definitions by name: the source of each, and the names in it.

    In a user's file all statements about a name are joined, with decorators. In a packaged one the last definition
    stands alone, as frozen identities have it: the package's own hash is recorded beside it.
    """
    definitions: dict[str, tuple[str, Sequence[str]]] = {}
    for node in _tree(source).body:
        inside = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        segment = ast.get_source_segment(source, node) or ""
        names = _names(node)
        if not is_ours:
            decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
            segment = "".join(f"@{ast.get_source_segment(source, one)}\n" for one in decorators) + segment
            # A loop, a condition or a call belongs to every name in it.
            names = names or [*inside, *(name for one in ast.walk(node) for name in _names(one))]
        for name in dict.fromkeys(names):
            text, others = ("", ()) if is_ours else definitions.get(name, ("", ()))
            definitions[name] = (f"{text}\n{segment}" if text else segment, [*others, *inside])
    return definitions


def _tree(source: str | bytes) -> ast.Module:
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


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [(one.asname or one.name).split(".")[0] for one in names]
        case ast.Assign(targets=targets):
            return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def task_value(task: Task) -> TaskSource:
    """Return the source of a task passed in Python; its name says that it has no file."""
    return TaskSource(
        title=f"python/{task.name or 'task'}",
        found_at=None,
        code=lambda: {"python": hashlib.sha256(sha256_of(_sources(task)).encode()).hexdigest()},
        made=lambda _: task,
    )


def _made_with(reward: StepReward) -> list[tuple[str, object]]:
    """Return the arguments that a reward was made with, those that it has under their names."""
    return [(name, getattr(reward, name, None)) for name in inspect.signature(type(reward)).parameters]


def _sources(task: Task) -> dict[str, object]:
    names = ("prompt", "parse", "reply", "demonstrate", "answer", "unit")
    functions: dict[str, object] = {
        **{name: getattr(task, name) for name in names},
        **{name: found for name in ("options", "aside") if (found := getattr(task, name)) is not None},
        **{f"reward {name}": function_of(each) for name, each in task.rewards.items()},
        **{f"metric {name}": function_of(each) for name, each in task.metrics.items()},
        **{f"baseline {name}": each for name, each in task.baselines.items()},
        **{f"section {name}": each for name, each in task.sections.items()},
    }
    sources: dict[str, object] = {"max_turns": task.max_turns}
    scored = {f"reward {name}": one for name, one in task.rewards.items()}
    scored |= {f"metric {name}": one for name, one in task.metrics.items()}
    sources |= {f"{name} sees": type(one).__name__ for name, one in scored.items() if function_of(one) is not one}
    sources |= {f"control {name}": sha256_of(_sources(one)) for name, one in task.controls.items()}
    if isinstance(task.reward, JudgedReward):
        functions |= {f"judged {name}": getattr(task.reward, name) for name in ("criteria", "prompt", "score")}
    elif isinstance(task.reward, StepReward):
        functions["reward"] = type(task.reward)
        made_with = {f"reward {name}": value for name, value in _made_with(task.reward)}
        functions |= {name: value for name, value in made_with.items() if callable(value)}
        sources |= {name: repr(value) for name, value in made_with.items() if isinstance(value, int | float | str)}
    if task.turns is not None:
        functions["reply"] = task.turns.reply
        sources |= {"turns": (task.turns.most, task.turns.forks), "model": task.turns.model}
        if task.turns.deepest or task.turns.several_agents:
            sources["agents"] = (task.turns.deepest, [*task.turns.agents_by_step.items()])
    if task.probed is not None:
        functions |= {"probed options": task.probed.options, "probed gold": task.probed.gold}
        sources["before_answer"] = task.probed.before_answer
    if task.tools is not None:
        functions |= {f"tool {name}": one.function for name, one in task.tools.tools.items()}
        sources["record"] = task.tools.record
    if task.examples is not None:
        functions |= {f"examples {name}": getattr(task.examples, name) for name in ("call", "where")}
        sources["examples"] = replace(task.examples, call=None, where=None)
    if task.base_steps:
        sources["base_steps"] = task.base_steps
    if task.base_items is not None:
        read = items_of_base(task, Path()) or ()
        sources["base_items"] = [(one.prompt_id, one.prompt, one.item) for one in read]
    for name, function in functions.items():
        try:
            known = function is None or isinstance(function, str)
            sources[name] = function if known else inspect.getsource(function)  # pyright: ignore[reportArgumentType]
        except (OSError, TypeError):
            what = "the source of this function cannot be read, but a run has to record it"
            fix = "define it in a file or a notebook cell"
            value = getattr(function, "__name__", type(function).__name__)
            raise ConfigError(what, field=name, value=value, fix=fix) from None
    return sources
