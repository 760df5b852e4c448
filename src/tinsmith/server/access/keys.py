"""API keys of a server: one, or those of a file, each with a name and limits. Only hashes are held in memory.

The file is TOML: one table `[[key]]` for each, with `name`, `key` and any of the limits. It is accepted as a whole or
not at all, and no message about it contains a key.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

from tinsmith.server.access.caller import DEFAULT
from tinsmith.server.access.limits import UNLIMITED, Limits
from tinsmith.types.errors import ConfigError
from tinsmith.types.toml_files import read_toml

PREFIX = "tml-"
"""Prefix that the SDK requires of a key."""
MIN_LETTERS = 16
"""Least length of a key in a file, including its prefix: a shorter one can be guessed."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LIMITS = tuple(each.name for each in fields(Limits))
_OTHERS_READ = 0o077


@dataclass(frozen=True, slots=True)
class Key:
    """API key: its owner's name, and its SHA-256."""

    name: str
    digest: bytes
    limits: Limits = UNLIMITED


class Keys:
    """Set of valid keys, replaced as a whole on the event loop."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        """Start with these keys."""
        self._keys = keys

    @staticmethod
    def single(key: str) -> Keys:
        """Create the keys of a server that has a single one, without limits."""
        return Keys((Key(DEFAULT, digest(key.encode())),))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the valid keys."""
        return tuple(key.name for key in self._keys)

    def replace(self, others: Keys) -> None:
        """Replace all keys."""
        self._keys = others._keys

    def find(self, given: bytes) -> Key | None:
        """Return the matching key, or None, in constant time."""
        shown, found = digest(given), None
        for key in self._keys:
            if secrets.compare_digest(shown, key.digest):
                found = key
        return found


def digest(key: bytes) -> bytes:
    """Return the stored digest of a key."""
    return hashlib.sha256(key).digest()


def read_keys(file: Path) -> Keys:
    """Read a file of keys.

    Raises:
        ConfigError: naming the file and the field; the message contains no part of a key.
    """
    document = read_toml(file, field="--keys")
    unknown = sorted(set(document) - {"key"})
    if unknown:
        raise _refusal(file, "has an unknown entry", unknown[0], "tables [[key]] only")
    tables: object = document.get("key")
    if not isinstance(tables, list) or not tables:
        raise _refusal(file, "holds no key", "key", "one table [[key]] or more")
    keys = tuple(_key(file, f"key[{i}]", table) for i, table in enumerate(cast("list[object]", tables)))
    for i, key in enumerate(keys):
        for j, before in enumerate(keys[:i]):
            for what, same in (("name", key.name == before.name), ("key", key.digest == before.digest)):
                if same:
                    allowed = f"another one than that of key[{j}]"
                    raise _refusal(file, f"has the same {what} twice", f"key[{i}].{what}", allowed)
    return Keys(keys)


def key_from_environment() -> str | None:
    """Return TINKER_API_KEY; None if it is not set.

    Raises:
        ConfigError: the SDK would reject it.
    """
    key = os.environ.get("TINKER_API_KEY") or None
    if key is not None and not key.startswith(PREFIX):
        what, fix = "the SDK only takes keys that begin with tml-", "unset it for a new key, or give it another value"
        raise ConfigError(what, field="TINKER_API_KEY", allowed=f"{PREFIX}...", fix=fix)
    return key


def readable_by_others(file: Path) -> bool:
    """True if users other than the file's owner may read or change it."""
    return bool(file.stat().st_mode & _OTHERS_READ)


def _key(file: Path, where: str, table: object) -> Key:
    if not isinstance(table, dict):
        raise _refusal(file, "has an entry that is not a table", where, "a table [[key]]")
    values = cast("Mapping[str, object]", table)
    known = ("name", "key", *_LIMITS)
    for field in values:
        if field not in known:
            raise _refusal(file, "has an unknown field", f"{where}.{field}", known)
    name, key = values.get("name"), values.get("key")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = "1 to 32 of a-z 0-9 _ -, the first a letter or a digit"
        raise _refusal(file, "has a key without a valid name", f"{where}.name", allowed)
    if not _is_key(key):
        allowed = f"{PREFIX} and at least {MIN_LETTERS - len(PREFIX)} letters, digits, _ or - (its value is not shown)"
        raise _refusal(file, "has a key of a form that is not allowed", f"{where}.key", allowed)
    given = {limit: values[limit] for limit in _LIMITS if limit in values}
    for limit, most in given.items():
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise _refusal(file, "has a limit that is none", f"{where}.{limit}", "1 or more")
    limits = Limits(**cast("dict[str, int]", given)) if given else UNLIMITED
    return Key(name, digest(str(key).encode()), limits)


def _is_key(key: object) -> bool:
    return (
        isinstance(key, str) and len(key) >= MIN_LETTERS and re.fullmatch(rf"{PREFIX}[A-Za-z0-9_-]+", key) is not None
    )


def _refusal(file: Path, what: str, field: str, allowed: str | tuple[str, ...]) -> ConfigError:
    shown = re.sub(rf"{PREFIX}.*", f"{PREFIX}...", field)  # a key in place of a field's name
    return ConfigError(f"{file} {what}", field=shown, allowed=allowed)
