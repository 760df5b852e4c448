"""Slices: what is chosen, what is left out, and that the same corpus gives the same bytes."""

import datetime as dt
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import labelled_corpus, labelled_frames, write_corpus

from tinsmith.data.corpus import Corpus
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import Disruption, LabelMode, Novelty, Thresholds
from tinsmith.data.schema import CARD, METRICS_CARD
from tinsmith.data.slices import writer as slice_writer
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.settings import Caps, SliceSettings, Task, parse_day
from tinsmith.data.slices.splits import (
    Split,
    SplitScheme,
    id_hashes,
    ids_sha256,
    legacy_counts,
    legacy_sha256,
    legacy_splits,
    native_codes,
)
from tinsmith.types.errors import ConfigError, DataError

FIELDS = [
    *("openalex_id", "title", "abstract", "publication_year", "cited_by_count", "cd_index"),
    *("novelty_score", "conventionality_score", "disruption_label", "novelty_label"),
    *("primary_field", "concepts"),
]
THRESHOLDS = Thresholds(cut=0.001)
NATURAL = SliceSettings(task=Task.DISRUPTION, thresholds=THRESHOLDS, per_class=None)
BALANCED = replace(NATURAL, per_class=100)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 1000)


def _all(source: Slice) -> list[PaperRow]:
    return [row for split in Split for row in source.rows(split)]


def _labels(source: Slice) -> Counter[str | None]:
    return Counter(row.disruption_label for row in _all(source))


def test_rows_have_the_twelve_fields_and_unrounded_numbers(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, NATURAL, tmp_path)
    facts = dict(corpus.metrics("id", "cd").iter_rows())
    texts = dict(corpus.papers("id", "abstract").iter_rows())
    for split in Split:
        for line in (tmp_path / f"{split}.jsonl").read_text().splitlines():
            row = json.loads(line)
            assert list(row) == FIELDS
            assert row["cd_index"] == facts[row["openalex_id"]]
            assert row["abstract"] == texts[row["openalex_id"]]


def test_a_balanced_slice_has_n_of_each_class_and_no_repeats(corpus: Corpus, tmp_path: Path) -> None:
    card = make_slice(corpus, BALANCED, tmp_path)
    source = Slice.open(tmp_path)
    assert _labels(source) == {label: 100 for label in Disruption}
    ids = [row.openalex_id for row in _all(source)]
    assert len(set(ids)) == len(ids) == card.rows == 300
    assert [card.splits[split].rows / 300 for split in Split] == pytest.approx([0.8, 0.1, 0.1], abs=0.07)


