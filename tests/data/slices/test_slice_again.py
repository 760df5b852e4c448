"""A slice that is cut again: what stays, and what a failure leaves."""

import errno
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from building import files_of
from labelled import labelled_corpus

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices import cutting
from tinsmith.data.slices.card import BASELINES, PAGE, SLICE, write_slice_card
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.types.errors import ConfigError, DiskFullError

THRESHOLDS = Thresholds(cut=0.001)
NATURAL = SliceSettings(task=Task.DISRUPTION, thresholds=THRESHOLDS, per_class=None)
BALANCED = replace(NATURAL, per_class=100)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 1000)


def test_an_equal_slice_keeps_its_baselines_and_page(corpus: Corpus, tmp_path: Path) -> None:
    card = make_slice(corpus, NATURAL, tmp_path)
    beside = (BASELINES, BASELINE_ANSWERS, PAGE)
    for name in beside:
        (tmp_path / name).write_text(name)
    (tmp_path / "test.jsonl").write_text("damaged")
    assert make_slice(corpus, NATURAL, tmp_path) == card == Slice.open(tmp_path).card
    assert [(tmp_path / name).read_text() for name in beside] == list(beside)
    make_slice(corpus, BALANCED, tmp_path, force=True)
    assert not any((tmp_path / name).exists() for name in beside)


def test_labels_of_open_windows_are_noted_and_no_part_of_the_hash(corpus: Corpus, tmp_path: Path) -> None:
    card = make_slice(corpus, NATURAL, tmp_path / "all")
    metrics = corpus.metrics("id", "full_window")
    rows = Slice.open(tmp_path / "all").metrics("id", "disruption_label").join(metrics, on="id")
    is_open = (~rows["full_window"]).sum()
    assert 0 < is_open == card.open_windows
    assert any(note.startswith(f"{is_open:,} of {card.rows:,} rows") for note in card.notes)
    bare = msgspec.structs.replace(card, open_windows=msgspec.UNSET)
    assert bare.sealed().sha256 == card.sha256
    write_slice_card(bare, tmp_path / "all" / SLICE)  # as an earlier version wrote it
    assert make_slice(corpus, NATURAL, tmp_path / "all") == card
    closed = make_slice(corpus, replace(NATURAL, full_window=True), tmp_path / "closed")
    assert closed.open_windows is msgspec.UNSET
    assert closed.notes == closed.copy_notes


def test_a_failure_leaves_the_old_slice_whole(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_slice(corpus, NATURAL, tmp_path)
    (tmp_path / BASELINES).write_text("{}")
    before = files_of(tmp_path)

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cutting, "write_rows", full)
    for settings in (NATURAL, BALANCED):
        with pytest.raises(DiskFullError):
            make_slice(corpus, settings, tmp_path, force=True)
        assert files_of(tmp_path) == before


def test_a_slice_that_other_rules_cut_is_replaced_only_where_that_is_said(corpus: Corpus, tmp_path: Path) -> None:
    card = make_slice(corpus, NATURAL, tmp_path)
    write_slice_card(msgspec.structs.replace(card, moved=7).sealed(), tmp_path / SLICE)
    before = files_of(tmp_path)
    with pytest.raises(ConfigError, match="field: out"):
        make_slice(corpus, NATURAL, tmp_path)
    assert files_of(tmp_path) == before
    assert make_slice(corpus, NATURAL, tmp_path, force=True) == card
