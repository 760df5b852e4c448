"""Reads text files, plain or gzip, as blocks of whole lines; tells a damaged file from a finished one.

Everything before the damage comes out, the same on every machine; then `DamagedFile` is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from isal import isal_zlib

from tinsmith.types.errors import DataError

_COMPRESSED = 1 << 16
_PLAIN = 1 << 20
MAX_LINE = 256 << 20
"""A line longer than this is no record."""
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_ISAL_ERROR = cast("type[Exception]", isal_zlib.error)


class Malformed(ValueError):
    """A record that cannot be read; the message is the reason."""


class DamagedFile(DataError):
    """A file ends early or does not decompress; `line` and `text` are where, and what was left of it."""

    def __init__(self, name: str, why: str, line: int, text: str) -> None:
        self.name = name
        self.why = why
        self.line = line
        self.text = text
        super().__init__(
            f"{name}: {why} (after line {line - 1})",
            fix="get the file again, or use what is before the damage with --skip-bad",
        )


class _Damage(Exception):
    """The stream is not as gzip has it, or not as lines."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, the last one with or without its line feed."""

    first: int
    """Number of the first line, from 1."""
    data: bytes | memoryview

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their numbers; line ends and a byte order mark taken off."""
        for number, line in enumerate(bytes(self.data).split(b"\n"), self.first):
            if line.startswith(_BOM):
                line = line[len(_BOM) :]
            if line and not line.isspace():
                yield number, line.rstrip(b"\r")


def read_blocks(path: Path, name: str) -> Iterator[Block]:
    """Read a file; `name` is how errors call it.

    Raises:
        DamagedFile: a gzip file is truncated or corrupt, or a line has no end.
    """
    first, rest = 1, b""
    try:
        for chunk in _chunks(path):
            # The line that a cut went through is put together; the others are handed out where they lie.
            start, stop = chunk.find(b"\n") + 1, chunk.rfind(b"\n") + 1
            if stop:
                yield Block(first, rest + chunk[:start])
                first += 1
                if stop > start:
                    yield Block(first, memoryview(chunk)[start:stop])
                    first += chunk.count(b"\n", start, stop)
                rest = chunk[stop:]
            else:
                rest += chunk
            if len(rest) > MAX_LINE:
                raise _Damage("a line has no end")
    except (_Damage, _ISAL_ERROR) as error:
        raise DamagedFile(name, str(error), first, rest.decode("utf-8", "replace")) from None
    if rest:
        yield Block(first, rest)


def read_all(path: Path, name: str) -> bytes:
    """Return a whole file's text.

    Raises:
        DamagedFile: as `read_blocks`.
    """
    try:
        return b"".join(_chunks(path))
    except (_Damage, _ISAL_ERROR) as error:
        raise DamagedFile(name, str(error), 1, "") from None


def _chunks(path: Path) -> Iterator[bytes]:
    """The text of a file; gzip, of one or several members, is known by its first bytes."""
    with path.open("rb") as file:
        if file.read(2) != _GZIP:
            file.seek(0)
            while chunk := file.read(_PLAIN):
                yield chunk
            return
        file.seek(0)
        member = None
        while data := file.read(_COMPRESSED):
            while data:
                if member is None:
                    if not data.strip(b"\0"):
                        break  # padding between or after members
                    member = isal_zlib.decompressobj(wbits=31)
                if text := member.decompress(data):
                    yield text
                data = b""
                if member.eof:
                    data, member = member.unused_data, None
        if member is not None:
            raise _Damage("the gzip stream ends early")
