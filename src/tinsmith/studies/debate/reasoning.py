"""How good an answer's reasons are: by leaves a program can verify, or by what strikes the eye.

The leaves stand in a flat tree of criteria, so that the score is their pass rate. Words are those of
`measures.words_of`: in small letters, without marks. Neither score looks at whether the label is right;
the reward decides whether that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.judge.tree import TreeScore, evaluate, flat_tree
from tinsmith.studies.debate.challenge_leaks import quoted_spans
from tinsmith.studies.debate.exchange import Exchange, Reasons

MOST_WORDS: Final = 60
"""Of a justification."""
SIGNAL_WORDS: Final = (2, 12)
"""Words of a signal that counts: one word stands in nearly every abstract, and a whole abstract in itself."""
_SHARED: Final = 3
"""Words in a row that take up a quotation."""

DEFINITIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        Disruption.DISRUPTIVE.value: (
            "leave out", "leaves out", "leaving out", "left out", "instead of", "replace", "replaces",
            "replaced", "without the older", "without older", "new point to start", "new starting point",
        ),
        Disruption.CONSOLIDATING.value: (
            "side by side", "together with", "along with", "alongside", "with the older", "with older",
            "builds on", "build on", "existing line", "strengthens", "stronger",
        ),
        Disruption.NEUTRAL.value: (
            "upper hand", "as frequent", "equally often", "hardly anyone", "hardly cited", "narrow",
        ),
        Novelty.NOVEL.value: ("rare", "rarely", "seldom", "far apart", "distant", "unusual"),
        Novelty.BALANCED.value: ("outweighs", "mostly familiar", "some of both", "in one part"),
        Novelty.CONVENTIONAL.value: ("usual", "always cites", "familiar sources", "one field"),
    }
)  # fmt: skip
"""Words of each label's definition, as the prompts `ontology` and `checklist` give it."""
_NEGATIONS: Final = frozenset(
    [
        "not",
        "no",
        "nor",
        "neither",
        "never",
        "than",
        "unlike",
        "against",
        "hardly",
        "isn't",
        "doesn't",
        "cannot",
    ]
)
_REACH: Final = 3
"""A negation holds for so many words after it."""

LEAVES: Final = (
    "a signal stands literally in the abstract",
    "two signals do",
    "the justification names what the label means",
    "it states no other label, and no other label's meaning",
    "it takes up what the challenge claims",
    f"it has 1 to {MOST_WORDS} words",
)
TREE: Final = flat_tree(LEAVES)


def verified(exchange: Exchange) -> TreeScore:
    """Return the pass rate of the leaves, with a trace; 0 where there are no reasons.

    Where B claims nothing (null arm), there is nothing to take up, and that leaf holds.
    """
    reasons, label = exchange.reasons, exchange.last.predicted
    if reasons is None or label is None:
        return evaluate(TREE, [False] * len(LEAVES))
    literal = literal_signals(reasons, exchange.item.paper.abstract)
    justification = words_of(reasons.justification)
    return evaluate(
        TREE,
        [
            literal >= 1,
            literal >= 2,
            bool(_affirmed(justification, DEFINITIONS[label])),
            bool(justification) and not _contradicts(justification, label),
            _takes_up(exchange, justification),
            1 <= len(justification) <= MOST_WORDS,
        ],
    )


def literal_signals(reasons: Reasons, abstract: str) -> int:
    """Return how many signals stand word for word in the abstract; one inside another counts once."""
    text = words_of(abstract)
    least, most = SIGNAL_WORDS
    found = {words for one in reasons.signals if least <= len(words := words_of(one)) <= most}
    standing = [words for words in found if _places(text, words)]
    return sum(
        not any(words != other and _places(other, words) for other in standing)
        for words in standing
    )


_ARGUING: Final = ("because", "therefore", "however", "since", "thus")
_SUBJECT: Final = (
    "cd", "citation", "reference", "novelty", "conventional", "disruptive", "consolidating",
)  # fmt: skip
_FEWEST, _SOME, _MANY = 6, 12, 24


def at_first_sight(exchange: Exchange) -> float:
    """Return the source notes' score of a justification, from 0 to 1: what strikes the eye, true or not.

    Fewer than 6 words: 0. Else 0.4 for 12 words, 0.2 more for 24, 0.2 for a word of arguing, 0.2 for a word
    of the subject; such words count inside others too ("cd" in "abcde"). 0 where there are no reasons.
    Source: akhilpandey95/tinker at d95db84, tinker_disruption_env.py, of which this is a description in other words.
    """
    if exchange.reasons is None:
        return 0.0
    said = exchange.reasons.justification.lower()
    count = len(said.split())
    if count < _FEWEST:
        return 0.0
    tenths = 4 * (count >= _SOME) + 2 * (count >= _MANY)
    tenths += 2 * any(word in said for word in _ARGUING)
    tenths += 2 * any(word in said for word in _SUBJECT)
    return tenths / 10


def _affirmed(words: tuple[str, ...], phrases: tuple[str, ...]) -> bool:
    """Whether one of the phrases stands there and is not negated."""
    return any(
        not _NEGATIONS & set(words[max(0, at - _REACH) : at])
        for phrase in phrases
        for at in _places(words, tuple(phrase.split()))
    )


def _contradicts(words: tuple[str, ...], label: str) -> bool:
    family = next(
        (tuple(kind) for kind in (Disruption, Novelty) if label in tuple(kind)), tuple[str, ...]()
    )
    return any(_affirmed(words, (other, *DEFINITIONS[other])) for other in family if other != label)


def _takes_up(exchange: Exchange, justification: tuple[str, ...]) -> bool:
    """Whether it names the label B argues for, or words in a row that B quotes; a signal alone does not."""
    claim = exchange.stance.label
    if claim is None or claim in justification:
        return True
    return any(
        _places(justification, span[at : at + _SHARED])
        for span in map(words_of, quoted_spans(exchange.challenge))
        for at in range(len(span) - _SHARED + 1)
    )


def _places(text: tuple[str, ...], words: tuple[str, ...]) -> list[int]:
    """Where the words stand in a text, one after the other."""
    size = len(words)
    return [at for at in range(len(text) - size + 1) if text[at : at + size] == words]
