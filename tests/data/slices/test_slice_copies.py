"""Papers with the title and abstract of another: no text is in two splits."""

from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from labelled import labelled_corpus, labelled_frames, write_corpus

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split, SplitScheme, id_hashes, native_codes

THRESHOLDS = Thresholds(cut=0.001)
NATURAL = SliceSettings(task=Task.DISRUPTION, thresholds=THRESHOLDS, per_class=None)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 1000)


def _twins(papers: pl.DataFrame, metrics: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the papers twice: later copies under ids of their own, with the same texts in other letters."""
    copies = papers.with_columns(
        id="copy-" + pl.col("id"), title=pl.col("title").str.to_uppercase() + ".", abstract=" " + pl.col("abstract")
    )
    return pl.concat([papers, copies]), pl.concat([metrics, metrics.with_columns(id="copy-" + pl.col("id"))])


def _texts(source: Slice, split: Split) -> set[str]:
    return {row.title.lower().removesuffix(".") for row in source.rows(split)}


def test_no_text_is_in_two_splits(corpus: Corpus, tmp_path: Path) -> None:
    twins = write_corpus(tmp_path / "c", *_twins(*labelled_frames(1000)))
    card = make_slice(twins, NATURAL, tmp_path / "twins")
    source = Slice.open(tmp_path / "twins")
    train, validation, test = (_texts(source, split) for split in Split)
    assert not train & test
    assert not train & validation
    assert not validation & test
    alone = make_slice(corpus, NATURAL, tmp_path / "alone")
    assert card.rows == 2 * alone.rows
    assert [card.splits[split].rows for split in Split] == [2 * alone.splits[split].rows for split in Split]
    split_of = {row.openalex_id: split for split in Split for row in source.rows(split)}
    own = native_codes(id_hashes(list(split_of), 0)[0]).tolist()
    moved = sum(tuple(Split)[code] is not split for code, split in zip(own, split_of.values(), strict=True))
    assert card.moved == moved > 100
    assert (alone.moved, alone.shared, card.shared) == (msgspec.UNSET,) * 3
    assert any(f"{moved:,} papers" in note for note in card.copy_notes)


def test_a_copy_is_dealt_with_the_first_even_where_a_filter_removes_that_one(tmp_path: Path) -> None:
    papers, metrics = _twins(*labelled_frames(300))
    twins = write_corpus(tmp_path / "c", papers, metrics)
    make_slice(twins, NATURAL, tmp_path / "both")
    later = metrics.with_columns(
        references=pl.when(pl.col("id").str.starts_with("copy-")).then("references").otherwise(0)
    )
    filtered = write_corpus(tmp_path / "f", papers, later)
    make_slice(filtered, replace(NATURAL, min_references=1), tmp_path / "later")
    both = {row.openalex_id: split for split in Split for row in Slice.open(tmp_path / "both").rows(split)}
    for split in Split:
        assert all(both[row.openalex_id] is split for row in Slice.open(tmp_path / "later").rows(split))


def test_legacy_splits_count_texts_of_training_in_the_others(tmp_path: Path) -> None:
    twins = write_corpus(tmp_path / "c", *_twins(*labelled_frames(300)))
    card = make_slice(twins, replace(NATURAL, scheme=SplitScheme.LEGACY), tmp_path / "s")
    source = Slice.open(tmp_path / "s")
    train = _texts(source, Split.TRAIN)
    others = [
        row.title.lower().removesuffix(".") for split in (Split.VALIDATION, Split.TEST) for row in source.rows(split)
    ]
    assert card.shared == sum(text in train for text in others) > 10
    assert card.moved is msgspec.UNSET
