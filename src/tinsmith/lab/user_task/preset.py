"""A named way to run a task: its source, with other values for some keys. `tinsmith run taste/sft` opens one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tinsmith.lab.user_task.source import OwnKey, TaskSource
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import TinsmithError


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetTask:
    """See TaskSource."""

    of: TaskSource
    found_at: str
    """What stands after `tinsmith run`; the task goes by this name."""
    values: Mapping[str, str]
    """By key, the source's own ones and those of every run; the command line goes first."""

    @property
    def title(self) -> str:
        """See TaskSource."""
        return self.found_at

    @property
    def folder(self) -> Path:
        """See TaskSource."""
        return self.of.folder

    @property
    def keys(self) -> tuple[OwnKey, ...]:
        """See TaskSource; the defaults are the preset's."""
        return tuple(replace(key, default=key.read(self.values.get(key.name))) for key in self.of.keys)

    @property
    def sha256(self) -> Mapping[str, str]:
        """See TaskSource."""
        return self.of.sha256

    def make(self, values: Mapping[str, Value]) -> Task:
        """See TaskSource."""
        task, own = self.of.make(values), {key.name for key in self.of.keys}
        shared = {key: value for key, value in self.values.items() if key not in own}
        return replace(task, name=self.found_at, keys={**task.keys, **shared})

    def told(self, error: TinsmithError) -> TinsmithError:
        """See TaskSource."""
        return self.of.told(error)
