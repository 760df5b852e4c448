"""A slice that was touched is refused, by name and with what to do."""

import json
from pathlib import Path

import polars as pl
import pytest
from labelled import labelled_corpus

from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.types.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=None)
    make_slice(labelled_corpus(tmp_path / "corpus", 120), settings, tmp_path / "slice")
    return tmp_path / "slice"


def _refused(folder: Path, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        Slice.open(folder)
    assert "tinsmith data slice" in str(caught.value)


def test_a_changed_row_is_refused(folder: Path) -> None:
    file = folder / "test.jsonl"
    file.write_bytes(file.read_bytes().replace(b"things", b"thongs", 1))
    _refused(folder, "test.jsonl is not the file")


def test_a_missing_split_is_refused(folder: Path) -> None:
    (folder / "validation.jsonl").unlink()
    _refused(folder, "validation.jsonl is missing")


def test_a_changed_card_is_refused(folder: Path) -> None:
    file = folder / "slice.json"
    file.write_text(file.read_text().replace('"cut": 0.001', '"cut": 0.002'))
    _refused(folder, "changed after it was written")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"settings": {"task": "x"}}', b"\xff"])
def test_a_damaged_card_is_refused(folder: Path, content: bytes) -> None:
    (folder / "slice.json").write_bytes(content)
    _refused(folder, "slice.json is damaged")


def test_a_card_with_impossible_settings_is_refused(folder: Path) -> None:
    card = json.loads((folder / "slice.json").read_text())
    card["settings"]["thresholds"]["cut"] = -1.0
    (folder / "slice.json").write_text(json.dumps(card))
    _refused(folder, "slice.json is damaged")


def test_another_format_is_refused(folder: Path) -> None:
    card = json.loads((folder / "slice.json").read_text())
    card["format_version"] = 99
    (folder / "slice.json").write_text(json.dumps(card))
    _refused(folder, "another format")


def test_a_folder_without_a_slice_is_refused(tmp_path: Path) -> None:
    _refused(tmp_path, "is not a slice")
    _refused(tmp_path / "nowhere", "is not a slice")


def test_metrics_of_other_rows_are_refused(folder: Path) -> None:
    source = Slice.open(folder)
    with pytest.raises(DataError, match="field: column = 'nope'"):
        source.metrics("nope")
    frame = pl.read_parquet(folder / "metrics.parquet")
    frame.with_columns(pl.lit("train").alias("split")).write_parquet(folder / "metrics.parquet")
    with pytest.raises(DataError, match="field: train"):
        source.metrics()
    (folder / "metrics.parquet").unlink()
    with pytest.raises(DataError, match=r"metrics\.parquet"):
        source.metrics()


def test_rows_can_be_read_twice(folder: Path) -> None:
    source = Slice.open(folder)
    assert list(source.rows(Split.TRAIN)) == list(source.rows(Split.TRAIN))
