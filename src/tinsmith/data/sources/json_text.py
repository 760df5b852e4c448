"""Decoder of JSON text in which every error means a malformed record."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tinsmith.data.sources.kinds import Malformed

Value = TypeVar("Value")

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for invalid text."""
_PLAIN: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)


def decoded(decoder: msgspec.json.Decoder[Value], text: bytes | msgspec.Raw) -> Value:
    """Decode a text.

    Raises:
        Malformed: it is not JSON.
        msgspec.ValidationError: it is JSON of another type.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        # For invalid UTF-8 msgspec raises the first one up to 0.22, the second from 0.23 on.
        is_text = not isinstance(error, UnicodeDecodeError) and not str(error).startswith("Invalid UTF-8")
        raise Malformed(str(error) if is_text else "not UTF-8") from None


def plain(text: bytes | msgspec.Raw) -> object:
    """Decode a text to plain Python values.

    Raises:
        Malformed: it is not JSON, or has a number out of range.
    """
    try:
        return decoded(_PLAIN, text)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
