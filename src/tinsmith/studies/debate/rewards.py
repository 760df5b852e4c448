"""Rewards of a conversation: R = correctness {-1, +1} + reasoning [0, 0.3] + adaptation [0, 0.2].

The source notes give these three ranges and what they are for; their author's public code says how they are counted
(akhilpandey95/tinker at d95db84, tinker_disruption_env.py, described here in other words):

adversarial/seed    the code's: adaptation 0.2 for a right last answer, whatever the first one was; reasoning by
    what strikes the eye (at_first_sight), in a wrong answer too.
adversarial/gated   reasoning counts only where the last answer is right: the pass rate of verifiable leaves.
    Adaptation: where B's words speak for its label, 0.2 for a right answer; where they do not, for standing firm.
adversarial/forked  the same reward; its advantages are taken turn by turn (ops/forks.py).

A conversation with an answer that breaks the contract, at either turn, earns -1 and nothing else: were only the last
one held to it, the first could be dropped at no cost. Words are in small letters, without marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.judge.tree import pass_rate
from tinsmith.lab.labels.contracts import JUSTIFICATION_KEY, SIGNALS_KEY, Answer, Contract, Form, Outcome
from tinsmith.lab.labels.task import Item
from tinsmith.lab.strict_json import JsonObject, read_json
from tinsmith.studies.debate.challenge import Stance, quoted_spans
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Reasons:
    """Contents of an answer beside its label."""

    justification: str
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A finished conversation: a prediction, a challenge, and the answer to it. A right answer has no fault."""

    item: Item
    first: Answer
    last: Answer
    stance: Stance
    challenge: str  # B's words, without the request to answer again.
    reasons: Reasons | None  # Of the last answer; None where it has a fault or its contract asks for none.

    @property
    def last_right(self) -> bool:
        """True if the answer to the challenge is right (c2)."""
        return self.last.predicted == self.item.gold

    @property
    def revised(self) -> bool:
        """True if both answers are without fault, and their labels differ."""
        both = self.first.predicted is not None and self.last.predicted is not None
        return both and self.first.predicted != self.last.predicted


def reasons_of(contract: Contract, text: str) -> Reasons | None:
    """Return an answer's reasons; None where the answer has a fault or the contract asks for none."""
    if contract.form is not Form.FOUR_KEY or contract.parse(text).outcome is not Outcome.OK:
        return None
    value = read_json(text)
    assert isinstance(value, JsonObject), "the contract holds"
    values = dict(value.pairs)
    justification, signals = values[JUSTIFICATION_KEY], values[SIGNALS_KEY]
    assert isinstance(justification, str)
    assert isinstance(signals, list)
    return Reasons(justification, tuple(one for one in signals if isinstance(one, str)))


MOST_WORDS: Final = 60  # Of a justification.
SIGNAL_WORDS: Final = (2, 12)
"""Words of a signal that counts: one word stands in nearly every abstract, and a whole abstract in itself."""
_SHARED: Final = 3  # Words in a row that take up a quotation.

DEFINITIONS: Final[Mapping[str, tuple[str, ...]]] = {
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
}  # fmt: skip
"""Words of each label's definition, as the prompts `ontology` and `checklist` give it."""
_NEGATIONS: Final = frozenset(
    ("not", "no", "nor", "neither", "never", "than", "unlike", "against", "hardly", "isn't", "doesn't", "cannot")
)  # fmt: skip
_REACH: Final = 3  # A negation holds for so many words after it.

LEAVES: Final = (
    "a signal stands literally in the abstract",
    "two signals do",
    "the justification names what the label means",
    "it states no other label, and no other label's meaning",
    "it takes up what the challenge claims",
    f"it has 1 to {MOST_WORDS} words",
)


def leaves(exchange: Exchange) -> list[bool]:
    """Return which of LEAVES hold; none where there are no reasons.

    Where B claims nothing (null arm), there is nothing to take up, and that leaf holds.
    """
    reasons, label = exchange.reasons, exchange.last.predicted
    if reasons is None or label is None:
        return [False] * len(LEAVES)
    literal = literal_signals(reasons, exchange.item.paper.abstract)
    justification = words_of(reasons.justification)
    return [
        literal >= 1,
        literal >= 2,
        bool(_affirmed(justification, DEFINITIONS[label])),
        bool(justification) and not _contradicts(justification, label),
        _takes_up(exchange, justification),
        1 <= len(justification) <= MOST_WORDS,
    ]


