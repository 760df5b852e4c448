"""Reads JSON records as blocks of lines, however a file holds them: lines, an array, or values over many lines.

An array or a document is cut at its outermost elements, each of which becomes a line: JSON has no line feed inside a
text, so that those between its parts can be spaces. Lines are then numbered as records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from tinsmith.data.sources.lines import MAX_LINE, Block, DamagedFile, blocks_of
from tinsmith.data.sources.streams import Damage, text_chunks

_PEEK = 1 << 16
_MERGED = 1 << 20
_QUOTE, _SLASH, _COMMA, _LINE = 0x22, 0x5C, 0x2C, 0x0A
_OPEN, _CLOSE = 0x7B, 0x7D  # braces; brackets are 0x20 below
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


def read_json_blocks(path: Path, name: str) -> Iterator[Block]:
    """Read the records of a file; `name` is how errors call it.

    Raises:
        DamagedFile: a packed file is truncated or corrupt, an array has no end, or a record is too long.
        DataError: the file is no text.
    """
    chunks = text_chunks(path, name)
    head = b""
    try:
        for chunk in chunks:
            head += chunk
            if len(head) >= _PEEK:
                break
    except Damage as error:
        if not head:
            raise DamagedFile(name, str(error), 1, "") from None
        chunks = _damaged(error)
    every = chain([head] if head else [], chunks)
    begin = head.lstrip()[:1]
    if begin == b"[":
        return _values(every, name, in_array=True)
    return _values(every, name, in_array=False) if begin == b"{" and not _is_lines(head) else blocks_of(every, name)


def is_json(text: bytes) -> bool:
    """Return True for one whole JSON value; for one that cannot be read to its end, too."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    except (RecursionError, UnicodeDecodeError):
        pass
    return True


def _damaged(error: Damage) -> Iterator[bytes]:
    """Tell of the damage after what came before it."""
    raise error
    yield b""


def _is_lines(head: bytes) -> bool:
    """Return True if the first or the second line of a text that begins with a brace is an object of its own."""
    lines = [line.strip() for line in head.lstrip().split(b"\n", 2)[:2]]
    return len(lines) == 1 or is_json(lines[0]) or (lines[1].startswith(b"{") and is_json(lines[1]))


def _values(chunks: Iterator[bytes], name: str, *, in_array: bool) -> Iterator[Block]:
    cutter = _Cutter(in_array)
    held, size, first = list[bytes](), 0, 1
    try:
        for chunk in chunks:
            for value in cutter.feed(chunk):
                held.append(value)
                size += len(value)
                if size >= _MERGED:
                    yield Block(first, b"\n".join(held))
                    first, held, size = first + len(held), [], 0
        cutter.end()
    except Damage as error:
        if held:
            yield Block(first, b"\n".join(held))
        raise DamagedFile(name, str(error), first + len(held), cutter.rest().decode("utf-8", "replace")) from None
    if held:
        yield Block(first, b"\n".join(held))


class _Cutter:
    """Cuts JSON text at the elements of its outermost array, or after its outermost values."""

    def __init__(self, in_array: bool) -> None:
        self._in_array = in_array
        self._pieces: list[bytes] = []
        self._size = 0
        self._depth = 0
        self._in_text = 0
        self._escaped = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the values that end in the next piece of the text.

        Raises:
            Damage: brackets do not match, or a value is too long.
        """
        start = 0
        # A quotation mark that is missing turns texts inside out; a line feed in one is the first sign of it.
        cuts, is_whole = self._cuts(chunk)
        for cut, skipped in cuts:
            self._pieces.append(chunk[start:cut])
            start = cut + skipped
            if value := self._taken():
                yield value
        self._pieces.append(chunk[start:])
        self._size += len(chunk) - start
        if not is_whole:
            raise Damage("a text goes over the end of a line: a quotation mark is missing")
        if self._size > MAX_LINE:
            raise Damage("a record has no end")

    def end(self) -> None:
        """Check that the text is complete.

        Raises:
            Damage: it is not.
        """
        if self._depth or self._in_text or self.rest():
            raise Damage("the JSON text ends early")

    def rest(self) -> bytes:
        """Return what is no whole value yet."""
        return b"".join(self._pieces).strip()

    def _taken(self) -> bytes:
        value = self.rest().replace(b"\r", b" ").replace(b"\n", b" ")
        self._pieces.clear()
        self._size = 0
        return value

    def _cuts(self, chunk: bytes) -> tuple[list[tuple[int, int]], bool]:
        """Return where values end, and how many characters there belong to none; and False if a text is broken."""
        content = np.frombuffer(chunk, dtype=np.uint8)
        quotes = content == _QUOTE
        if self._escaped:
            quotes[0] = False
        if self._escaped or (content == _SLASH).any():
            ends = [match.end() for match in _ESCAPED.finditer(chunk, int(self._escaped))]
            quotes[np.array(ends, dtype=np.int64) - 1] = False
            last = ends[-1] if ends else int(self._escaped)
            self._escaped = chunk.endswith(b"\\") and last < len(chunk)
        inside = (np.cumsum(quotes, dtype=np.int32) + self._in_text) & 1
        self._in_text = int(inside[-1])
        outside = inside == 0
        broken = np.flatnonzero((content == _LINE) & ~outside)
        end = int(broken[0]) if len(broken) else len(chunk)
        folded = content | 0x20
        steps = np.where(folded == _OPEN, 1, np.where(folded == _CLOSE, -1, 0)).astype(np.int8)
        steps[~outside] = 0
        places = np.flatnonzero(steps)
        depths = np.cumsum(steps[places], dtype=np.int32) + self._depth
        before = self._depth
        self._depth = int(depths[-1]) if len(depths) else before
        if (depths < 0).any():
            raise Damage("a bracket closes that was not opened")
        closed = (steps[places] < 0) & (depths == 0)
        if not self._in_array:
            return [(place + 1, 0) for place in places[closed].tolist() if place < end], not len(broken)
        opened = (steps[places] > 0) & (depths == 1)
        commas = np.flatnonzero((content == _COMMA) & outside)
        at = np.concatenate(([before], depths))[np.searchsorted(places, commas)]
        cuts = np.sort(np.concatenate([places[opened | closed], commas[at == 1]]))
        return [(place, 1) for place in cuts.tolist() if place < end], not len(broken)
