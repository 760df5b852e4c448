"""Where a task comes from: a file, a value in Python, or whatever else has a name, keys of its own and an identity."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tinsmith.lab.experiment.key_text import OwnKey, Value
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.lab.user_task.task import Task, function_of
from tinsmith.types.errors import ConfigError, TinsmithError
from tinsmith.types.fingerprints import sha256_of


class TaskSource(Protocol):
    """See the module."""

    @property
    def title(self) -> str:
        """What a run is called whose task has no name."""
        ...

    @property
    def found_at(self) -> str | None:
        """What `tinsmith run` opens it by, in full; None: it was handed over, and cannot be opened again."""
        ...

    @property
    def folder(self) -> Path:
        """Where data files are looked for."""
        ...

    @property
    def keys(self) -> tuple[OwnKey, ...]:
        """Its own keys."""
        ...

    @property
    def sha256(self) -> Mapping[str, str]:
        """The identity of its code, by name of what was hashed."""
        ...

    def make(self, values: Mapping[str, Value]) -> Task:
        """Return the task with these values of its own keys.

        Raises:
            ConfigError: there is none.
        """
        ...

    def told(self, error: TinsmithError) -> TinsmithError:
        """Return an error that lies in the task, and says where."""
        ...


@dataclass(frozen=True, slots=True)
class TaskValue:
    """A task that was handed over in Python; data files are looked for in the current folder."""

    task: Task
    found_at: Final = None
    keys: Final = ()

    @property
    def title(self) -> str:
        """See TaskSource; the name says that it has no file."""
        return f"python/{self.task.name or 'task'}"

    @property
    def folder(self) -> Path:
        """See TaskSource."""
        return Path()

    @property
    def sha256(self) -> Mapping[str, str]:
        """See TaskSource.

        Raises:
            ConfigError: a function has no source that could be read, so that nobody could say later what ran.
        """
        return {"python": hashlib.sha256(sha256_of(_sources(self.task)).encode()).hexdigest()}

    def make(self, values: Mapping[str, Value]) -> Task:
        """See TaskSource."""
        del values
        return self.task

    def told(self, error: TinsmithError) -> TinsmithError:
        """See TaskSource."""
        return error


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