def literal_signals(reasons: Reasons, abstract: str) -> int:
    """Return how many signals stand word for word in the abstract; one inside another counts once."""
    text = words_of(abstract)
    least, most = SIGNAL_WORDS
    found = {words for one in reasons.signals if least <= len(words := words_of(one)) <= most}
    standing = [words for words in found if _places(text, words)]
    return sum(not any(words != other and _places(other, words) for other in standing) for words in standing)


_ARGUING: Final = ("because", "therefore", "however", "since", "thus")
_SUBJECT: Final = ("cd", "citation", "reference", "novelty", "conventional", "disruptive", "consolidating")
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
    shown = (any(word in said for word in some) for some in (_ARGUING, _SUBJECT))
    return (4 * (count >= _SOME) + 2 * (count >= _MANY) + 2 * sum(shown)) / 10


def _affirmed(words: tuple[str, ...], phrases: tuple[str, ...]) -> bool:
    """True if one of the phrases stands there and is not negated."""
    return any(
        not _NEGATIONS & set(words[max(0, at - _REACH) : at])
        for phrase in phrases
        for at in _places(words, tuple(phrase.split()))
    )


def _contradicts(words: tuple[str, ...], label: str) -> bool:
    family = next((tuple(kind) for kind in (Disruption, Novelty) if label in tuple(kind)), tuple[str, ...]())
    return any(_affirmed(words, (other, *DEFINITIONS[other])) for other in family if other != label)


def _takes_up(exchange: Exchange, justification: tuple[str, ...]) -> bool:
    """True if it names the label B argues for, or words in a row that B quotes; a signal alone does not."""
    claim = exchange.stance.label
    if claim is None or claim in justification:
        return True
    return any(
        _places(justification, span[at : at + _SHARED])
        for span in map(words_of, quoted_spans(exchange.challenge))
        for at in range(len(span) - _SHARED + 1)
    )


def _places(text: tuple[str, ...], words: tuple[str, ...]) -> list[int]:
    size = len(words)
    return [at for at in range(len(text) - size + 1) if text[at : at + size] == words]


REASONING: Final = 0.3
ADAPTATION: Final = 0.2
TERMS: Final = ("correctness", "reasoning", "adaptation")
"""Correctness is +1 where the last answer is right, -1 where it is not or either breaks the contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateReward:
    """One entry of DEBATE_REWARDS."""

    name: str
    shaping: Callable[[Exchange], tuple[float, float]]
    """Reasoning and adaptation, where both answers keep the contract."""
    by_turn: bool = False  # True if each turn has an advantage of its own, from forks of the second turn.

    def terms(self, exchange: Exchange) -> dict[str, float]:
        """Return a conversation's terms."""
        broken = exchange.first.predicted is None or exchange.last.predicted is None
        shaping = (0.0, 0.0) if broken else self.shaping(exchange)
        return dict(zip(TERMS, (1.0 if exchange.last_right and not broken else -1.0, *shaping), strict=True))


def gated(exchange: Exchange) -> tuple[float, float]:
    """Return verified reasons of a right answer, and whether the challenge was answered as its words deserve."""
    right = exchange.last_right
    # The challenge quotes words that speak for its label, as far as anybody knows.
    has_reason = exchange.stance.with_evidence and exchange.stance.grounded is not False
    due = right if has_reason else not exchange.revised
    return REASONING * pass_rate(leaves(exchange)) if right else 0.0, ADAPTATION if due else 0.0


_REWARDS: Final = (
    DebateReward(
        name="adversarial/seed",  # reasons count in a wrong answer too, and nobody asks why one is right
        shaping=lambda one: (REASONING * at_first_sight(one), ADAPTATION if one.last_right else 0.0),
    ),
    DebateReward(name="adversarial/gated", shaping=gated),
    DebateReward(name="adversarial/forked", shaping=gated, by_turn=True),
)
DEBATE_REWARDS: Final[Mapping[str, DebateReward]] = {one.name: one for one in _REWARDS}
"""Every reward of a conversation by its name."""


def debate_reward(name: str) -> DebateReward:
    """Return a reward by its name."""
    if name not in DEBATE_REWARDS:
        allowed = DEBATE_REWARDS
        raise ConfigError("there is no such reward", field="reward", value=name, allowed=allowed)
    return DEBATE_REWARDS[name]
