"""Zip files with equal bytes for equal contents; a foreign archive is checked before it is unpacked."""

from __future__ import annotations

import errno
import io
import lzma
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, cast

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import unlike_listed
from tinsmith.types.json_text import UNREADABLE

CRATE: Final = "ro-crate-metadata.json"
"""Metadata of a bundle; it distinguishes a received run from one of this machine."""

Content = bytes | Path
"""Content of an archive's file, or the path of a file with the content."""

_TIME: Final = (1980, 1, 1, 0, 0, 0)
_FLOATS: Final = ".safetensors"
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_LZMA, _STORED = zipfile.ZIP_LZMA, zipfile.ZIP_STORED
_METHODS: Final = {".parquet": _STORED, ".png": _STORED, _FLOATS: _LZMA, ROLLOUTS: _LZMA}
"""By ending, or by name: answers repeat themselves far apart. Of other text, mostly digits, bzip2 makes the least."""
_ALLOWED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_UNREADABLE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, MemoryError),
    UnicodeDecodeError,
)
_NOT_THE_DISK: Final = (None, errno.EEXIST, errno.EINVAL)
"""Numbers of an OSError that an archive causes: bzip2's own, a name that is there, an offset that no file has."""

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 64 << 30
MOST_TIMES: Final = 200
"""Most unpacked bytes, as a multiple of the archive's; tables of repeated lines reach 50."""
_FREE: Final = 64 << 20
"""Bytes that any archive may unpack to."""
_PART: Final = re.compile(r"[^\x00-\x1f\x7f\\/:*?\"<>|]{1,200}")
_CHUNK: Final = 1 << 20
_AT_ONCE: Final = {zipfile.ZIP_BZIP2: 64, zipfile.ZIP_LZMA: 1 << 12}
"""Compressed bytes that are decoded at once: one of bzip2 may stand for a megabyte, one of LZMA for seven kilobytes."""


