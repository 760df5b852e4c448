"""The built-in corpus is a function of its seed, says only correct sums, and stays the same."""

import json
import operator
import re

import pytest

from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.grammar import RULES
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import sha256_of

CORPUS_SHA256 = "5913cd692319d60439390ccf2eb034c2a05f6d4557b25c5cbeef2468e6516781"


def test_a_longer_corpus_begins_with_the_shorter_one() -> None:
    assert builtin_corpus(num_sentences=300)[:100] == builtin_corpus(num_sentences=100)


def test_another_seed_gives_another_corpus() -> None:
    assert builtin_corpus(num_sentences=20, seed=1) != builtin_corpus(num_sentences=20)


@pytest.mark.golden
def test_the_corpus_has_its_recorded_hash() -> None:
    assert sha256_of(builtin_corpus()) == CORPUS_SHA256


def test_every_symbol_has_a_rule_and_every_rule_is_reached() -> None:
    used = {
        symbol
        for alternatives in RULES.values()
        for alternative in alternatives
        for symbol in re.findall(r"\{(\w+)\}", alternative)
    }
    spoken_by_code = {"sentence", "label", "because", "topic", "year", "name", "field", "count"}
    assert used <= set(RULES)
    assert set(RULES) <= used | spoken_by_code


def test_no_symbol_is_left_in_a_sentence_and_no_article_is_wrong() -> None:
    prose = [text for text in builtin_corpus(num_sentences=3000) if not text.startswith("{")]
    assert not [text for text in prose if re.search(r"[{}]", text)]
    assert not [text for text in prose if re.search(r"\b[Aa] [aeiou]", text)]


def test_the_stated_results_are_right() -> None:
    operations = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    found = [re.fullmatch(r"(\d+) ([-+*]) (\d+) = (-?\d+)", text) for text in builtin_corpus(num_sentences=3000)]
    sums = [match.groups() for match in found if match]
    assert len(sums) > 50
    assert all(operations[sign](int(a), int(b)) == int(result) for a, sign, b, result in sums)


def test_the_objects_are_json_with_known_labels() -> None:
    texts = [text for text in builtin_corpus(num_sentences=3000) if text.startswith("{")]
    labels = {json.loads(text).get("label") for text in texts}
    assert labels == {"disruptive", "consolidating", "neutral", None}


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_sentences = 0"):
        builtin_corpus(num_sentences=0)
