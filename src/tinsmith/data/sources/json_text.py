"""JSON text decoded: whatever is wrong with it, the record is malformed."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tinsmith.data.sources.kinds import Malformed

Value = TypeVar("Value")

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for a text that it cannot read."""
_PLAIN: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)


def decoded(decoder: msgspec.json.Decoder[Value], text: bytes | msgspec.Raw) -> Value:
    """Return the value of a text.

    Raises:
        Malformed: it is no JSON.
        msgspec.ValidationError: it is, of another type.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        # Of bytes that are not UTF-8 msgspec raises the one up to 0.22, the other from 0.23 on.
        is_text = not isinstance(error, UnicodeDecodeError) and not str(error).startswith("Invalid UTF-8")
        raise Malformed(str(error) if is_text else "not UTF-8") from None


def plain(text: bytes | msgspec.Raw) -> object:
    """Return a text's value as plain Python values.

    Raises:
        Malformed: it is no JSON, or has a number that is out of range.
    """
    try:
        return decoded(_PLAIN, text)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
