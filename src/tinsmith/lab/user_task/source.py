"""Sources of tasks: a file, a function or a value in Python, with keys of its own and an identity."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.experiment.key_text import OwnKey, Value
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.lab.user_task.task import Task, function_of
from tinsmith.types.errors import ConfigError, TinsmithError
from tinsmith.types.fingerprints import sha256_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """Origin of a task, its keys, and the identity of its code."""

    title: str
    """Name of a run whose task has none."""
    found_at: str | None
    """Opens it on a command line, in full; None: it was handed over, and cannot be opened again."""
    code: Callable[[], Mapping[str, str]]
    """Returns the identity of its code, by name of what was hashed."""
    made: Callable[[Mapping[str, object]], Task]
    """Returns the task with these arguments."""
    folder: Path = Path()
    """Folder in which data files are searched."""
    keys: tuple[OwnKey, ...] = ()
    file: str = ""
    """Name of the file that an error of the task lies in."""

    @property
    def sha256(self) -> Mapping[str, str]:
        """The identity of its code."""
        return self.code()

    def make(self, values: Mapping[str, Value]) -> Task:
        """Return the task with these values of its own keys."""
        return self.made({key.name: key.argument(values[key.name]) for key in self.keys if key.name in values})

    def told(self, error: TinsmithError) -> TinsmithError:
        """Return an error that lies in the task, and says where."""
        return error.located_at(self.file) if self.file else error


def task_value(task: Task) -> TaskSource:
    """Return the source of a task that was handed over in Python; its name says that it has no file."""
    return TaskSource(
        title=f"python/{task.name or 'task'}",
        found_at=None,
        code=lambda: {"python": hashlib.sha256(sha256_of(_sources(task)).encode()).hexdigest()},
        made=lambda _: task,
    )


def _sources(task: Task) -> dict[str, object]:
    """Return the source of each of a task's functions."""
    functions: dict[str, object] = {
        "prompt": task.prompt,
        "parse": task.parse,
        "reply": task.reply,
        "demonstrate": task.demonstrate,
        "answer": task.answer,
        "unit": task.unit,
        **{f"reward {name}": function_of(each) for name, each in task.rewards.items()},
        **{f"metric {name}": function_of(each) for name, each in task.metrics.items()},
        **{f"baseline {name}": each for name, each in task.baselines.items()},
        **{f"section {name}": each for name, each in task.sections.items()},
    }
    if isinstance(task.reward, JudgedReward):
        functions |= {"judged criteria": task.reward.criteria, "judged prompt": task.reward.prompt}
        functions["judged score"] = task.reward.score
    elif isinstance(task.reward, StepReward):
        functions["reward"] = type(task.reward)
    if task.options is not None:
        functions["options"] = task.options
    if task.aside is not None:
        functions["aside"] = task.aside
    sources: dict[str, object] = {"max_turns": task.max_turns}
    if task.turns is not None:
        functions["reply"] = task.turns.reply
        sources |= {"turns": (task.turns.most, task.turns.forks), "model": task.turns.model}
    if task.probed is not None:
        functions |= {"probed options": task.probed.options, "probed gold": task.probed.gold}
        sources["before_answer"] = task.probed.before_answer
    if task.base_steps:
        sources["base_steps"] = task.base_steps
    if task.base_items is not None:
        read = items_of_base(task, Path()) or ()
        sources["base_items"] = [(one.prompt_id, one.prompt, one.item) for one in read]
    for name, function in functions.items():
        if function is None or isinstance(function, str):
            sources[name] = function
            continue
        try:
            sources[name] = inspect.getsource(function)  # pyright: ignore[reportArgumentType]
        except (OSError, TypeError):
            raise ConfigError(
                "this function has no source that can be read, and a run must be able to say what it was",
                field=name,
                value=getattr(function, "__name__", type(function).__name__),
                fix="define it in a file or a notebook cell",
            ) from None
    return sources
