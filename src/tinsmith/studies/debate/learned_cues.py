"""Cues of papers where none were planted: the words that papers of one label use more often than the others.

A word's weight for a label is the difference of its smoothed log-odds, log((d + 1/2) / (n - d + 1/2)),
between the papers of that label and the rest; d of n papers use it. It speaks of association, not of
causes. Give it training papers only: what it learns from a test paper's label it would quote back.
Source: Monroe, Colaresi, Quinn, Political Analysis 16 (2008), sec. 3.3, with a flat prior.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from tinsmith.lab.labels.paper import Item
from tinsmith.ops.exact import Float64Array, log
from tinsmith.studies.debate.cues import Cue, Cues, plain_word
from tinsmith.types.errors import DataError

_LETTERS: Final = 4
"""Shorter words are not counted: they are mostly grammar."""


def learned_cues(
    items: Sequence[Item], labels: Sequence[str], *, per_label: int = 60, least: int = 5
) -> Cues:
    """Return the `per_label` words with the largest positive weight of each label.

    Args:
        items: training papers.
        labels: the labels in their order.
        per_label: at most so many words a label.
        least: words of fewer papers are left out.

    Raises:
        DataError: a label has no paper.
    """
    used: dict[str, Counter[str]] = {label: Counter() for label in labels}
    papers = Counter(item.gold for item in items)
    for item in items:
        used[item.gold].update(_words(item.paper.abstract))
    total = Counter[str]()
    for counts in used.values():
        total.update(counts)
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
        found[label] = tuple(
            Cue((word,), weight) for weight, word in ranked[:per_label] if weight > 0
        )
    return Cues(MappingProxyType(found))


def _log_odds(count: Float64Array, n: int) -> Float64Array:
    return log((count + 0.5) / (n - count + 0.5))


def _words(abstract: str) -> set[str]:
    words = {plain_word(word) for word in abstract.split()}
    return {word for word in words if len(word) >= _LETTERS and word.isalpha()}
