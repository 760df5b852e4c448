"""Stance of a challenger in one conversation, drawn so that its bare label says nothing about the truth.

The arm and the wrong label come from the seed and the paper's id; neither looks at whether the first
answer is right. That alone does not keep the arm hidden, because the model sees its own answer beside
the label it hears. With a truthful share t, a misleading share m and K labels, the rule "change to
whatever B says" has, where B names a label, P(changed | wrong) - P(changed | right) equal to

    (t - m / (K - 1)) / (t + m)   where the wrong label is any wrong one, drawn evenly (WrongLabel.ANY),
    t / (t + m)                   where it is never the label that was answered (WrongLabel.OTHER).

With OTHER a B that agrees can only be the truthful one, so a model that reads nothing discriminates by
that: no control without evidence could fail. With ANY and m = (K - 1) t the label B names is
independent of the gold label, and what is left has to come from the words that are quoted. That is the
default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tinsmith.lab.labels.task import Item
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits


class Arm(StrEnum):
    """Aim of a challenger, drawn before it is known whether the prediction is right: the gold label, a wrong one, none.

    In the null arm it asks whether the prediction is sure.
    """

    TRUTHFUL = "truthful"
    MISLEADING = "misleading"
    NULL = "null"


class WrongLabel(StrEnum):
    """Wrong label that a misleading challenger argues for: any, which may be the answered one, or one not answered."""

    ANY = "any"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stance:
    """Aim of one challenge: its label (None in the null arm), and whether it quotes words of the paper.

    `grounded` says if these words speak for the label; None where nothing is quoted or nobody knows.
    """

    arm: Arm
    label: str | None
    with_evidence: bool
    grounded: bool | None = None

    @property
    def gives_a_reason(self) -> bool:
        """True if it quotes words that speak for the label, as far as anybody knows."""
        return self.with_evidence and self.grounded is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The shares of the arms, and of the challenges with a label those that quote words."""

    truthful: float = 0.25
    misleading: float = 0.5
    null: float = 0.25
    evidence: float = 1.0
    wrong: WrongLabel = WrongLabel.ANY

    def __post_init__(self) -> None:
        shares = (self.truthful, self.misleading, self.null)
        if not all(0.0 <= share <= 1.0 for share in (*shares, self.evidence)):
            raise ConfigError("a share must be from 0 to 1", field="arms", value=(*shares, self.evidence))
        if abs(math.fsum(shares) - 1.0) > 1e-9:
            raise ConfigError("the shares of the arms must sum to 1", field="truthful, misleading, null", value=shares)

    def discrimination_for_nothing(self, num_labels: int) -> float:
        """Return the J, where a label is named, of changing to it; see the module. 0 with the defaults and 3 labels."""
        named = self.truthful + self.misleading
        if named == 0.0:
            return 0.0
        if self.wrong is WrongLabel.OTHER and num_labels > 2:
            return self.truthful / named
        return (self.truthful - self.misleading / (num_labels - 1)) / named

    def draw(self, item: Item, labels: Sequence[str], answered: str | None, seed: int) -> Stance:
        """Return the stance about an item; `answered` (None: no valid answer) matters only with OTHER."""
        bits = [int(b) for b in random_bits(derive(seed, "stance", item.paper.id), 3)]
        where = _unit(bits[0])
        if where >= self.truthful + self.misleading:
            return Stance(arm=Arm.NULL, label=None, with_evidence=False)
        with_evidence = _unit(bits[1]) < self.evidence
        if where < self.truthful:
            return Stance(arm=Arm.TRUTHFUL, label=item.gold, with_evidence=with_evidence)
        wrong = [label for label in labels if label != item.gold]
        if self.wrong is WrongLabel.OTHER:
            wrong = [label for label in wrong if label != answered] or wrong
        label = wrong[bits[2] % len(wrong)]
        return Stance(arm=Arm.MISLEADING, label=label, with_evidence=with_evidence)


def _unit(bits: int) -> float:
    return (bits >> 11) * 2.0**-53


class Draws:
    """Draws from one seed, one after the other; at most 32."""

    def __init__(self, seed: int) -> None:
        self._bits = iter(random_bits(seed, 32))

    def below(self, share: float) -> bool:
        """Say yes with a probability."""
        return _unit(int(next(self._bits))) < share

    def one(self, choices: Sequence[str]) -> str:
        """Return one of them."""
        return choices[int(next(self._bits)) % len(choices)]

    def order(self, sentences: Sequence[str]) -> list[str]:
        """Return them in another order."""
        keys = [int(next(self._bits)) for _ in sentences]
        return [sentences[at] for at in sorted(range(len(keys)), key=keys.__getitem__)]
