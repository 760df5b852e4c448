"""TOML files that a user writes: keys, prices."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tinsmith.types.errors import ConfigError


def read_toml(file: Path, *, field: str) -> dict[str, object]:
    """Return the document of a TOML file, with or without a byte order mark; errors reveal none of its content.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8 or not TOML; errors name the setting `field`.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", field=field, value=str(file)) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8", field=field, value=str(file), fix="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at (line \d+, column \d+|end of document)", str(error))
        where = f": the mistake is at {place[1]}" if place else ""
        raise ConfigError(f"{file} is not TOML{where}", field=field, value=str(file)) from None
    except RecursionError:
        raise ConfigError(f"{file} is nested too deeply", field=field, value=str(file)) from None
