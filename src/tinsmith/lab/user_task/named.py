"""A task that is opened by its name: it stands on packages that others keep, whose versions are its identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError, TinsmithError


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTask:
    """See TaskSource."""

    found_at: str
    """What stands after `tinsmith run`."""
    keys: tuple[OwnKey, ...]
    sha256: Mapping[str, str]
    """What its identity is made of: versions of packages, and digests of files that have none."""
    entry: Callable[[Mapping[str, Value]], Task]

    @property
    def title(self) -> str:
        """See TaskSource."""
        return self.found_at.replace(":", "/")

    @property
    def folder(self) -> Path:
        """See TaskSource; there are no data files."""
        return Path()

    def make(self, values: Mapping[str, Value]) -> Task:
        """See TaskSource."""
        return self.entry(values)

    def told(self, error: TinsmithError) -> TinsmithError:
        """See TaskSource."""
        return error


def version_of(package: str) -> str:
    """Return the installed version of a package that a task stands on.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            "this task stands on a package that is not installed",
            field="package",
            value=package,
            fix="pip install 'tinsmith[env]'",
        ) from None


def require_only(name: str, rest: str, *, fix: str = "") -> None:
    """Refuse what stands after the name of a task of which there is one.

    Raises:
        ConfigError: something does.
    """
    if rest:
        raise ConfigError("there is one such task", field=name, value=rest, fix=fix or f"tinsmith run {name}")
