"""Text of a file as UTF-8, piece by piece: plain, gzip, zstd, bzip2 or xz, in UTF-8 or UTF-16.

The compression is detected by the first bytes, not by the name. Files that are not text are rejected by name.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard
from isal import isal_zlib

from tinsmith.types.errors import DataError

_COMPRESSED = 1 << 16
_PLAIN = 1 << 20
PACKED_ENDINGS = (".gz", ".zst", ".bz2", ".xz")
_BOM = codecs.BOM_UTF8
_NO_TEXT = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"SQLi": "an SQLite database",
    b"\x89HDF": "HDF5",
    b"ORC": "ORC",
    b"ARRO": "Arrow IPC",
    b"%PDF": "PDF",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
}
_TAR_AT, _TAR = 257, b"ustar"
_ERRORS = (
    cast("type[Exception]", isal_zlib.error),
    zstandard.ZstdError,
    lzma.LZMAError,
    OSError,
    UnicodeError,
    EOFError,
)


def require_files(**named: Sequence[Path]) -> None:
    """Check that files exist; errors name their option.

    Raises:
        DataError: one does not, or is a folder.
    """
    for option, file in ((option, file) for option, files in named.items() for file in files):
        if not file.exists() or file.is_dir():
            what = "this is a folder" if file.is_dir() else "there is no such file"
            raise DataError(what, field=f"--{option}", value=str(file), allowed="the path of a file")


class Damage(Exception):
    """Error of a stream that violates its format."""


class _Member(Protocol):
    """Decompressor of one member of a stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _zstd() -> _Member:
    return cast("_Member", zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj())


_PACKED: dict[bytes, tuple[str, Callable[[], _Member]]] = {
    b"\x1f\x8b": ("gzip", lambda: cast("_Member", isal_zlib.decompressobj(wbits=31))),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    **{bytes([first]) + b"\x2a\x4d\x18": ("zstd", _zstd) for first in range(0x50, 0x60)},  # skippable frame first
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ": ("xz", lzma.LZMADecompressor),
}


def text_chunks(path: Path, name: str) -> Iterator[bytes]:
    """Yield the text of a file up to any damage, the same on every machine.

    Raises:
        Damage: a packed file ends early or does not decompress, or a text is not in its encoding.
        DataError: the file is not text.
    """
    with path.open("rb") as file:
        head = file.read(8)
        file.seek(0)
        if not head and name.endswith((*PACKED_ENDINGS, ".parquet")):
            raise Damage("the file is empty")
        packed = next((one for magic, one in _PACKED.items() if head.startswith(magic)), None)
        chunks = _plain(file) if packed is None else _unpacked(file, *packed)
        yield from _utf8(chunks, name)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_PLAIN):
        yield chunk


def _unpacked(file: BinaryIO, what: str, member_of: Callable[[], _Member]) -> Iterator[bytes]:
    member: _Member | None = None
    try:
        while data := file.read(_COMPRESSED):
            while data:
                if member is None:
                    if not data.strip(b"\0"):
                        break  # padding between or after members
                    member = member_of()
                if text := member.decompress(data):
                    yield text
                data = b""
                if member.eof:
                    data, member = member.unused_data, None
    except _ERRORS as error:
        raise Damage(f"not {what}: {error}") from None
    if member is not None:
        raise Damage(f"the {what} stream ends early")


def _utf8(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Remove a byte order mark, and convert UTF-16 to UTF-8."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 4:
            break
    for magic, what in _NO_TEXT.items():
        if head.startswith(magic) or (head[_TAR_AT:].startswith(_TAR) and (what := "a tar archive")):
            raise DataError(
                f"{name} is {what}, not lines of text",
                field="file",
                value=name,
                allowed="text in UTF-8 or UTF-16, plain or packed by gzip, zstd, bzip2 or xz",
                fix=f"write it as text in Python: polars.read_parquet({name!r}).write_ndjson('papers.jsonl'); openalex "
                "and sciscinet read *.parquet"
                if what == "parquet"
                else None,
            )
    encoding = _encoding(head)
    if encoding is None:
        if rest := head.removeprefix(_BOM):
            yield rest
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in _chain(head, chunks):
            if text := decoder.decode(chunk):
                yield text.encode()
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise Damage(f"not {encoding}: {str(error)[:80]}") from None


def _encoding(head: bytes) -> str | None:
    """Return the encoding of a text that is not UTF-8: by its mark, or by the zeros beside ASCII letters."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = [not byte for byte in head[:4]]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False, True, False] else None


def _chain(head: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest
