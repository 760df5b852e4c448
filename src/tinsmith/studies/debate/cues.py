"""Words of an abstract that speak for a label, and those that a challenger quotes.

A text is cut into sentences and these into pieces of at most PIECE words, the first from the sentence's
first word on. A piece's support for a label is the weight of the label's cues in it, minus the largest of
the other labels'. Whoever argues for the gold label quotes the piece with the most support, if any has
some. Everyone else quotes a piece without support, from the same place in its sentence, so that neither
place nor capital letter tells one from the other: words that say nothing, or something else.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from tinsmith.data.labels import Disruption
from tinsmith.data.sources.world.cues import CUES
from tinsmith.data.sources.world.spec import Cause
from tinsmith.lab.labels.task import Item
from tinsmith.ops.exact import Float64Array, log
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.seeds import random_bits

PIECE: Final = 8  # Words of the longest quotation; no cue of the synthetic worlds is longer.
_SHORTEST: Final = 3  # A sentence's last piece of fewer words is not quoted.
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Cue:
    """Words that follow one another, in small letters, and how strongly they speak for their label."""

    words: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a paper, as they stand there."""

    text: str
    place: int  # The piece's place in its sentence, from 0 on.


@dataclass(frozen=True, slots=True)
class Cues:
    """The cues of every label."""

    by_label: Mapping[str, tuple[Cue, ...]]
    _by_first_word: Mapping[str, tuple[tuple[str, Cue], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, list[tuple[str, Cue]]] = {}
        for label, cues in self.by_label.items():
            for cue in cues:
                if not 1 <= len(cue.words) <= PIECE:
                    raise ConfigError(
                        "a cue has words", field=f"cues.{label}", value=" ".join(cue.words), allowed=f"1 to {PIECE}"
                    )
                found.setdefault(cue.words[0], []).append((label, cue))
        index = {word: tuple(cues) for word, cues in found.items()}
        object.__setattr__(self, "_by_first_word", MappingProxyType(index))

    def support(self, piece: str) -> dict[str, float]:
        """Return each label's support in a piece: the weight of its cues minus the largest other one."""
        words = [plain_word(word) for word in piece.split()]
        weight = dict.fromkeys(self.by_label, 0.0)
        for i, word in enumerate(words):
            for label, cue in self._by_first_word.get(word, ()):
                if tuple(words[i : i + len(cue.words)]) == cue.words:
                    weight[label] += cue.weight
        return {
            label: own - max((other for name, other in weight.items() if name != label), default=0.0)
            for label, own in weight.items()
        }

    def speaking(self, pieces: Sequence[Quote], label: str) -> Quote | None:
        """Return the piece with the most support for a label, the first of several; None where none has any."""
        best, most = None, 0.0
        for piece in pieces:
            if (support := self.support(piece.text).get(label, 0.0)) > most:
                best, most = piece, support
        return best

    def speaks_for(self, pieces: Sequence[Quote]) -> int:
        """Return how many labels some piece speaks for."""
        supports = [self.support(piece.text) for piece in pieces]
        return sum(any(support[label] > 0.0 for support in supports) for label in self.by_label)

    def silent(self, pieces: Sequence[Quote], label: str, seed: int) -> Quote | None:
        """Return a piece without support for a label, from where a piece with support would stand."""
        candidates, places = list[Quote](), list[tuple[float, int]]()
        for i, piece in enumerate(pieces):
            support = self.support(piece.text)
            if support.get(label, 0.0) <= 0.0:
                candidates.append(piece)
            places.append((max(support.values(), default=0.0), -i))
        if not candidates:
            return None
        most, at = max(places)
        place = pieces[-at].place if most > 0.0 else 0
        alike = [piece for piece in candidates if piece.place == place] or candidates
        return alike[int(random_bits(seed, 1)[0]) % len(alike)]


def plain_word(word: str) -> str:
    """Return a word in small letters, without the marks around it."""
    return word.strip(string.punctuation).casefold()


def pieces_of(text: str) -> list[Quote]:
    """Return what can be quoted of a text; a piece with a double quote in it cannot."""
    found: list[Quote] = []
    for sentence in _SENTENCE.split(text.strip()):
        words = sentence.split()
        for place, start in enumerate(range(0, len(words), PIECE)):
            piece = words[start : start + PIECE]
            quoted = " ".join(piece).rstrip(".,;:!? ")
            if (len(piece) >= _SHORTEST or start == 0) and quoted and '"' not in quoted:
                found.append(Quote(quoted, place))
    return found


_CAUSES: Final = {
    Disruption.DISRUPTIVE: Cause.PIONEER,
    Disruption.CONSOLIDATING: Cause.DEVELOPER,
    Disruption.NEUTRAL: Cause.ROUTINE,
}
WORLD_CUES: Final = Cues(
    MappingProxyType({label.value: tuple(Cue(words) for words in CUES[cause]) for label, cause in _CAUSES.items()})
)
"""Those that are planted in the synthetic worlds' abstracts."""
_LETTERS: Final = 4  # Shorter words are not counted: they are mostly grammar.


def learned_cues(items: Sequence[Item], labels: Sequence[str], *, per_label: int = 60, least: int = 5) -> Cues:
    """Return the `per_label` words that papers of each label use more often than the others, with a positive weight.

    A word's weight for a label is the difference of its smoothed log-odds, log((d + 1/2) / (n - d + 1/2)), between
    the papers of that label and the rest; d of n papers use it. It speaks of association, not of causes.
    Source: Monroe, Colaresi, Quinn, Political Analysis 16 (2008), sec. 3.3, with a flat prior.

    The items are training papers only: what it learns from a test paper's label it would quote back. A label has at
    most `per_label` words; those of fewer than `least` papers are left out.
    """
    used: dict[str, Counter[str]] = {label: Counter() for label in labels}
    papers = Counter(item.gold for item in items)
    for item in items:
        words = {plain_word(word) for word in item.paper.abstract.split()}
        used[item.gold].update(word for word in words if len(word) >= _LETTERS and word.isalpha())
    total = sum(used.values(), Counter[str]())
    vocabulary = sorted(word for word, count in total.items() if count >= least)
    found: dict[str, tuple[Cue, ...]] = {}
    for label in labels:
        n, rest = papers[label], len(items) - papers[label]
        if n == 0 or rest == 0:
            raise DataError("cues need papers of every label", field="gold", value=label)
        inside = np.array([used[label][word] for word in vocabulary], dtype=np.float64)
        outside = np.array([total[word] for word in vocabulary], dtype=np.float64) - inside
        weights: list[float] = (_log_odds(inside, n) - _log_odds(outside, rest)).tolist()
        ranked = sorted(zip(weights, vocabulary, strict=True), key=lambda one: (-one[0], one[1]))
        found[label] = tuple(Cue((word,), weight) for weight, word in ranked[:per_label] if weight > 0)
    return Cues(MappingProxyType(found))


def _log_odds(count: Float64Array, n: int) -> Float64Array:
    return log((count + 0.5) / (n - count + 0.5))
