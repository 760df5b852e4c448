"""What is done where a folder holds a run: one that said it was interrupted goes on, any other is left alone."""

import json
from pathlib import Path

import pytest

from tinsmith.lab.runs.files import CONFIG, MANIFEST, IfExists, Status, require_room, settle
from tinsmith.types.errors import ConfigError


def a_run(folder: Path, manifest: str) -> Path:
    folder.mkdir()
    (folder / CONFIG).write_text("{}")
    (folder / MANIFEST).write_text(manifest)
    return folder


@pytest.mark.parametrize(
    ("status", "goes_on"),
    [(Status.INTERRUPTED, True), (Status.LOST, True), (Status.RUNNING, False), (Status.FINISHED, False)],
)
def test_a_run_that_stopped_and_said_so_goes_on_with_the_same_command(
    tmp_path: Path, status: Status, goes_on: bool
) -> None:
    folder = a_run(tmp_path / "run", json.dumps({"status": status.value}))
    settled = settle(folder, IfExists.RESUME_INTERRUPTED)
    assert settled is (IfExists.RESUME if goes_on else IfExists.RAISE)
    if not goes_on:
        with pytest.raises(ConfigError) as caught:
            require_room(folder, settled)
        assert caught.value.field == "log_path"


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}"])
def test_a_damaged_manifest_says_nothing_and_the_run_is_left_alone(tmp_path: Path, manifest: str) -> None:
    folder = a_run(tmp_path / "run", manifest)
    assert settle(folder, IfExists.RESUME_INTERRUPTED) is IfExists.RAISE


def test_there_is_room_in_a_new_or_empty_folder_and_in_none_that_holds_something(tmp_path: Path) -> None:
    require_room(tmp_path / "new", IfExists.RAISE)
    require_room(tmp_path, IfExists.RAISE)
    (tmp_path / "thesis.tex").touch()
    for taken in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(ConfigError) as caught:
            require_room(taken, IfExists.DELETE)
        assert caught.value.field == "log_path"
