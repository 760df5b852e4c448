import stat
from pathlib import Path

import pytest
import torch

from tinsmith.models.staging import is_taken, names_in, present, remove, staged
from tinsmith.models.tensor_file import write_tensors
from tinsmith.types.errors import ConfigError


def _write(path: Path, text: str, *, overwrite: bool = False) -> None:
    with staged(path, overwrite=overwrite) as whole:
        (whole / "file").write_text(text)


def _fail_half_way(path: Path, *, overwrite: bool = False) -> None:
    with staged(path, overwrite=overwrite) as whole:
        (whole / "file").write_text("half")
        raise RuntimeError


def _everything(folder: Path) -> list[str]:
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*"))


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "b", "text")
    assert _everything(tmp_path) == ["a", "a/b", "a/b/file"]


def test_a_body_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail_half_way(tmp_path / "a")
    assert _everything(tmp_path) == []


def test_a_body_that_fails_keeps_what_was_there(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    with pytest.raises(RuntimeError):
        _fail_half_way(tmp_path / "a", overwrite=True)
    assert _everything(tmp_path) == ["a", "a/file"]
    assert (tmp_path / "a" / "file").read_text() == "old"


def test_a_taken_place_is_refused_unless_overwritten(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    with pytest.raises(ConfigError, match=r"field: path = '.*/a'"):
        _write(tmp_path / "a", "new")
    assert (tmp_path / "a" / "file").read_text() == "old"
    _write(tmp_path / "a", "new", overwrite=True)
    assert (tmp_path / "a" / "file").read_text() == "new"
    assert _everything(tmp_path) == ["a", "a/file"]


def test_an_empty_folder_is_not_taken_and_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert not is_taken(tmp_path / "empty")
    assert not is_taken(tmp_path / "absent")
    assert is_taken(tmp_path / "file")
    _write(tmp_path / "empty", "text")
    assert (tmp_path / "empty" / "file").read_text() == "text"


def test_what_a_cut_short_replacement_moved_aside_is_still_found(tmp_path: Path) -> None:
    place = tmp_path / "a"
    _write(place, "old")
    place.replace(tmp_path / ".a.old")  # the first of the two renames
    assert (present(place) / "file").read_text() == "old"
    assert names_in(tmp_path) == ["a"]
    with pytest.raises(ConfigError):
        _write(place, "new")
    _write(place, "new", overwrite=True)
    assert (place / "file").read_text() == "new"
    assert _everything(tmp_path) == ["a", "a/file"]


def test_what_was_replaced_and_not_yet_deleted_is_not_found(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    (tmp_path / "a").replace(tmp_path / ".a.old")
    _write(tmp_path / "b", "new")
    (tmp_path / "b").replace(tmp_path / "a")  # the second rename; the old folder is still there
    assert (present(tmp_path / "a") / "file").read_text() == "new"
    assert names_in(tmp_path) == ["a"]
    _write(tmp_path / "a", "newer", overwrite=True)
    assert _everything(tmp_path) == ["a", "a/file"]


def test_a_killed_writers_leavings_are_removed_by_the_next_of_that_name(tmp_path: Path) -> None:
    for leaving in (".a.writing-abcd_123", ".a.b.writing-abcd_123", ".a.writing-abcd.old"):
        (tmp_path / leaving).mkdir()
    _write(tmp_path / "a", "text")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".a.b.writing-abcd_123", ".a.writing-abcd.old", "a"]


def test_remove_takes_both_a_folder_and_what_was_moved_aside(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    (tmp_path / ".a.old").mkdir()
    remove(tmp_path / "a")
    assert _everything(tmp_path) == []


def test_tensors_are_readable_by_all_and_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3.0), "a": torch.ones(2, 2)}
    write_tensors(tmp_path / "one", tensors)
    write_tensors(tmp_path / "two", dict(reversed(tensors.items())))
    (tmp_path / "plain").touch()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", "plain")}
    assert len(modes) == 1
