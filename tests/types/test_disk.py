"""A full disk is told as one, whichever library meets it; here it is a largest size of the process's files."""

import errno
import resource
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from tinsmith.data.replacing import replacing
from tinsmith.lab.runs.files import METRICS, IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.models.staging import staged
from tinsmith.models.tensor_file import write_tensors
from tinsmith.server.database.private import FILE
from tinsmith.server.database.store import Store
from tinsmith.types.disk import disk_full, is_full, writing
from tinsmith.types.errors import DiskFullError

MOST = 100_000


@contextmanager
def full_disk() -> Generator[None, None, None]:
    """No file becomes larger than MOST bytes; Python ignores the signal that comes with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _sqlite(file: Path) -> None:
    connection = sqlite3.connect(file)
    try:
        connection.execute("CREATE TABLE a (b BLOB)")
        connection.execute("INSERT INTO a VALUES (zeroblob(1000000))")
        connection.commit()
    finally:
        connection.close()


WRITERS: dict[str, Callable[[Path], object]] = {
    "python": lambda file: file.write_bytes(bytes(2 * MOST)),
    "safetensors": lambda file: save_file({"a": torch.zeros(MOST)}, file),
    "sqlite": _sqlite,
    "polars": lambda file: pl.DataFrame({"a": np.random.default_rng(0).random(MOST)}).write_parquet(file),
    "polars, streaming": lambda file: pl.LazyFrame({"a": np.random.default_rng(0).random(MOST)}).sink_parquet(
        file, maintain_order=True
    ),
    "numpy": lambda file: np.zeros(MOST).tofile(file),
    "numpy, saved": lambda file: np.save(file, np.zeros(MOST)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_whichever_library_meets_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / "out.npy"
    with pytest.raises(DiskFullError) as caught, writing(file), full_disk():
        WRITERS[name](file)
    assert f"could not write {file}: no space left" in caught.value.what


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), writing(tmp_path):
        (tmp_path / "no" / "folder").write_bytes(b"")
    assert not is_full(PermissionError(errno.EACCES, "no"))
    assert not is_full(sqlite3.OperationalError("database is locked"))


def test_the_file_is_named_as_the_error_names_it() -> None:
    assert "could not write here/x:" in disk_full(OSError(errno.ENOSPC, "No space left on device", "here/x")).what
    assert "could not write a file:" in disk_full(OSError(errno.EDQUOT, "Disk quota exceeded")).what


def test_nothing_is_left_of_tensors_for_which_there_is_no_room(tmp_path: Path) -> None:
    with pytest.raises(DiskFullError, match="could not write"), full_disk():
        write_tensors(tmp_path / "weights", {"a": torch.zeros(MOST)})
    with pytest.raises(DiskFullError, match="could not write"), full_disk(), staged(tmp_path / "folder") as whole:
        write_tensors(whole / "weights", {"a": torch.zeros(MOST)})
    with pytest.raises(DiskFullError, match="could not write"), full_disk(), replacing(tmp_path / "table") as part:
        part.write_bytes(bytes(2 * MOST))
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_from_its_folder_once_there_is_room(tmp_path: Path) -> None:
    folder, _ = RunFolder.begin(tmp_path / "run", {"identity_sha256": "a"}, if_exists=IfExists.RAISE)
    folder.append(METRICS, [{"step": 0}])
    folder.mark(step=1, state_path="tinker://x/weights/1", kept={})
    with full_disk():
        with pytest.raises(DiskFullError, match=METRICS):
            folder.append(METRICS, [{"step": 1, "text": "x" * 2 * MOST}])
        with suppress(DiskFullError):  # what could not be written is tried again
            folder.close()
    again, mark = RunFolder.begin(tmp_path / "run", {"identity_sha256": "a"}, if_exists=IfExists.RESUME)
    assert (mark.step, again.read_lines(METRICS)) == (1, [{"step": 0}])
    again.append(METRICS, [{"step": 1}])
    again.close()
    assert again.read_lines(METRICS) == [{"step": 0}, {"step": 1}]


@pytest.mark.whole
def test_a_state_that_cannot_be_written_says_so_and_serves_again_once_there_is_room(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        session = store.create_session()
        request, _ = store.open_request(owner=session.session_id, seq_id=1, kind="sample")
        with pytest.raises(DiskFullError, match=FILE), full_disk():
            store.finish(request, body=bytes(4 * MOST), media_type="a/b")
        assert store.finish(request, body=b"small", media_type="a/b")
