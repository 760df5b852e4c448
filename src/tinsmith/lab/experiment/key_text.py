"""Keys as they stand on a command line: what every kind of experiment reads alike, and refusing what is no key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinsmith.types.errors import ConfigError

Value = str | int | float | bool


def folder_name(name: str, changes: Sequence[str]) -> str:
    """Return a run's default folder name, of its name and what was changed; what no folder takes becomes _."""
    told = "-".join([name, *changes])
    return "".join(c if c.isalnum() or c in "-_=.," else "_" for c in told)


def truth(key: str, text: str) -> bool:
    """Read a key that is true or false."""
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise unreadable(key, text, "true or false")


def unreadable(key: str, value: str, allowed: str) -> ConfigError:
    """Return what is said of a value that is not of its key's type."""
    return ConfigError("this value cannot be read", field=key, value=value, allowed=allowed)


def unknown_key(key: str, value: str, known: Iterable[str], prefixes: Sequence[str] = ()) -> ConfigError:
    """Return what is said of a key that nothing has, with the nearest one that is known."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return ConfigError(
        "there is no such key",
        field=key,
        value=value,
        allowed=", ".join([*names, *(f"{prefix}*" for prefix in prefixes)]),
        fix=f"perhaps {near[0]}" if near else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKey:
    """A key that a task adds to those of every run."""

    name: str
    kind: type[Value]
    default: Value
    words: str
    """Its help, in a sentence."""
    is_file: bool = False
    """Its value is a path: a circumstance of a run, and no part of its identity, as what is read of it is."""

    def read(self, text: str | None) -> Value:
        """Return the value that stands on a command line, or the default where none does."""
        if text is None:
            return self.default
        if self.is_file:
            return str(Path(text).absolute()) if text else text
        if self.kind is bool:
            return truth(self.name, text)
        try:
            return self.kind(text)
        except ValueError:
            allowed = "a whole number" if self.kind is int else "a number"
            raise unreadable(self.name, text, allowed) from None

    def argument(self, value: Value) -> object:
        """Return a value as the task's function takes it."""
        return Path(str(value)) if self.is_file else value
