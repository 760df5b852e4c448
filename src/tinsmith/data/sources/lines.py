"""Reader of text files as blocks of whole lines, which distinguishes a damaged file from a complete one.

Everything before the damage is yielded, the same on every machine; then `DamagedFile` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.sources.streams import Damage, text_chunks
from tinsmith.types.errors import DataError

MAX_LINE = 256 << 20
"""Most bytes of a line that is a record."""
BOM = b"\xef\xbb\xbf"


class DamagedFile(DataError):
    """Error of a file that ends early or does not decompress; `line` and `text` give the position and the rest."""

    def __init__(self, name: str, why: str, line: int, text: str) -> None:
        self.name = name
        self.why = why
        self.line = line
        self.text = text
        super().__init__(
            f"{name}: {why} (after line {line - 1})",
            fix="get the file again, or use what is before the damage with --skip-bad",
        )


@dataclass(frozen=True, slots=True)
class Block:
    """Block of complete lines, the last one with or without its line feed."""

    first: int
    """Number of the first line, from 1."""
    data: bytes | memoryview

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Return non-blank lines with their numbers, without line ends and byte order mark."""
        for number, line in enumerate(bytes(self.data).split(b"\n"), self.first):
            if line.startswith(BOM):
                line = line[len(BOM) :]
            if line and not line.isspace():
                yield number, line.rstrip(b"\r")


def read_blocks(path: Path, name: str) -> Iterator[Block]:
    """Read a file; errors name it `name`.

    Raises:
        DamagedFile: a packed file is truncated or corrupt, or a line has no end.
        DataError: the file is not text.
    """
    return blocks_of(text_chunks(path, name), name)


def blocks_of(chunks: Iterable[bytes], name: str) -> Iterator[Block]:
    """Split a text into blocks of complete lines.

    Raises:
        DamagedFile: see `read_blocks`.
    """
    first, rest = 1, b""
    try:
        for chunk in chunks:
            # The line divided by a boundary is joined; the others are yielded without a copy.
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
                raise Damage("a line has no end")
    except Damage as error:
        raise DamagedFile(name, str(error), first, rest.decode("utf-8", "replace")) from None
    if rest:
        yield Block(first, rest)
