"""Parts of what a person gives to `tinsmith analyse`: pairs, lists of labels, JSON files."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.json_text import parse_json


def split_labels(text: str | None) -> tuple[str, ...] | None:
    """Split a comma-separated list of labels."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            "labels must be two or more different names",
            field="--labels",
            value=text,
            allowed="names with commas between them, such as a,b,c",
        )
    return names


def texts_of(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Split NAME=TEXT pairs."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not (key and equals and text) or key in found:
            raise ConfigError(
                "a label is named twice" if key in found else "this is no pair",
                field=option,
                value=pair,
                allowed="NAME=NUMBER, once for every name",
            )
        found[key] = text
    return found


def numbers_of(pairs: Sequence[str], option: str) -> dict[str, float]:
    """Split NAME=NUMBER pairs."""
    numbers: dict[str, float] = {}
    for key, text in texts_of(pairs, option).items():
        try:
            numbers[key] = float(text)
        except ValueError:
            raise ConfigError(
                "this is not a number", field=option, value=f"{key}={text}", allowed="NAME=NUMBER"
            ) from None
    return numbers


def json_of(path: Path) -> object:
    """Read JSON, decimals kept as they are written."""
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        return parse_json(path.read_text("utf-8-sig"), parse_float=Decimal)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from None


def is_number(value: object) -> bool:
    """True if a value of JSON is a number."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
