"""Shell completion of runs, keys, values and models, without heavy imports.

Keys of a task or a study are read from the text of its file: to import it may take seconds.
"""

from __future__ import annotations

import ast
import enum
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import typer

Completions = Iterable[str | tuple[str, str]]  # Words, some with what they mean.
_TASK: Final = "task"  # The function of a user's file.
_EVERY_STUDY: Final = ("size", "out", "seeds", "tuning_seed", "dry_run", "ray", "cells_at_once")
_SET_BY_STUDY: Final = ("kind", "seed", "log_path", "stop_after", "check_reward", "behavior_if_log_dir_exists")
_BY_EXAMPLE: Final = "remedy/exp6"  # Has the keys of every run of a quickstart.


def complete_names(incomplete: str) -> Completions:
    """Return names of tasks with their presets, of studies and of experiments."""
    from tinsmith.cli.registered import EXPERIMENTS, STUDIES, TASKS

    named = {name: entry.question for name, entry in TASKS.items()}
    named |= {f"{name}/{preset}": entry.question for name, entry in TASKS.items() for preset in entry.presets}
    named |= {name: entry.question for name, entry in STUDIES.items()}
    named |= {name: one.question for name, one in EXPERIMENTS.items()}
    return [(name, question) for name, question in named.items() if name.startswith(incomplete)]


def complete_keys(context: typer.Context, incomplete: str) -> Completions:
    """Return keys of the named run as `KEY=`, or values of a key already typed."""
    words = list(context.params.get("changes") or ())
    return _changes(words, incomplete, lambda: _keys_of(str(context.params.get("name") or _BY_EXAMPLE)))


def complete_here(context: typer.Context, incomplete: str) -> Completions:
    """Return keys of location and speed as `KEY=`, or values of a key already typed."""
    from tinsmith.lab.experiment.key_text import Circumstances, field_kinds

    return _changes(list(context.params.get("changes") or ()), incomplete, lambda: [*field_kinds(Circumstances), _TASK])


def complete_models(incomplete: str) -> list[str]:
    """Return models by their names: built in, packaged, and in the local cache of the hub."""
    from tinsmith.models.published.packaged import PACKAGED
    from tinsmith.models.published.sources import own_names

    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache/huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    cached = (one.name.removeprefix("models--").replace("--", "/") for one in sorted(cache.glob("models--*--*")))
    return [name for name in (*own_names(), *PACKAGED, *cached) if name.startswith(incomplete)]


def complete_packaged(incomplete: str) -> Completions:
    """Return the models that can be fetched by a name of their own."""
    from tinsmith.models.published.packaged import PACKAGED

    return [name for name in PACKAGED if name.startswith(incomplete)]


def _changes(words: Sequence[str], incomplete: str, keys: Callable[[], Iterable[str]]) -> Completions:
    """Complete the last override; bash splits one into three words: key, = and value."""
    key, equals, _ = incomplete.partition("=")
    if words and words[-1] == "=":
        return _values(words[-2] if len(words) > 1 else "", incomplete)
    if words and "=" not in words[-1] and (len(words) < 2 or words[-2] != "="):
        return _values(words[-1], incomplete)
    if equals:
        return [f"{key}={value}" for value in _values(key, incomplete.partition("=")[2])]
    given = {word.partition("=")[0] for word in words}
    found = [f"{name}=" for name in sorted({*keys()} - given) if name.startswith(incomplete)]
    # A shell puts a space behind a word that is the only one, and the value would stand apart.
    return [found[0], f"{found[0]}VALUE"] if len(found) == 1 else found


def _values(key: str, incomplete: str) -> list[str]:
    from tinsmith.cli.registered import EXPERIMENTS, SUBJECTS
    from tinsmith.lab.user_task.entry import TASK_KINDS

    if key == "model_name":
        return complete_models(incomplete)
    kinds = (entry.kinds.get(key) for subject in SUBJECTS.values() for entry in subject.kinds.values())
    kind = next((one for one in kinds if one is not None), None)
    rewards = sorted({str(one.delta["reward"]) for one in EXPERIMENTS.values() if "reward" in one.delta})
    known = {"size": ["smallest", "nano"], "reward": rewards, "kind": [one.value for one in TASK_KINDS]}
    values = known.get(key, ["true", "false"] if kind is bool else [])
    if key not in known and isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [str(member.value) for member in kind]
    return [value for value in values if value.startswith(incomplete)]


def _keys_of(name: str) -> set[str]:
    from tinsmith.cli.registered import EXPERIMENTS, STUDIES, TASKS
    from tinsmith.lab.experiment.experiment import key_help

    experiment = EXPERIMENTS.get(name.partition("@")[0])
    if experiment is not None:
        return {key.name for key in key_help(experiment)}
    head, _, part = name.partition(":")
    if head.endswith(".py"):
        tree = _tree(Path(head))
        if not part and (tasks := _study_tasks(tree)) is not None:
            own = set[str]().union(*(_arguments(tree, name) or set() for name in tasks))
            return {*_EVERY_STUDY, *_study_keys(tree), *own, *_of_every_run()} - {*_SET_BY_STUDY}
        return _of_every_run() | (_arguments(tree, part or _TASK) or set())
    task = TASKS.get(head.partition("/")[0])
    if task is not None:
        return _of_every_run() | (_arguments(*_found(task.where)) or set()) - {task.part}
    study = STUDIES.get(name)
    if study is None or not isinstance(study.where, str):
        return set()
    tree, value = _found(study.where)
    measured = _arguments(tree, value)
    if measured is not None:
        return measured
    beside = [each.where for each in TASKS.values() if _package(each.where) == _package(study.where)]
    own = set[str]().union(*(_arguments(*_found(where)) or set() for where in beside))
    return {*_EVERY_STUDY, *_study_keys(tree), *own, *_of_every_run()} - {*_SET_BY_STUDY}


def _of_every_run() -> set[str]:
    from tinsmith.lab.user_task.entry import EVERY_KEY

    return set(EVERY_KEY)


def _package(where: str) -> str:
    return where.partition(":")[0].partition(".")[0]


def _found(where: str) -> tuple[ast.Module, str]:
    """Return the syntax tree of MODULE:NAME below `tinsmith.studies`, and the name."""
    from tinsmith.cli.registered import source_file

    return _tree(source_file(where)), where.partition(":")[2]


def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Module([], [])


def _arguments(tree: ast.Module, name: str) -> set[str] | None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
    return None


def _study_tasks(tree: ast.Module) -> set[str] | None:
    """Return the names of the functions that a file's studies take as their task; None: it has no study."""
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("Study")]
    named = (one.value for call in calls for one in call.keywords if one.arg == _TASK)
    return {one.id for one in named if isinstance(one, ast.Name)} if calls else None


def _study_keys(tree: ast.Module) -> set[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    firsts = (call.args[0] for call in calls if ast.unparse(call.func).endswith("StudyKey"))
    return {one.value for one in firsts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
