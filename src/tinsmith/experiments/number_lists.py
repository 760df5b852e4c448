"""Lists of numbers as a study is told them: `1,2,3`."""

from __future__ import annotations

from typing import TypeVar

from tinsmith.types.errors import ConfigError

N = TypeVar("N", int, float)


def numbers(key: str, text: str, kind: type[N]) -> list[N]:
    """Read a key's numbers with commas between them.

    Raises:
        ConfigError: one of them is none.
    """
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            "this value cannot be read",
            field=key,
            value=text,
            allowed="numbers with commas between them",
        ) from None
