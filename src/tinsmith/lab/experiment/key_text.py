"""Keys as they stand on a command line: what every kind of experiment reads alike, and refusing what is no key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tinsmith.types.errors import ConfigError


def folder_name(name: str, changes: Sequence[str]) -> str:
    """Return a run's default folder name, of its name and what was changed; what no folder takes becomes _."""
    told = "-".join([name, *changes])
    return "".join(c if c.isalnum() or c in "-_=.," else "_" for c in told)


def truth(key: str, text: str) -> bool:
    """Read a key that is true or false.

    Raises:
        ConfigError: it is neither.
    """
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
