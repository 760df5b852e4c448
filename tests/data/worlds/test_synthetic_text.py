"""The synthetic world's texts and catalogue: a noisy view of the cause, and no leak of a label."""

import re
from itertools import pairwise

import numpy as np
import pytest

from tinsmith.data.abstracts import from_inverted_index, to_inverted_index
from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.sources.world.cues import CUES
from tinsmith.data.sources.world.fields import FIELD_WORDS, field_name, field_words, journals
from tinsmith.data.sources.world.lexicon import GENERAL, TOPIC_WORDS, topic_words
from tinsmith.data.sources.world.papers import CAUSES, draw_papers
from tinsmith.data.sources.world.records import Records
from tinsmith.data.sources.world.spec import MAX_FIELDS, MAX_TOPICS, PRESETS, Cause, Preset
from tinsmith.data.sources.world.text import Text, TextWriter

TINY = PRESETS[Preset.TINY]
PAPERS = draw_papers(TINY, 0)
STEMS = ("disrupt", "consolidat", "neutral", "novel", "convention", "balanc")


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    return list(TextWriter(TINY, PAPERS, 0).texts(0, TINY.papers))


def abstract(text: Text) -> str:
    decoded = from_inverted_index(text.abstract)
    assert decoded is not None
    return decoded


def cues_in(text: Text) -> list[Cause]:
    """The causes whose phrases begin a sentence."""
    sentences = [s.strip().lower() for s in abstract(text).split(".")]
    return [
        cause
        for cause in CAUSES
        for phrase in CUES[cause]
        for sentence in sentences
        if sentence.startswith(" ".join(phrase) + " ")
    ]


def test_no_text_has_a_digit_or_a_label(texts: list[Text]) -> None:
    names = {label.value for labels in (Disruption, Novelty) for label in labels}
    for text in texts:
        words = f"{text.title} {abstract(text)}"
        assert re.fullmatch(r"[A-Za-z .]+", words)
        assert not names & set(re.findall(r"[a-z]+", words.lower()))


def test_no_word_of_the_language_has_a_label_s_stem() -> None:
    phrases = [word for cause in CAUSES for phrase in CUES[cause] for word in phrase]
    fields = [word for field in range(MAX_FIELDS) for word in field_words(field)]
    topics = [word for f in range(MAX_FIELDS) for t in range(MAX_TOPICS) for word in topic_words(f, t)]
    assert len(set(topics)) == MAX_FIELDS * MAX_TOPICS * TOPIC_WORDS
    for word in {*GENERAL, *phrases, *fields, *topics}:
        assert word.isascii()
        assert word.isalpha()
        assert word.islower()
        assert not any(stem in word for stem in STEMS)


def test_every_list_of_words_has_its_length_and_nothing_twice() -> None:
    assert len({field_name(field) for field in range(MAX_FIELDS)}) == MAX_FIELDS
    assert len(set(GENERAL)) == len(GENERAL)
    for field in range(MAX_FIELDS):
        assert len(set(field_words(field))) == len(field_words(field)) == FIELD_WORDS
        assert len(set(journals(field))) == len(journals(field))
    assert {len(set(CUES[cause])) for cause in CAUSES} == {len(CUES[CAUSES[0]])}


def test_the_inverted_index_decodes_to_the_text_it_stands_for(texts: list[Text]) -> None:
    for text in texts[:200]:
        assert to_inverted_index(abstract(text)) == text.abstract


def test_titles_and_abstracts_have_the_lengths_of_the_recipe(texts: list[Text]) -> None:
    titles = [len(text.title.split()) for text in texts]
    assert (min(titles), max(titles)) == (5, 12)
    lengths = [len(abstract(text).split()) for text in texts]
    assert min(lengths) >= 40
    assert max(lengths) <= 90 + 6 * 9
    assert 70 < np.mean(lengths) < 85


def test_cues_hint_at_the_cause_and_often_mislead(texts: list[Text]) -> None:
    own = total = 0
    for text, cause in zip(texts, PAPERS.cause.tolist(), strict=True):
        found = cues_in(text)
        own += sum(one is CAUSES[cause] for one in found)
        total += len(found)
    assert 2.0 < total / len(texts) < 2.4
    assert 0.67 < own / total < 0.73  # 0.55 of them on purpose, a third of the others by chance


def test_novel_papers_borrow_the_words_of_their_second_field(texts: list[Text]) -> None:
    def borrowed(paper: int) -> float:
        answer = re.findall(r"[a-z]+", abstract(texts[paper]).lower())
        other = (int(PAPERS.field[paper]) + 1) % TINY.fields
        if PAPERS.second_field[paper] != PAPERS.field[paper]:
            other = int(PAPERS.second_field[paper])
        foreign = set(field_words(other)) - set(field_words(int(PAPERS.field[paper])))
        return float(np.mean([word in foreign for word in answer]))

    novel = PAPERS.second_field != PAPERS.field
    assert np.mean([borrowed(p) for p in np.flatnonzero(novel)]) > 0.10
    assert np.mean([borrowed(p) for p in np.flatnonzero(~novel)[:200]]) < 0.03


def test_a_text_does_not_depend_on_where_its_chunk_begins(texts: list[Text]) -> None:
    assert list(TextWriter(TINY, PAPERS, 0).texts(777, 790)) == texts[777:790]


def test_ids_are_distinct_and_not_in_the_order_of_time() -> None:
    frame = Records(TINY, PAPERS, 0).frame(0, TINY.papers)
    ids = frame["id"].to_list()
    assert len(set(ids)) == TINY.papers
    assert all(re.fullmatch(r"S\d{7}", one) for one in ids)
    later = np.mean([a < b for a, b in pairwise(ids)])
    assert 0.05 < later < 0.95


def test_dates_lie_in_their_years_and_follow_the_numbering() -> None:
    frame = Records(TINY, PAPERS, 0).frame(0, TINY.papers)
    assert (frame["date"].dt.year() == frame["year"]).all()
    assert frame["date"].is_sorted()
    assert frame["date"].n_unique() > 1500


def test_a_part_of_the_catalogue_is_that_part_of_the_whole() -> None:
    records = Records(TINY, PAPERS, 0)
    assert records.frame(300, 340).equals(records.frame(0, TINY.papers).slice(300, 40))


def test_venues_belong_to_the_field_or_to_all() -> None:
    frame = Records(TINY, PAPERS, 0).frame(0, TINY.papers)
    owned = [
        venue in journals([field_name(f) for f in range(TINY.fields)].index(field))
        for venue, field in frame.select("venue", "field").iter_rows()
    ]
    assert 0.93 < np.mean(owned) < 0.97
