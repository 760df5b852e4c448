"""Zip files with equal bytes for equal contents, written and read; a foreign one is bounded before it is believed."""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from tinsmith.data.replacing import replacing
from tinsmith.types.errors import DataError

CRATE: Final = "ro-crate-metadata.json"
"""The metadata of a bundle; it also tells somebody's run from one of one's own."""

Content = bytes | Path
"""The content of a file of an archive, or the place of it."""

_TIME: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_DENSE: Final = (".parquet", ".png")
"""Endings of files that are compressed already."""

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 64 << 30
MOST_TIMES: Final = 200
"""Bytes that an archive may unpack to, as a multiple of its own; tables of repeated lines come to 50."""
_FREE: Final = 64 << 20
"""Bytes that any archive may unpack to."""
_PART: Final = re.compile(r"[^\x00-\x1f\x7f\\/:*?\"<>|]{1,200}")
_CHUNK: Final = 1 << 20


def write_archive(files: Mapping[str, Content], out: Path) -> None:
    """Write files by their names in the archive, at deflate's usual level; equal files give equal bytes."""
    with replacing(out) as part, zipfile.ZipFile(part, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, _MODE
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(_DENSE) else zipfile.ZIP_DEFLATED
            content = files[name]
            if isinstance(content, bytes):
                archive.writestr(entry, content)
                continue
            entry.file_size = content.stat().st_size
            with content.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target, _CHUNK)


def unpack(file: Path, folder: Path) -> None:
    """Unpack an archive into a new or empty folder; nothing is left there of one that is refused.

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
                raise DataError(f"{file} is no file of `tinsmith pack`", field=CRATE, value="missing")
            folder.mkdir(parents=True, exist_ok=True)
            try:
                for entry in entries:
                    target = folder / entry.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(entry) as source, target.open("xb") as copy:
                        shutil.copyfileobj(source, copy, _CHUNK)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, FileExistsError) as error:
        raise DataError(f"{file} cannot be unpacked: {error}", field="FILE", value=str(file)) from None


def _require_sound(file: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse an archive by its table of contents, before anything of it is unpacked."""
    allowed = max(_FREE, min(MOST_BYTES, MOST_TIMES * file.stat().st_size))
    size = sum(entry.file_size for entry in entries)
    if len(entries) > MOST_FILES or size > allowed:
        raise DataError(
            f"{file} says that it unpacks to {len(entries):,} files and {size:,} bytes",
            field="FILE",
            value=str(file),
            allowed=f"at most {MOST_FILES:,} files and, of one of its size, {allowed:,} bytes",
        )
    seen: set[str] = set()
    for entry in entries:
        fault = _fault(entry, seen)
        if fault is not None:
            raise DataError(f"{file} is refused: one of its entries {fault}", field="entry", value=entry.orig_filename)
        seen.add(entry.filename.casefold())
    for name in seen:
        if inside := next((str(above) for above in PurePosixPath(name).parents if str(above) in seen), None):
            raise DataError(
                f"{file} is refused: one of its entries is a file and a folder", field="entry", value=inside
            )


def _fault(entry: zipfile.ZipInfo, seen: set[str]) -> str | None:
    """Say what is wrong with an entry; None: nothing."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    parts = entry.orig_filename.split("/")
    if entry.is_dir() or kind not in (0, stat.S_IFREG):
        return "is no plain file"
    if any(part in (".", "..") or not _PART.fullmatch(part) for part in parts):
        return "does not lie in its folder, or has a name that not every system takes"
    if entry.filename.casefold() in seen:
        return "is there twice"
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is encrypted, or compressed in another way than deflate"
    return None


@contextmanager
def folders_of(paths: Sequence[Path]) -> Generator[list[Path], None, None]:
    """Give the folders that are named; of an archive one that it is unpacked into, and that goes in the end."""
    with ExitStack() as stack:
        yield [_folder(path, stack) if path.is_file() else path for path in paths]


def _folder(file: Path, stack: ExitStack) -> Path:
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="tinsmith-unpacked-"))) / file.stem
    unpack(file, folder)
    return folder
