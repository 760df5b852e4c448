"""B, who challenges a prediction: one that follows a script, and a frozen model that the Tinker API asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from tinsmith.lab.labels.paper import Item
from tinsmith.studies.debate.cues import WORLD_CUES, Cues, Quote, pieces_of
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import DEFAULT_ARMS, Arm, Arms, Stance
from tinsmith.studies.debate.transcript import Transcript
from tinsmith.types.errors import InputError
from tinsmith.types.seeds import derive


class Pending(Protocol):
    """A challenge that was asked for, and may still be on its way."""

    @property
    def stance(self) -> Stance:
        """What it argues for; known before its words are."""
        ...

    def text(self) -> str:
        """Wait for its words; the same each time. What fails here is the failure of one rollout."""
        ...


class Opponent(Protocol):
    """Someone who challenges. Never trained."""

    def challenge(self, seen: Transcript, seed: int) -> Pending:
        """Begin a challenge to the last answer; does not wait.

        The stance comes from the seed and the paper (`Arms.draw`), and never from whether the answer
        is right. Equal transcripts and seeds give equal challenges.
        """
        ...


@dataclass(frozen=True, slots=True)
class Said:
    """A challenge that is there."""

    stance: Stance
    words: str

    def text(self) -> str:
        """See Pending."""
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedOpponent:
    """See Opponent. Quotes by the rule of tinsmith.studies.debate.cues."""

    labels: tuple[str, ...]
    script: Script
    arms: Arms = DEFAULT_ARMS
    cues: Cues = WORLD_CUES

    def challenge(self, seen: Transcript, seed: int) -> Said:
        """See Opponent.

        Raises:
            InputError: nothing was answered yet.
        """
        if seen.final is None:
            raise InputError("there is no answer to challenge")
        item = seen.item
        stance = self.arms.draw(item, self.labels, seen.final.predicted, seed)
        here = derive(seed, "words", item.paper.id)
        quote, grounded = None, None
        if stance.label is not None and stance.with_evidence:
            quote, grounded = self._quote(item, stance.label, stance.arm, derive(here, "quote"))
        stance = replace(stance, with_evidence=quote is not None, grounded=grounded)
        said = None if quote is None else quote.text
        return Said(stance, self.script.line(stance, said, derive(here, "wording")))

    def _quote(self, item: Item, label: str, arm: Arm, seed: int) -> tuple[Quote, bool] | tuple[None, None]:
        """Only who argues for the gold label may have words for it; others quote what does not speak for it."""
        abstract, title = pieces_of(item.paper.abstract), pieces_of(item.paper.title)
        if arm is Arm.TRUTHFUL and (speaking := self.cues.speaking(abstract, label)) is not None:
            return speaking, True
        silent = self.cues.silent(abstract, label, seed) or self.cues.silent(title, label, seed)
        return (None, None) if silent is None else (silent, False)


def arguable(items: Iterable[Item], cues: Cues = WORLD_CUES) -> list[Item]:
    """Return the papers whose abstract has words for their gold label, so that a truthful challenger has evidence.

    In the synthetic worlds these are two in three. Choosing them makes every task about them easier, with
    and without a challenger: compare only what was measured on the same papers.
    """
    return [item for item in items if cues.speaking(pieces_of(item.paper.abstract), item.gold) is not None]
