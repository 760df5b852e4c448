"""What a conversation earns: R = correctness {-1, +1} + reasoning [0, 0.3] + adaptation [0, 0.2].

The source notes give these three ranges and what they are for; their author's public code says how they
are counted (akhilpandey95/tinker at d95db84, tinker_disruption_env.py, described here in other words):

adversarial/seed    the code's: adaptation 0.2 for a right last answer, whatever the first one was; reasoning by
    what strikes the eye (reasoning.at_first_sight), in a wrong answer too. Every way to the truth is paid alike, so
    who cannot know the label may as well answer anew when asked; and -0.7 with an argument is more than -1 without.
adversarial/gated   reasoning counts only where the last answer is right: the pass rate of verifiable leaves
    (reasoning.verified). Adaptation asks whether the challenge was answered as its words deserve: where they speak
    for B's label, 0.2 for a right answer; where they do not, 0.2 for standing firm, and for nothing else. A first
    answer that chance made wrong is correctness's business: were only right ones paid for standing firm, half of
    that pay would be luck in the very papers whose text leaves a choice, and tossing the coin again costs half as much.
adversarial/forked  the same reward; its advantages are taken turn by turn (ops/forks.py).

A conversation with an answer that breaks the contract, at either turn, earns -1 and nothing else. (Were only
the last one held to it, the first could be dropped at no cost, and was: a model of four keys stopped giving any.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.rewards.terms import rounded_sum
from tinsmith.studies.debate.exchange import Exchange
from tinsmith.studies.debate.reasoning import at_first_sight, verified
from tinsmith.types.errors import ConfigError

REASONING: Final = 0.3
ADAPTATION: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateTerms:
    """The parts of one conversation's reward."""

    correctness: float = 0.0
    """+1: the last answer is right; -1: it is not, or either breaks the contract."""
    reasoning: float = 0.0
    adaptation: float = 0.0

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the parts in their fixed order."""
        return tuple(field.name for field in fields(cls))

    @property
    def total(self) -> float:
        """The sum, rounded to 12 decimals."""
        return rounded_sum(self.correctness, self.reasoning, self.adaptation)


class Credit(StrEnum):
    """Which advantage a turn's tokens get."""

    CONVERSATION = "conversation"
    """All of them the conversation's, over its group."""
    TURN = "turn"
    """Each turn its own, from forks of the second turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateReward:
    """One entry of DEBATE_REWARDS."""

    name: str
    about: str
    """What it pays for, in a sentence."""
    shaping: Callable[[Exchange], tuple[float, float]]
    """Reasoning and adaptation, where both answers keep the contract."""
    credit: Credit = Credit.CONVERSATION

    def score(self, exchanges: Sequence[Exchange]) -> list[DebateTerms]:
        """Return each conversation's terms. Pure."""
        return [self._terms(one) for one in exchanges]

    def _terms(self, exchange: Exchange) -> DebateTerms:
        if exchange.first.predicted is None or exchange.last.predicted is None:
            return DebateTerms(correctness=-1.0)
        reasoning, adaptation = self.shaping(exchange)
        correctness = 1.0 if exchange.last_right else -1.0
        return DebateTerms(correctness=correctness, reasoning=reasoning, adaptation=adaptation)


def the_seeds(exchange: Exchange) -> tuple[float, float]:
    """Return the source notes' shaping: reasons count in a wrong answer too, and nobody asks why one is right."""
    return REASONING * at_first_sight(exchange), ADAPTATION if exchange.last_right else 0.0


def gated(exchange: Exchange) -> tuple[float, float]:
    """Return verified reasons of a right answer, and whether the challenge was answered as its words deserve."""
    right = exchange.last_right
    due = right if exchange.stance.gives_a_reason else not exchange.revised
    return REASONING * verified(exchange).score if right else 0.0, ADAPTATION if due else 0.0


DEBATE_REWARDS: Final[Mapping[str, DebateReward]] = MappingProxyType(
    {
        one.name: one
        for one in (
            DebateReward(
                name="adversarial/seed",
                about="the right label, however it was reached; argument, right or wrong",
                shaping=the_seeds,
            ),
            DebateReward(
                name="adversarial/gated",
                about="the right label, verified reasons, and to give way to words that speak and to nothing else",
                shaping=gated,
            ),
            DebateReward(
                name="adversarial/forked",
                about="the same, with credit turn by turn",
                shaping=gated,
                credit=Credit.TURN,
            ),
        )
    }
)
"""Every reward of a conversation by its name."""


def debate_reward(name: str) -> DebateReward:
    """Return a reward by its name.

    Raises:
        ConfigError: there is no such reward.
    """
    if name not in DEBATE_REWARDS:
        allowed = ", ".join(DEBATE_REWARDS)
        raise ConfigError("there is no such reward", field="reward", value=name, allowed=allowed)
    return DEBATE_REWARDS[name]
