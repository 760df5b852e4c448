"""Reader of JSON records as blocks of lines, from a file of lines, an array, or values over many lines.

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
from numpy.typing import NDArray

from tinsmith.data.sources.lines import MAX_LINE, Block, DamagedFile, blocks_of
from tinsmith.data.sources.streams import Damage, text_chunks

_PEEK = 1 << 16
_MERGED = 1 << 20
_QUOTE, _SLASH, _COMMA, _LINE = 0x22, 0x5C, 0x2C, 0x0A
_OPEN, _CLOSE = 0x7B, 0x7D  # braces; brackets are 0x20 below
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


def read_json_blocks(path: Path, name: str) -> Iterator[Block]:
    """Read the records of a file; errors name it `name`.

    Raises:
        DamagedFile: a packed file is truncated or corrupt, an array has no end, or a record is too long.
        DataError: the file is not text.
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
    """Return True for a single JSON value, even if its end cannot be read."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    except (RecursionError, UnicodeDecodeError):
        pass
    return True


def _damaged(error: Damage) -> Iterator[bytes]:
    """Report the damage after everything before it was yielded."""
    raise error
    yield b""


def _is_lines(head: bytes) -> bool:
    """Return True if the first or second line of a text that begins with a brace is an object by itself."""
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
    """Splitter of JSON text at the elements of its outermost array, or after its outermost values."""

    def __init__(self, in_array: bool) -> None:
        self._in_array = in_array
        self._pieces: list[bytes] = []
        self._size = 0
        self._open = np.empty(0, np.bool_)
        """Open brackets, outermost first: True for a brace."""
        self._in_text = 0
        self._escaped = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the values that end in the next piece of the text.

        Raises:
            Damage: brackets do not match, or a value is too long.
        """
        start = 0
        cuts, broken = self._cuts(chunk)
        for cut, skipped in cuts:
            self._pieces.append(chunk[start:cut])
            start = cut + skipped
            if value := self._taken():
                yield value
        self._pieces.append(chunk[start:])
        self._size += len(chunk) - start
        if broken:
            raise Damage(broken)
        if self._size > MAX_LINE:
            raise Damage("a record has no end")

    def end(self) -> None:
        """Check that the text is complete.

        Raises:
            Damage: it is not.
        """
        if len(self._open) or self._in_text or self.rest():
            raise Damage("the JSON text ends early")

    def rest(self) -> bytes:
        """Return the incomplete last value."""
        return b"".join(self._pieces).strip()

    def _taken(self) -> bytes:
        value = self.rest().replace(b"\r", b" ").replace(b"\n", b" ")
        self._pieces.clear()
        self._size = 0
        return value

    def _cuts(self, chunk: bytes) -> tuple[list[tuple[int, int]], str]:
        """Return the ends of values, the number of characters outside any, and the damage, if any."""
        content = np.frombuffer(chunk, dtype=np.uint8)
        outside = self._outside(chunk, content)
        # A missing quotation mark inverts strings and the rest; a line feed in a string is its first symptom.
        broken = np.flatnonzero((content == _LINE) & ~outside)
        end, why = len(chunk), ""
        if len(broken):
            end, why = int(broken[0]), "a text goes over the end of a line: a quotation mark is missing"
        folded = content | 0x20
        places = np.flatnonzero(((folded == _OPEN) | (folded == _CLOSE)) & outside)
        opens, before = folded[places] == _OPEN, len(self._open)
        depths = np.cumsum(np.where(opens, 1, -1), dtype=np.int64) + before
        unmatched = self._unmatched(opens, content[places] == folded[places], depths)
        if unmatched < len(places) and places[unmatched] < end:
            end, why = int(places[unmatched]), "a bracket closes that is not the one that is open"
        closed = ~opens & (depths == 0)
        if not self._in_array:
            return [(place + 1, 0) for place in places[closed].tolist() if place < end], why
        opened = opens & (depths == 1)
        commas = np.flatnonzero((content == _COMMA) & outside)
        at = np.concatenate(([before], depths))[np.searchsorted(places, commas)]
        cuts = np.sort(np.concatenate([places[opened | closed], commas[at == 1]]))
        return [(place, 1) for place in cuts.tolist() if place < end], why

    def _outside(self, chunk: bytes, content: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return a mask of the characters outside strings."""
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
        return inside == 0

    def _unmatched(self, opens: NDArray[np.bool_], braces: NDArray[np.bool_], depths: NDArray[np.int64]) -> int:
        """Return the index of the first bracket that closes another kind than is open; if none does, their number."""
        before, number = len(self._open), len(opens)
        below = np.flatnonzero(depths < 0)
        limit = int(below[0]) if len(below) else number
        levels = np.concatenate([np.arange(1, before + 1), np.where(opens, depths, depths + 1)[:limit]])
        kinds = np.concatenate([self._open, braces[:limit]])
        opening = np.concatenate([np.ones(before, np.bool_), opens[:limit]])
        order = np.argsort(levels, kind="stable")  # at each level every bracket that opens stands before its end
        first, second = order[:-1], order[1:]
        pairs = opening[first] & ~opening[second]
        wrong = second[pairs & (kinds[first] != kinds[second])] - before
        last = np.append(levels[first] != levels[second], True) if len(order) else np.empty(0, np.bool_)
        self._open = kinds[order[last & opening[order]]]
        return min([limit, *wrong.tolist()])
