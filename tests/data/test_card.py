"""Cards: complete, escaped, standing alone, and the same bytes every time."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import polars as pl
import pytest
from labelled import labelled_corpus, labelled_frames, write_corpus

from golden_pages import assert_golden
from sentences import missing
from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import write_card
from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.pages.cards import write_page
from tinsmith.types.errors import DataError

pytestmark = pytest.mark.whole

SETTINGS = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=100)


class _Seen(HTMLParser):
    """Collects what a page is made of, and checks that its elements are closed in order."""

    void = frozenset({"meta", "link", "path", "use", "line", "rect", "br", "wbr", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids[str(value)] += 1
            if name in {"href", "xlink:href", "src"}:
                self.links.append(str(value))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _page(folder: Path) -> tuple[str, _Seen]:
    html = write_page(folder).read_text(encoding="utf-8")
    return html, _Seen(html)


_drawn = cache(_page)
"""For folders that all tests share."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return labelled_corpus(tmp_path_factory.mktemp("corpus"), 800, cut=0.02)


@pytest.fixture(scope="module")
def folder(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slice")
    make_slice(corpus, SETTINGS, folder)
    return folder


@pytest.mark.parametrize("kind", ["corpus", "slice"])
def test_a_card_stands_alone_and_repeats(kind: str, corpus: Corpus, folder: Path) -> None:
    where = corpus.folder if kind == "corpus" else folder
    html, seen = _drawn(where)
    assert _page(where)[0] == html
    assert_golden(f"{kind} card", html)
    inside = [link for link in seen.links if link != "data:,"]
    assert all(link.startswith("#") for link in inside)
    assert not re.search(r"@import|url\((?!#)|<img|<iframe", html)
    assert html.count("<script") == 1
    assert max(seen.ids.values()) == 1
    assert {link[1:] for link in inside} <= set(seen.ids)
    assert str(where) not in html
    assert "Matplotlib" not in html


@pytest.mark.parametrize("kind", ["corpus", "slice"])
def test_figures_and_tables_can_be_read_aloud(kind: str, corpus: Corpus, folder: Path) -> None:
    html, seen = _drawn(corpus.folder if kind == "corpus" else folder)
    assert seen.tags["svg"] == 3
    assert len(re.findall(r'<svg class="figure" role="img" aria-label="[^"]{30,}"', html)) == 3
    assert seen.tags["figcaption"] == 3
    named = [name for name in re.findall(r'role="group" aria-label="([^"]+)"', html)]
    assert len(set(named) - {"Figure"}) == seen.tags["table"] > 3
    assert html.count('<th scope="col"') + html.count('<th scope="row"') == seen.tags["th"]
    assert html.startswith('<!doctype html>\n<html lang="en">')


def test_a_corpus_card_says_what_there_is(corpus: Corpus) -> None:
    _, seen = _drawn(corpus.folder)
    for text in ("Synthetic corpus of 800 papers", "±0.02", corpus.card.fingerprint, "self loops"):
        assert text in seen.text
    counts = corpus.metrics("cd_status")["cd_status"].value_counts()
    for status, count in counts.iter_rows():
        assert re.search(rf"{status}: [^0-9]+", seen.text)
        assert str(count) in seen.text


def test_a_corpus_without_metrics_has_a_card_that_says_so(tmp_path: Path) -> None:
    write_corpus(tmp_path, labelled_frames(40)[0], None)
    _, seen = _page(tmp_path)
    assert "tinsmith data metrics" in seen.text
    assert seen.tags["svg"] == 1


def test_a_corpus_without_any_score_or_paper_has_a_card(tmp_path: Path) -> None:
    papers, metrics = labelled_frames(40)
    gone = ("cd", "z_median", "z_p10", "novelty_score", "conventionality_score")
    bare = metrics.with_columns(pl.lit(None).alias(name) for name in gone)
    write_corpus(tmp_path / "bare", papers, bare.with_columns(cd_status=pl.lit("empty")))
    assert missing(_page(tmp_path / "bare")[1].text, "No paper", "novelty score") == []
    write_corpus(tmp_path / "none", papers.clear(), metrics.clear())
    assert "corpus of 0 papers" in _page(tmp_path / "none")[1].text


def test_text_from_a_source_is_escaped(tmp_path: Path) -> None:
    corpus = labelled_corpus(tmp_path, 40)
    hostile = "<script>alert('x')</script>&amp;"
    source = msgspec.structs.replace(corpus.card.source, settings={hostile: hostile})
    write_card(msgspec.structs.replace(corpus.card, source=source), tmp_path / "card.json")
    html, seen = _page(tmp_path)
    assert html.count("<script") == 1
    assert hostile in seen.text


def test_a_slice_card_shows_counts_rules_and_hashes(folder: Path) -> None:
    _, seen = _drawn(folder)
    card = Slice.open(folder).card
    for text in ("Balanced disruption slice of 300 papers", "cd ≥ 0.001", card.sha256):
        assert text in seen.text
    for split in card.splits.values():
        assert f"{split.disruption['neutral']:,}" in seen.text
        assert split.rows_sha256 in seen.text
    assert "tinsmith data baselines" in seen.text


def test_baselines_are_shown_only_if_they_are_of_this_slice(corpus: Corpus, tmp_path: Path) -> None:
    make_slice(corpus, replace(SETTINGS, task=Task.JOINT, per_class=30), tmp_path)
    report = run_baselines(Slice.open(tmp_path))
    _, seen = _page(tmp_path)
    assert seen.tags["svg"] == 5
    for target in report.targets:
        assert f"{target.scores[3].macro_f1.value:.3f}" in seen.text
    baselines = (tmp_path / "baselines.json").read_bytes()
    make_slice(corpus, SETTINGS, tmp_path, force=True)
    (tmp_path / "baselines.json").write_bytes(baselines)
    assert "tinsmith data baselines" in _page(tmp_path)[1].text


def test_a_slice_card_names_what_was_left_out_or_repeated(corpus: Corpus, tmp_path: Path) -> None:
    settings = replace(SETTINGS, per_class=2000, oversample=True, year=False, citations=False)
    repeats = make_slice(corpus, settings, tmp_path).oversampled
    assert repeats
    _, seen = _page(tmp_path)
    lines = [f"{count:,} {name}" for name, count in repeats.items()]
    assert missing(seen.text, "citations and the year", *lines) == []


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"allowed: .*\bslice\.json"):
        write_page(tmp_path)
