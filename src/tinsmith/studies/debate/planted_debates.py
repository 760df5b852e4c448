"""A planted world to argue about, in which it is known what each sentence speaks for, and so is the best answer.

Every text has a sentence that speaks for its gold label and one of noise. With probability `DOUBT` a third speaks for
another label, drawn evenly; else it is noise too. So the best first answer is right with probability 1 - DOUBT / 2 =
0.65, and a truthful challenger always has words to quote. Who changes exactly where quoted words speak for the named
label, and answers best at first, is right in the end with 0.25 + 0.75 * 0.65 = 0.74 of the default arms, never gives
up a right answer, and mends every wrong one that a truthful challenger names the right label of; J is 1/4, and 1/3
where a label is named. Who also knows that a label named with other words is a wrong one does best: right with 0.825,
J is 1/2 and 2/3, and nothing is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.data.labels import Disruption
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.splits import Split
from tinsmith.lab.labels.contracts import Subject
from tinsmith.studies.debate.cues import Cue, Cues
from tinsmith.studies.debate.stance import Draws
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION

LABELS: Final = Subject.DISRUPTION.labels
WORDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"disruptive": ("copper", "marble"), "consolidating": ("willow", "saffron"), "neutral": ("ember", "orchid")}
)
"""The words that speak for each label."""
WORD_CUES: Final = Cues(
    MappingProxyType({label: tuple(Cue((word,)) for word in words) for label, words in WORDS.items()})
)
_NOISE: Final = (
    "anchor basket candle daisy engine feather garden hammer island jacket kettle ladder mirror needle "
    "orchard pepper quarry ribbon saddle table umbrella valley window yarrow"
)
NOISE: Final = tuple(_NOISE.split())
DOUBT: Final = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class DebatesRecipe:
    """How many papers each split has, and the seed of what is drawn."""

    train: int = 4000
    validation: int = 300
    test: int = 1200
    seed: int = 0

    @property
    def sha256(self) -> str:
        """Identity of the papers."""
        made = sha256_of({"recipe": self, "words": WORDS, "noise": NOISE, "doubt": DOUBT})
        return sha256_of({"version": VERSION, "debates": made})

    def rows(self, split: Split) -> list[PaperRow]:
        """Return the papers of a split; labels follow one another, so that each has its third."""
        count = {Split.TRAIN: self.train, Split.VALIDATION: self.validation, Split.TEST: self.test}[split]
        return [_row(f"{split.value}-{place}", LABELS[place % len(LABELS)], self.seed) for place in range(count)]


def _row(name: str, label: str, seed: int) -> PaperRow:
    draws = Draws(derive(seed, "paper", name))
    others = tuple(other for other in LABELS if other != label)
    third = _sentence(draws, draws.one(others)) if draws.below(DOUBT) else _sentence(draws, None)
    sentences = draws.order([_sentence(draws, label), _sentence(draws, None), third])
    return PaperRow(
        openalex_id=name,
        title=f"{draws.one(NOISE)} {draws.one(NOISE)}",
        abstract=" ".join(sentences),
        publication_year=None,
        cited_by_count=None,
        cd_index=None,
        novelty_score=None,
        conventionality_score=None,
        disruption_label=Disruption(label),
        novelty_label=None,
        primary_field=None,
        concepts=(),
    )


def _sentence(draws: Draws, label: str | None) -> str:
    """Four words: one that speaks, twice, among noise; or noise alone."""
    if label is None:
        return " ".join(draws.one(NOISE) for _ in range(4)).capitalize() + "."
    word = draws.one(WORDS[label])
    return f"{word} {draws.one(NOISE)} {word} {draws.one(NOISE)}".capitalize() + "."
