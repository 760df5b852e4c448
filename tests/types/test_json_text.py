"""JSON that somebody else wrote: what is read of it, and what is refused with a ValueError."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from tinsmith.types import json_text
from tinsmith.types.json_text import MAX_DEPTH, UNREADABLE, parse_json, read_json


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        "[" * 900 + "]" * 900,
        "1" * 10_000,
        "",
        "{",
        "{]",
        '[{"a": 1, "b": 2, "a": 1}]',
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, whatever it says
        parse_json(text)


def test_nesting_is_read_up_to_its_bound_in_lists_and_objects() -> None:
    for begin, end in (("[", "]"), ('{"a":', "}")):
        within = begin * MAX_DEPTH + "1" + end * MAX_DEPTH
        assert parse_json(within) is not None
        with pytest.raises(ValueError, match="nested"):
            parse_json(f"{begin}{within}{end}")


def test_decimals_can_be_kept_as_they_are_written() -> None:
    assert parse_json('{"a": 0.10}', parse_float=Decimal) == {"a": Decimal("0.10")}


def test_a_file_is_not_read_beyond_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    assert read_json(file) == {"a": 1}
    monkeypatch.setattr(json_text, "LARGEST", 7)
    with pytest.raises(ValueError, match="8 bytes"):
        read_json(file)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b'{"a": "\xff"}'])
def test_what_msgspec_raises_is_named_in_one_place(content: bytes) -> None:
    with pytest.raises(UNREADABLE):
        msgspec.json.decode(content)
