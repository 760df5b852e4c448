"""Archives of strangers: what would leave the folder, or fill the disk, is refused before anything is unpacked."""

import bz2
import hashlib
import json
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tinsmith.lab.bundle import archive
from tinsmith.lab.bundle.archive import CRATE, folders_of, unlike_crate, unpack, write_archive
from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.types.errors import DataError


def _named(*names: str) -> Callable[[zipfile.ZipFile], None]:
    def make(file: zipfile.ZipFile) -> None:
        for name in names:
            file.writestr(zipfile.ZipInfo(name), "text")

    return make


def _link(file: zipfile.ZipFile) -> None:
    entry = zipfile.ZipInfo("link")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    file.writestr(entry, "/etc/passwd")


def _bomb(file: zipfile.ZipFile) -> None:
    file.writestr("zeros", bytes(80 << 20), zipfile.ZIP_DEFLATED)


def _other_method(file: zipfile.ZipFile) -> None:
    file.writestr("a", "text")
    file.filelist[0].compress_type = 97


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (_named("a", "../b"), "does not lie in its folder"),
        (_named("/b"), "does not lie in its folder"),
        (_named("a//b"), "does not lie in its folder"),
        (_named("./b"), "does not lie in its folder"),
        (_named("a\\b"), "does not lie in its folder"),
        (_named("C:b"), "does not lie in its folder"),
        (_named("a\x07"), "does not lie in its folder"),
        (_named("\U0001f600" * 100), "does not lie in its folder"),
        (_named("/".join(["a" * 150] * 7)), "does not lie in its folder"),
        (_named("a", "a"), "is there twice"),
        (_named("a", "A"), "is there twice"),
        (_named("a", "a/b"), "a file and a folder"),
        (_named("a/"), "is no plain file"),
        (_link, "is no plain file"),
        (_bomb, "unpacks to"),
        (_other_method, "compressed in a way"),
        (_named("config.json"), "not a file that `tinsmith pack` wrote"),
    ],
)
def test_what_is_no_plain_file_in_its_folder_is_refused_and_leaves_nothing(
    tmp_path: Path, make: Callable[[zipfile.ZipFile], None], found: str
) -> None:
    with zipfile.ZipFile(tmp_path / "file.zip", "w") as file:
        make(file)
    with pytest.raises(DataError, match=found):
        unpack(tmp_path / "file.zip", tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["file.zip"]


def test_more_files_than_there_may_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_FILES", 2)
    write_archive({"a": b"", "b": b"", CRATE: b""}, tmp_path / "file.zip")
    with pytest.raises(DataError, match="3 files"):
        unpack(tmp_path / "file.zip", tmp_path / "out")


@pytest.mark.parametrize("cut", [0, 45, 100, 150])
def test_a_damaged_archive_is_refused_and_leaves_nothing(tmp_path: Path, cut: int) -> None:
    write_archive({"a": bytes(range(256)) * 4, CRATE: b"text"}, tmp_path / "file.zip")
    content = bytearray((tmp_path / "file.zip").read_bytes())
    content[cut] ^= 0xFF
    (tmp_path / "file.zip").write_bytes(content if cut else content[:200])
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "file.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_equal_files_give_equal_bytes_in_any_order_and_from_memory_or_disk(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"text" * 99)
    write_archive({"x/b.txt": tmp_path / "b", "a.png": b"1", CRATE: b""}, tmp_path / "one.zip")
    write_archive({CRATE: b"", "a.png": b"1", "x/b.txt": b"text" * 99}, tmp_path / "two.zip")
    unpack(tmp_path / "one.zip", tmp_path / "out")
    assert (tmp_path / "out/x/b.txt").read_bytes() == b"text" * 99
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_weights_and_text_are_small_and_are_read_by_zipfile_alone(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=100_000).astype("<f4").tobytes()
    text = "".join(f"{value!r}, " for value in np.random.default_rng(1).normal(size=10_000).tolist()).encode()
    answers = {f"study/run/{ROLLOUTS}": text * 9}
    write_archive({"a.safetensors": weights, "b.jsonl": text, **answers, CRATE: b""}, tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as file:
        assert file.testzip() is None
        assert (file.read("a.safetensors"), file.read("b.jsonl")) == (weights, text)
        packed = {each.filename: each.compress_size for each in file.infolist()}
    assert packed["a.safetensors"] < 0.85 * len(weights)
    assert packed[f"study/run/{ROLLOUTS}"] < 0.92 * len(bz2.compress(text * 9))
    assert packed["b.jsonl"] < 0.92 * len(zlib.compress(text))


def test_an_archive_is_a_folder_as_long_as_it_is_read(tmp_path: Path) -> None:
    write_archive({"config.json": b"{}", CRATE: b""}, tmp_path / "run.zip")
    with folders_of([tmp_path, tmp_path / "run.zip"]) as (one, two):
        assert one == tmp_path
        assert two.name == "run"
        assert (two / "config.json").read_bytes() == b"{}"
    assert not two.exists()


def _entry(name: bytes, data: bytes, size: int, crc: int, flags: int = 0) -> tuple[bytes, bytes]:
    """An entry of bzip2 as it stands in an archive, and its beginning in the table of contents."""
    facts = (zipfile.ZIP_BZIP2, 0, 33, crc, len(data), size, len(name), 0)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 46, flags, *facts) + name + data
    return local, struct.pack("<IHHHHHHIIIHH", 0x02014B50, 0x32E, 46, flags, *facts)


def _archive(*entries: tuple[bytes, bytes, int, int, int], offset: int = 0) -> bytes:
    content, table = b"", b""
    for name, data, size, crc, flags in entries:
        local, listed = _entry(name, data, size, crc, flags)
        table += listed + struct.pack("<HHHII", 0, 0, 0, 0o100644 << 16, len(content) + offset) + name
        content += local
    ends = (0, 0, len(entries), len(entries), len(table), len(content), 0)
    return content + table + struct.pack("<IHHHHIIH", 0x06054B50, *ends)


CRATE_ENTRY = (CRATE.encode(), bz2.compress(b"{}"), 2, zlib.crc32(b"{}"), 0)


def test_an_entry_that_expands_to_more_than_it_says_takes_little_memory(tmp_path: Path) -> None:
    zeros = bz2.BZ2Compressor()
    data = b"".join(zeros.compress(bytes(1 << 24)) for _ in range(32)) + zeros.flush()
    (tmp_path / "bomb.zip").write_bytes(_archive((b"a", data, 10, zlib.crc32(bytes(10)), 0), CRATE_ENTRY))
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom tinsmith.lab.bundle.archive import unpack\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "unpack(Path('bomb.zip'), Path('out'))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 150 << 10
    assert (tmp_path / "out" / "a").read_bytes() == bytes(10)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (_archive((b"", bz2.compress(b""), 0, 0, 0), CRATE_ENTRY), "does not lie in its folder"),
        (_archive((b"\xff\xfe", bz2.compress(b""), 0, 0, 0x800), CRATE_ENTRY), "cannot be unpacked"),
        (_archive(CRATE_ENTRY, offset=-60 % 2**32), "cannot be unpacked"),
    ],
    ids=["no name", "a name that is no text", "an offset beyond"],
)
def test_a_damaged_table_of_contents_is_refused(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "run.zip").write_bytes(content)
    with pytest.raises(DataError, match=found):
        unpack(tmp_path / "run.zip", tmp_path / "out")


def test_files_are_held_against_the_metadata_and_those_that_it_does_not_list_are_named(tmp_path: Path) -> None:
    listed = [{"name": name, "sha256": hashlib.sha256(b"text").hexdigest()} for name in ("a", "b/c", "d")]
    (tmp_path / CRATE).write_text(json.dumps({"@graph": [{"@id": "./", "name": "all", "author": []}, *listed]}))
    for name, text in (("a", "text"), ("b/c", "other"), ("e", "text")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [fault.partition(" ")[0] for fault in unlike_crate(tmp_path)] == ["b/c", "d", "e"]
    (tmp_path / CRATE).write_text("[]")
    (fault,) = unlike_crate(tmp_path)
    assert fault.startswith(f"{CRATE} is damaged")