def test_a_rerun_writes_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    make_slice(corpus, BALANCED, one)
    make_slice(corpus, NATURAL, two)
    make_slice(corpus, BALANCED, two, force=True)
    names = sorted(path.name for path in one.iterdir())
    assert names == ["metrics.parquet", "slice.json", "test.jsonl", "train.jsonl", "validation.jsonl"]
    assert names == sorted(path.name for path in two.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_another_slice_is_replaced_only_where_that_is_said(corpus: Corpus, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    first = make_slice(corpus, NATURAL, out)
    other = replace(NATURAL, seed=NATURAL.seed + 1)
    with pytest.raises(ConfigError, match=r"field: out = '.*/out'"):
        make_slice(corpus, other, out)
    shutil.copytree(corpus.folder, elsewhere)
    for name in (CARD, METRICS_CARD):
        lines = (elsewhere / name).read_text().replace(corpus.card.fingerprint, "ef" * 32)
        (elsewhere / name).write_text(lines)
    with pytest.raises(ConfigError, match=r"field: out = '.*/out'"):
        make_slice(Corpus.open(elsewhere), NATURAL, out)
    assert Slice.open(out).card == first
    assert make_slice(corpus, other, out, force=True) != first
    (out / "slice.json").write_text("{")
    assert make_slice(corpus, NATURAL, out) == first


def test_adding_papers_never_moves_one_between_splits(corpus: Corpus, tmp_path: Path) -> None:
    old_papers, old_metrics = labelled_frames(1000)
    new_papers, new_metrics = labelled_frames(700, seed=1, prefix="N")
    papers = pl.concat([new_papers, old_papers])
    larger = write_corpus(tmp_path / "c", papers, pl.concat([new_metrics, old_metrics]))
    make_slice(corpus, NATURAL, tmp_path / "old")
    make_slice(larger, NATURAL, tmp_path / "new")
    old, new = (
        {row.openalex_id: split for split in Split for row in Slice.open(folder).rows(split)}
        for folder in (tmp_path / "old", tmp_path / "new")
    )
    assert len(new) > len(old)
    assert all(new[one] == split for one, split in old.items())


def test_the_order_of_papers_in_the_corpus_does_not_matter(corpus: Corpus, tmp_path: Path) -> None:
    papers, metrics = labelled_frames(1000)
    turned = write_corpus(tmp_path / "c", papers.reverse(), metrics.reverse())
    one = make_slice(corpus, BALANCED, tmp_path / "one")
    two = make_slice(turned, BALANCED, tmp_path / "two")
    assert one.sha256 == two.sha256


def test_another_seed_chooses_other_papers(corpus: Corpus, tmp_path: Path) -> None:
    one = make_slice(corpus, BALANCED, tmp_path / "one")
    two = make_slice(corpus, replace(BALANCED, seed=1), tmp_path / "two")
    assert one.splits[Split.TRAIN].ids_sha256 != two.splits[Split.TRAIN].ids_sha256


def test_caps_keep_classes_balanced_and_take_the_first_rows(corpus: Corpus, tmp_path: Path) -> None:
    caps = Caps(train=100, validation=20, test=10)
    make_slice(corpus, BALANCED, tmp_path / "all")
    card = make_slice(corpus, replace(BALANCED, caps=caps), tmp_path / "capped")
    assert {s: c.rows for s, c in card.splits.items()} == {"train": 99, "validation": 18, "test": 9}
    for one in card.splits.values():
        assert len(set(one.disruption.values())) == 1
    for split in Split:
        whole = [row.openalex_id for row in Slice.open(tmp_path / "all").rows(split)]
        capped = [row.openalex_id for row in Slice.open(tmp_path / "capped").rows(split)]
        assert capped == [one for one in whole if one in set(capped)]
    natural = make_slice(corpus, replace(NATURAL, caps=caps), tmp_path / "natural")
    assert [natural.splits[split].rows for split in Split] == [100, 20, 10]


def test_too_many_per_class_names_the_class_and_the_number(corpus: Corpus, tmp_path: Path) -> None:
    pool = make_slice(corpus, NATURAL, tmp_path / "n").pool
    scarce = min(pool, key=lambda name: pool[name])
    with pytest.raises(ConfigError) as caught:
        make_slice(corpus, replace(NATURAL, per_class=pool[scarce] + 1), tmp_path / "s")
    text = str(caught.value)
    assert f"{pool[scarce]:,} {scarce}" in text
    assert "--oversample" in text
    assert not (tmp_path / "s").exists()


def test_oversampling_repeats_training_papers_only_and_counts_them(corpus: Corpus, tmp_path: Path) -> None:
    pool = make_slice(corpus, NATURAL, tmp_path / "n").pool
    wanted = 3 * max(pool.values())
    card = make_slice(corpus, replace(NATURAL, per_class=wanted, oversample=True), tmp_path / "s")
    source = Slice.open(tmp_path / "s")
    assert _labels(source) == {label: wanted for label in Disruption}
    assert card.oversampled == {name: wanted - count for name, count in pool.items()}
    train, *others = ([row.openalex_id for row in source.rows(split)] for split in Split)
    for ids in others:
        assert len(ids) == len(set(ids))
        assert not set(ids) & set(train)
    first = train[: len(set(train))]
    assert len(set(first)) == len(first)  # every paper once before any again
    assert max(Counter(train).values()) - min(Counter(train).values()) <= 2


def test_legacy_splits_and_labels_are_the_seeds_own(corpus: Corpus, tmp_path: Path) -> None:
    legacy = replace(BALANCED, scheme=SplitScheme.LEGACY, thresholds=replace(THRESHOLDS, mode=LabelMode.LEGACY))
    card = make_slice(corpus, legacy, tmp_path)
    source = Slice.open(tmp_path)
    rows = {split: [row.openalex_id for row in source.rows(split)] for split in Split}
    ids = [one for split in Split for one in rows[split]]
    assert rows == legacy_splits(ids, 0)
    assert card.legacy_sha256 == legacy_sha256(rows)
    assert [card.splits[split].rows for split in Split] == [240, 30, 30]
    for row in _all(source):
        assert row.cd_index == round(row.cd_index or 0.0, 4)
        assert (row.disruption_label is Disruption.DISRUPTIVE) == (row.cd_index > 0.001)


def test_undefined_and_reference_free_papers_are_left_out(corpus: Corpus, tmp_path: Path) -> None:
    statuses = dict(corpus.metrics("id", "cd_status").iter_rows())
    default = make_slice(corpus, NATURAL, tmp_path / "d")
    kept = replace(NATURAL, thresholds=replace(THRESHOLDS, keep_no_refs=True))
    with_them = make_slice(corpus, kept, tmp_path / "k")
    seen = {statuses[row.openalex_id] for row in _all(Slice.open(tmp_path / "d"))}
    assert seen == {CdStatus.OK}
    seen = Counter(statuses[row.openalex_id] for row in _all(Slice.open(tmp_path / "k")))
    assert with_them.rows - default.rows == seen[CdStatus.NO_REFS] > 0
    assert CdStatus.EMPTY not in seen


def test_filters_hold_and_count(corpus: Corpus, tmp_path: Path) -> None:
    settings = replace(
        NATURAL,
        after=parse_day("1995-06", "after"),
        before=dt.date(2004, 3, 1),
        min_references=4,
        min_citers=2,
        full_window=True,
        status=CdStatus.OK,
    )
    card = make_slice(corpus, settings, tmp_path)
    table = corpus.metrics().join(corpus.papers("id", "year", "date"), on="id")
    facts = {row["id"]: row for row in table.iter_rows(named=True)}
    for row in _all(Slice.open(tmp_path)):
        fact = facts[row.openalex_id]
        first = fact["date"] or dt.date(fact["year"], 1, 1)
        last = fact["date"] or dt.date(fact["year"], 12, 31)
        assert first >= dt.date(1995, 6, 1)
        assert last < dt.date(2004, 3, 1)
        assert fact["references"] >= 4
        assert fact["citations"] >= 2
        assert fact["full_window"]
    assert list(card.removed) == [
        "without a title",
        "without an abstract",
        "not before 2004-03-01",
        "before 1995-06-01",
        "fewer than 4 references",
        "fewer than 2 citers",
        "window not in the corpus",
        "cd_status not ok",
        "without a disruption label",
    ]
    assert sum(card.removed.values()) + sum(card.pool.values()) == 1000 == card.corpus.papers


def test_papers_without_text_are_left_out_and_counted(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(60)
    blank = pl.int_range(pl.len())
    papers = papers.with_columns(
        title=pl.when(blank < 3).then(pl.lit(" ")).when(blank < 5).then(None).otherwise("title"),
        abstract=pl.when(blank > 57).then(None).otherwise("abstract"),
    )
    card = make_slice(write_corpus(tmp_path / "c", papers, metrics), NATURAL, tmp_path / "s")
    assert card.removed["without a title"] == 5
    assert card.removed["without an abstract"] == 2


def test_leaking_fields_can_be_left_out(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, replace(NATURAL, citations=False, year=False), tmp_path)
    for row in _all(Slice.open(tmp_path)):
        assert row.cited_by_count is None
        assert row.publication_year is None


def test_citations_come_from_the_corpus_where_the_source_has_none(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(60)
    corpus = write_corpus(tmp_path / "c", papers.drop("cited_by_count"), metrics)
    assert make_slice(corpus, NATURAL, tmp_path / "s").citations_from == "corpus"
    counted = dict(corpus.metrics("id", "citations").iter_rows())
    for row in _all(Slice.open(tmp_path / "s")):
        assert row.cited_by_count == counted[row.openalex_id]


def test_a_novelty_slice_is_balanced_over_its_own_classes(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, replace(BALANCED, task=Task.NOVELTY), tmp_path)
    labels = [row.novelty_label for row in _all(Slice.open(tmp_path))]
    assert Counter(labels) == {label: 100 for label in Novelty}


def test_a_joint_slice_is_balanced_over_the_pairs_of_labels(corpus: Corpus, tmp_path: Path) -> None:
    caps = Caps(train=100, test=9)
    card = make_slice(corpus, replace(BALANCED, task=Task.JOINT, per_class=20, caps=caps), tmp_path)
    source = Slice.open(tmp_path)
    pairs = Counter((row.disruption_label, row.novelty_label) for row in source.rows(Split.TRAIN))
    assert pairs == {(one, other): 11 for one in Disruption for other in Novelty}
    test = [(row.disruption_label, row.novelty_label) for row in source.rows(Split.TEST)]
    assert len(test) == len(set(test)) == 9
    assert list(card.pool)[:2] == ["disruptive+novel", "disruptive+balanced"]
    assert min(card.pool.values()) >= 20
    short = min(card.pool, key=lambda pair: card.pool[pair])
    with pytest.raises(ConfigError, match=re.escape(short)):
        make_slice(corpus, replace(BALANCED, task=Task.JOINT, per_class=900), tmp_path / "out")


def test_a_natural_joint_slice_has_every_paper_with_both_labels(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, replace(NATURAL, task=Task.JOINT), tmp_path / "joint")
    make_slice(corpus, NATURAL, tmp_path / "disruption")
    joint = _all(Slice.open(tmp_path / "joint"))
    both = [row for row in _all(Slice.open(tmp_path / "disruption")) if row.novelty_label]
    assert joint == both


def test_the_card_says_what_was_asked_and_what_came_out(corpus: Corpus, tmp_path: Path) -> None:
    card = make_slice(corpus, BALANCED, tmp_path)
    assert card == Slice.open(tmp_path).card
    assert card.settings == BALANCED
    assert "0.001" in card.disruption_rule
    assert card.corpus.fingerprint == corpus.card.fingerprint
    assert card.corpus.metrics == {"window_years": 5, "granularity": "year"}
    assert card.corpus.metrics_fingerprint == "cd" * 32
    written = json.loads((tmp_path / "slice.json").read_text())
    assert written["splits"]["train"]["disruption"] == card.splits[Split.TRAIN].disruption
    assert msgspec.to_builtins(card.settings) == written["settings"]


def test_the_sidecar_has_the_rows_metrics_split_and_cause(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, BALANCED, tmp_path)
    source = Slice.open(tmp_path)
    table = source.metrics("id", "split", "cause", "cd", "disruption_label")
    causes = dict(corpus.papers("id", "cause").iter_rows())
    expected = [
        (row.openalex_id, split, causes[row.openalex_id], row.cd_index, row.disruption_label)
        for split in Split
        for row in source.rows(split)
    ]
    assert table.rows() == expected


def test_a_corpus_without_metrics_says_what_to_run(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c", labelled_frames(20)[0], None)
    with pytest.raises(DataError, match="tinsmith data metrics"):
        make_slice(corpus, NATURAL, tmp_path / "s")


def test_metrics_in_another_order_are_refused(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(20)
    corpus = write_corpus(tmp_path / "c", papers, metrics.reverse())
    with pytest.raises(DataError, match="another order"):
        make_slice(corpus, NATURAL, tmp_path / "s")


def test_how_many_texts_are_read_at_once_does_not_matter(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_slice(corpus, BALANCED, tmp_path / "one")
    monkeypatch.setattr(slice_writer, "_BLOCK", 7)
    assert make_slice(corpus, BALANCED, tmp_path / "two") == one


def test_metrics_of_another_corpus_are_refused(tmp_path: Path) -> None:
    corpus = labelled_corpus(tmp_path / "c", 20)
    card = msgspec.structs.replace(corpus.card, fingerprint="ef" * 32)
    with pytest.raises(DataError, match="field: corpus = "):
        make_slice(replace(corpus, card=card), NATURAL, tmp_path / "s")
    (corpus.folder / "metrics.json").write_text("{")
    with pytest.raises(DataError, match="tinsmith data metrics"):
        make_slice(corpus, NATURAL, tmp_path / "s")


def test_a_slice_never_lands_in_a_corpus(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="field: out = "):
        make_slice(corpus, NATURAL, corpus.folder)


def test_no_paper_left_names_the_filter(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1,000 before 2050-01-01"):
        make_slice(corpus, replace(NATURAL, after=dt.date(2050, 1, 1)), tmp_path)


@pytest.mark.parametrize("text", ["1998-13", "98", "1998-5", "1998-02-30", "soon", "١٩٩٨", "0000"])
def test_a_bad_date_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="YYYY-MM"):
        parse_day(text, "before")


@pytest.mark.parametrize(
    ("text", "day"), [("1998", "1998-01-01"), ("1998-05", "1998-05-01"), ("1998-05-17", "1998-05-17")]
)
def test_a_date_names_its_first_day(text: str, day: str) -> None:
    assert parse_day(text, "before").isoformat() == day


@pytest.mark.parametrize(
    "wrong",
    [
        {"per_class": 0},
        {"min_references": -1},
        {"oversample": True},
        {"before": dt.date(2000, 1, 1), "after": dt.date(2000, 1, 1)},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(NATURAL, **wrong)
    with pytest.raises(ConfigError):
        Caps(test=0)


@pytest.mark.golden
def test_legacy_scheme_reproduces_the_recorded_split_of_36() -> None:
    splits = legacy_splits([f"SYNTHW{i:07d}" for i in range(1, 37)], 20260220)
    assert [len(splits[split]) for split in Split] == [29, 4, 3]
    assert legacy_sha256(splits) == ("9785f330efeb93af4f4370eb5d70bfdae9e1379b51cefee6502826b0ad962820")


@pytest.mark.golden
def test_legacy_scheme_reproduces_the_recorded_split_of_1000() -> None:
    splits = legacy_splits([f"W{i}" for i in reversed(range(1000))], 0)
    assert splits[Split.TEST][:3] == ["W567", "W905", "W393"]
    assert legacy_sha256(splits) == ("1dfd0d829a3989e080db80da1bce1faa6c03fb1448eb62d09f36170bafd04bd3")


@pytest.mark.parametrize(
    ("total", "counts"),
    [(1_972_797, (1_578_237, 197_280, 197_280)), (36, (29, 4, 3)), (10, (8, 1, 1)), (1, (1, 0, 0)), (0, (0, 0, 0))],
)
def test_largest_remainder(total: int, counts: tuple[int, ...]) -> None:
    assert legacy_counts(total) == counts


def test_500k_split_of_the_seeds() -> None:
    assert legacy_counts(393_456 + 49_182 + 49_182) == (393_456, 49_182, 49_182)


ids = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=40)


@given(ids, ids, st.integers(0, 3))
def test_adding_papers_never_moves_one(old: list[str], new: list[str], seed: int) -> None:
    alone = dict(zip(old, native_codes(id_hashes(old, seed)[0]).tolist(), strict=True))
    both = [*(one for one in new if one not in alone), *reversed(old)]
    together = dict(zip(both, native_codes(id_hashes(both, seed)[0]).tolist(), strict=True))
    assert all(together[one] == code for one, code in alone.items())


def test_native_shares_and_independence_of_the_two_hashes() -> None:
    share, rank = id_hashes([f"W{i}" for i in range(20_000)], 0)
    codes = native_codes(share)
    assert np.bincount(codes) / len(codes) == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    lowest = codes[np.argsort(rank)[:2_000]]  # what a cap takes has the same shares
    assert np.bincount(lowest) / len(lowest) == pytest.approx([0.8, 0.1, 0.1], abs=0.03)


def test_the_bounds_of_the_shares() -> None:
    words = [0, int(0.8 * 2**64) - 2**12, int(0.8 * 2**64) + 2**12, 2**64 - 1]
    assert native_codes(np.array(words, np.uint64)).tolist() == [0, 0, 1, 2]


@pytest.mark.golden
def test_native_hashes_are_fixed() -> None:
    share, rank = id_hashes(["W1", "9711200"], 0)
    assert [hex(word) for word in (*share.tolist(), *rank.tolist())] == GOLDEN_WORDS
    assert id_hashes(["W1"], 1)[0][0] != share[0]
    assert id_hashes([], 0)[0].shape == (0,)


GOLDEN_WORDS = ["0x89bd29b869048878", "0xf91274eee6f1619b", "0xb22805db55ea91de", "0xaae16ab1a91feee8"]


def test_the_hash_of_a_set_of_ids_has_no_order() -> None:
    assert ids_sha256(["b", "a"]) == ids_sha256(["a", "b"]) != ids_sha256(["a"])
