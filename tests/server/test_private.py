"""Modes of what a server writes: its user's alone, whatever the umask, and made so again where it was wider."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from running import Running
from tinsmith.server.database.private import FILE, LOCK
from tinsmith.server.database.store import Store
from tinsmith.server.state_lock import lock_state


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Permission bits of a folder and of what is in it, by name."""
    found = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in found}


@pytest.mark.usefixtures("open_umask")
def test_a_new_state_is_its_users_alone(tmp_path: Path) -> None:
    with lock_state(tmp_path / "state"), Store(tmp_path / "state") as store:
        store.create_session()
        beside = dict.fromkeys((LOCK, FILE, f"{FILE}-wal", f"{FILE}-shm"), 0o600)
        assert modes(tmp_path / "state") == {".": 0o700, **beside}


@pytest.mark.usefixtures("open_umask")
def test_a_wider_state_is_tightened_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = tmp_path / "state"
    with Store(state) as store:
        store.create_session()
    state.chmod(0o755)
    (state / FILE).chmod(0o644)
    with lock_state(state), Store(state) as store:
        store.create_session()
        found = modes(state)
    assert (found["."], found[FILE], found[f"{FILE}-wal"]) == (0o700, 0o600, 0o600)
    assert [
        str(path) in record.getMessage() for path, record in zip((state, state / FILE), caplog.records, strict=True)
    ]


def test_a_folder_with_other_things_in_it_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "letter").touch()
    with lock_state(tmp_path):
        pass
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o600
    assert str(tmp_path) in caplog.text


@pytest.mark.whole
@pytest.mark.usefixtures("open_umask")
def test_nothing_that_a_server_writes_can_be_read_by_others(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    model = server.model()
    for seq, path in enumerate(("save_weights", "save_weights_for_sampler", "save_weights_external"), start=1):
        asked = server.ok(path, {"model_id": model, "seq_id": seq, "path": "a"})
        assert "error" not in server.future(asked["request_id"]).json()
    server.stop()
    found = modes(tmp_path / "state")
    assert len(found) > 8
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
