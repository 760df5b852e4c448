"""Typed look-ups in a file's JSON object, with errors that name the file, the key and the allowed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Keys:
    """JSON object and the file it is from; `null` counts as absent."""

    values: Mapping[str, object]
    source: str

    def error(self, what: str, field: str, allowed: str, fix: str | None = None) -> ConfigError:
        """Return an error about a field."""
        value = self.values.get(field, "absent")
        return ConfigError(f"{self.source}: {what}", field=field, value=value, allowed=allowed, fix=fix)

    def integer(self, field: str, default: int | None = None) -> int:
        """Return an integer; `default` if the field is absent."""
        value = self.values.get(field)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("a whole number is needed here", field, "an integer")
        if abs(value) >= 1 << 63:
            raise self.error("this number is too large", field, "64 bits")
        return value

    def count(self, field: str, most: int) -> int:
        """Return an integer from 1 to `most`."""
        value = self.integer(field)
        if not 1 <= value <= most:
            raise self.error("this is out of proportion", field, f"1 to {most}")
        return value

    def number(self, field: str, default: float | None = None) -> float:
        """Return a number; `default` if the field is absent."""
        value = self.values.get(field)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error("a number is needed here", field, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error("a finite number is needed here", field, "a finite number")
        return number

    def flag(self, field: str) -> bool:
        """Return a boolean; False if the field is absent."""
        value = self.values.get(field)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error("a yes or no is needed here", field, "true or false")
        return value

    def section(self, field: str) -> Keys | None:
        """Return an object within the object; None if it is absent or empty."""
        value = self.values.get(field)
        if value is None or value == {}:
            return None
        if not isinstance(value, dict):
            raise self.error("an object is needed here", field, "a JSON object")
        return Keys(cast("dict[str, object]", value), f"{self.source}: {field}")
