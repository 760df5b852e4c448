"""Titles and abstracts of synthetic papers: words of the field and topic, and hints at the cause.

An abstract has 40 to 90 words by Zipf's law and some cue phrases, each at the start of a sentence: mostly
those of the paper's own cause, the others at random. Text i depends on (seed, i) and on paper i only, so
that chunks of any size give the same texts. Years, citations and labels never enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.abstracts import to_inverted_index
from tinsmith.data.sources.world.cues import CUES
from tinsmith.data.sources.world.draws import poisson, threshold, words, zipf
from tinsmith.data.sources.world.fields import FIELD_WORDS, field_words
from tinsmith.data.sources.world.lexicon import GENERAL, TOPIC_WORDS, topic_words
from tinsmith.data.sources.world.papers import CAUSES, WorldPapers
from tinsmith.data.sources.world.spec import WorldSpec
from tinsmith.types.seeds import derive

_BODY: Final = (40, 90)
_BODY_MIX: Final = (0.45, 0.80)
"""Cumulative mix: general words, then words of a field, then words of the topic."""
_TITLE: Final = (5, 12)
_TITLE_DRAWS: Final = 18
"""Draws for a title, which uses their first distinct words."""
_TITLE_MIX: Final = (0.25, 0.70)
_FUNCTION_WORDS: Final = 20
"""Number of the first general words, which titles do not use."""
_SECOND_FIELD: Final = 0.5
"""Share of a novel paper's field words that come from its second field."""
_MEAN_CUES: Final = "2.2"
_MOST_CUES: Final = 6
_OWN_CUE: Final = 0.55
_SENTENCE: Final = 11
"""Approximate number of words in a sentence."""
_PER_PAPER: Final = _BODY[1] + _TITLE_DRAWS + 3 + 2 * _MOST_CUES
"""Random words per paper."""


@dataclass(frozen=True, slots=True)
class Text:
    """Title and abstract of one paper."""

    title: str
    abstract: Mapping[str, Sequence[int]]
    """Inverted index: word -> its positions, as in OpenAlex."""


class TextWriter:
    """Writer of the texts of one world."""

    def __init__(self, spec: WorldSpec, papers: WorldPapers, seed: int) -> None:
        self._papers = papers
        self._seed = derive(seed, "synthetic", "text")
        fields = range(spec.fields)
        by_field = [word for field in fields for word in field_words(field)]
        by_topic = [w for field in fields for t in range(spec.topics) for w in topic_words(field, t)]
        self._words = [*GENERAL, *by_field, *by_topic]
        self._field_base = len(GENERAL)
        self._topic_base = len(GENERAL) + len(by_field)
        self._general = zipf(len(GENERAL), "1").lookup()
        self._content = zipf(len(GENERAL) - _FUNCTION_WORDS, "0.7").lookup() + _FUNCTION_WORDS
        self._in_field = zipf(FIELD_WORDS, "0.8").lookup()
        self._in_topic = zipf(TOPIC_WORDS, "0.6").lookup()
        self._cues = poisson(_MEAN_CUES, _MOST_CUES).lookup()

    def texts(self, start: int, stop: int) -> Iterator[Text]:
        """Write the texts of papers `start` .. `stop`, in order."""
        bits = words(self._seed, start * _PER_PAPER, (stop - start) * _PER_PAPER)
        bits = bits.reshape(stop - start, _PER_PAPER)
        body, title, rest = np.split(bits, [_BODY[1], _BODY[1] + _TITLE_DRAWS], axis=1)
        body_words = self._choose(body, start, _BODY_MIX, self._general).tolist()
        title_words = self._choose(title, start, _TITLE_MIX, self._content).tolist()
        body_length = (_BODY[0] + _below(rest[:, 0], _BODY[1] - _BODY[0] + 1)).tolist()
        title_length = (_TITLE[0] + _below(rest[:, 1], _TITLE[1] - _TITLE[0] + 1)).tolist()
        num_cues = self._cues[_sixteen(rest[:, 2], 0)].tolist()
        first = _sixteen(rest[:, 2], 1).tolist()
        cues = self._choose_cues(rest[:, 3:], start)
        lexicon = self._words
        for i in range(stop - start):
            body_i = [lexicon[w] for w in body_words[i][: body_length[i]]]
            heading = [lexicon[w] for w in dict.fromkeys(title_words[i])][: title_length[i]]
            abstract = _abstract(body_i, cues[i][: num_cues[i]], first[i])
            yield Text(" ".join(heading).capitalize(), abstract)

    def _choose(
        self, bits: NDArray[np.uint64], start: int, mix: tuple[float, float], general: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return positions in the lexicon: one for each draw of `bits` [papers, words]."""
        papers, stop = self._papers, start + len(bits)
        rank = _sixteen(bits, 1)
        kind = bits >> np.uint64(32)
        own, second = papers.field[start:stop, None], papers.second_field[start:stop, None]
        mixed = _sixteen(bits, 0) < threshold(_SECOND_FIELD) >> 16
        field = np.where(mixed, second, own)
        in_field = self._field_base + FIELD_WORDS * field + self._in_field[rank]
        topic = self._topic_base + TOPIC_WORDS * papers.topic[start:stop, None].astype(np.int64)
        return np.where(
            kind < threshold(mix[0]),
            general[rank],
            np.where(kind < threshold(mix[1]), in_field, topic + self._in_topic[rank]),
        )

    def _choose_cues(self, bits: NDArray[np.uint64], start: int) -> list[list[tuple[str, ...]]]:
        """Return the most cues each paper may use, from two draws each."""
        which, what = bits[:, :_MOST_CUES], bits[:, _MOST_CUES:]
        own = self._papers.cause[start : start + len(bits), None].astype(np.int64)
        keep = (which >> np.uint64(32)) < threshold(_OWN_CUE)
        any_cause = (_sixteen(which, 0) * len(CAUSES)) >> 16
        cause = np.where(keep, own, any_cause)
        phrases = [phrase for name in CAUSES for phrase in CUES[name]]
        of_cause = len(phrases) // len(CAUSES)
        chosen = cause * of_cause + _below(what, of_cause)
        return [[phrases[at] for at in row] for row in chosen.tolist()]


def _abstract(body: Sequence[str], cues: Sequence[Sequence[str]], first: int) -> dict[str, list[int]]:
    """Split `body` into sentences, put the cues before consecutive ones of them, and invert the text."""
    count = -(-len(body) // _SENTENCE)
    cues = cues[:count]
    sentences: list[str] = []
    for s in range(count):
        sentence = body[len(body) * s // count : len(body) * (s + 1) // count]
        turn = (s - first) % count
        if turn < len(cues):
            sentence = [*cues[turn], *sentence]
        sentences.append(" ".join(sentence).capitalize() + ".")
    return to_inverted_index(" ".join(sentences))


def _sixteen(bits: NDArray[np.uint64], part: int) -> NDArray[np.int64]:
    """Return 16 of the lower 32 bits: part 0 or 1."""
    return ((bits >> np.uint64(16 * part)) & np.uint64(0xFFFF)).astype(np.int64)


def _below(bits: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Return draws from 0 .. bound - 1, from the upper halves."""
    return (((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