def write_archive(files: Mapping[str, Content], out: Path) -> None:
    """Write files by their names in the archive; equal files give equal bytes."""
    with replacing(out) as part, zipfile.ZipFile(part, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, _MODE
            path = PurePosixPath(name)
            entry.compress_type = _METHODS.get(path.name, _METHODS.get(path.suffix, zipfile.ZIP_BZIP2))
            content = files[name]
            entry.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
            with source, archive.open(entry, "w") as target:
                if path.suffix == _FLOATS:
                    cast(Any, target)._compressor = _OfFloats()  # zipfile lets nobody choose LZMA's properties
                shutil.copyfileobj(source, target, _CHUNK)


class _OfFloats:
    """LZMA compression of fp32 values, grouped by byte position: a tenth smaller than deflate.

    Long matches are not looked for: the bytes of a value are predicted from each other, and weights do not repeat.
    """

    _LC, _LP, _PB, _WINDOW = 2, 2, 2, 4096

    def __init__(self) -> None:
        near = {"dict_size": self._WINDOW, "mf": lzma.MF_HC4, "mode": lzma.MODE_NORMAL, "nice_len": 8, "depth": 1}
        how = {"id": lzma.FILTER_LZMA1, "preset": 0, "lc": self._LC, "lp": self._LP, "pb": self._PB, **near}
        self._coder = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[how])
        properties = struct.pack("<BI", (self._PB * 5 + self._LP) * 9 + self._LC, self._WINDOW)
        # APPNOTE 5.8.8: the SDK's version, which nobody reads, and LZMA's properties with their length.
        self._header = struct.pack("<BBH", 9, 4, len(properties)) + properties

    def compress(self, data: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + self._coder.compress(data)

    def flush(self) -> bytes:
        return self.compress(b"") + self._coder.flush()


_EXPECTED: Final = "the folder of a run, or a FILE.zip that `tinsmith pack` wrote"


def unpack(file: Path, folder: Path) -> None:
    """Unpack an archive into a new or empty folder; a rejected archive leaves nothing there.

    Raises:
        DataError: it is no archive, damaged, larger than it may be, or holds what is no plain file in the folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError("this folder is not empty", field="DIR", value=str(folder), allowed="a new or an empty folder")
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            _require_sound(file, entries)
            if CRATE not in archive.namelist():
                what = f"{file} is not a file that `tinsmith pack` wrote"
                raise DataError(what, field=CRATE, value="missing", allowed=_EXPECTED)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                for entry in entries:
                    target = folder / entry.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(entry) as source, target.open("xb") as copy:
                        _decode_slowly(source, _AT_ONCE.get(entry.compress_type, _CHUNK))
                        shutil.copyfileobj(source, copy, _CHUNK)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except (*_UNREADABLE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NOT_THE_DISK:
            raise  # bzip2's own says nothing of a disk
        what, fix = (
            f"{file} cannot be unpacked: {error}",
            "fetch it again, and compare its SHA-256 with the published one",
        )
        raise DataError(what, field="FILE", value=str(file), allowed=_EXPECTED, fix=fix) from None


def _decode_slowly(source: IO[bytes], at_once: int) -> None:
    """Bound the bytes that are decoded at once: zipfile holds all that they stand for, whatever the entry's size."""
    stream = cast(Any, source)
    read: Callable[[int], bytes] = stream._read2

    def few(size: int) -> bytes:
        return read(min(size, at_once))

    stream.MIN_READ_SIZE, stream._read2 = at_once, few


def _require_sound(file: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Reject an archive by its table of contents, before any file is unpacked."""
    allowed = max(_FREE, min(MOST_BYTES, MOST_TIMES * file.stat().st_size))
    size = sum(entry.file_size for entry in entries)
    if len(entries) > MOST_FILES or size > allowed:
        raise DataError(
            f"{file} says that it unpacks to {len(entries):,} files and {size:,} bytes",
            field="FILE",
            value=str(file),
            allowed=f"at most {MOST_FILES:,} files and, of one of its size, {allowed:,} bytes",
        )
    names: set[str] = set()
    for entry in entries:
        fault = _fault(entry, names)
        if fault is not None:
            raise DataError(f"{file} is refused: one of its entries {fault}", field="entry", value=entry.orig_filename)
        names.add(entry.filename.casefold())
    for name in names:
        if inside := next((str(above) for above in PurePosixPath(name).parents if str(above) in names), None):
            raise DataError(
                f"{file} is refused: one of its entries is a file and a folder", field="entry", value=inside
            )


def _fault(entry: zipfile.ZipInfo, earlier: set[str]) -> str | None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    parts = entry.orig_filename.split("/")
    if entry.orig_filename.endswith("/") or kind not in (0, stat.S_IFREG):
        return "is no plain file"
    sizes = [len(part.encode(errors="replace")) for part in parts]
    if any(part in (".", "..") or not _PART.fullmatch(part) for part in parts) or max(sizes) > 255 or sum(sizes) > 1024:
        return "does not lie in its folder, or has a name that not every system takes"
    if entry.filename.casefold() in earlier:
        return "is there twice"
    if entry.flag_bits & 1 or entry.compress_type not in _ALLOWED:
        return "is encrypted, or compressed in a way that is not read here"
    return None


class _Crate(msgspec.Struct, frozen=True):
    parts: tuple[dict[str, object], ...] = msgspec.field(name="@graph")


def unlike_crate(folder: Path) -> list[str]:
    """Return the faults of an unpacked bundle's files beside its metadata."""
    try:
        parts = msgspec.json.decode((folder / CRATE).read_bytes(), type=_Crate).parts
    except UNREADABLE as error:
        return [f"{CRATE} is damaged: {error}"]
    listed = {str(part.get("name")): str(part["sha256"]) for part in parts if "sha256" in part}
    return unlike_listed(folder, listed, listing=CRATE)


@contextmanager
def folders_of(paths: Sequence[Path]) -> Generator[list[Path], None, None]:
    """Yield the named folders; an archive is unpacked into a temporary folder."""
    with ExitStack() as stack:
        yield [_folder(path, stack) if path.is_file() else path for path in paths]


def _folder(file: Path, stack: ExitStack) -> Path:
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="tinsmith-unpacked-"))) / file.stem
    unpack(file, folder)
    return folder
