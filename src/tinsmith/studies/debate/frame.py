"""The keys of an experiment with a challenger, other than the loop's settings."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.papers.frame import Frame
from tinsmith.lab.runs.kinds import Kind
from tinsmith.studies.debate.rewards import Credit, debate_reward
from tinsmith.studies.debate.script import load_script
from tinsmith.studies.debate.stance import Arms, WrongLabel
from tinsmith.types.errors import ConfigError


class WhichPapers(enum.StrEnum):
    """Which papers of a slice are discussed."""

    ALL = "all"
    ARGUABLE = "arguable"
    """Those whose abstract has words for their gold label, so that a truthful challenger has evidence."""


class WhichCues(enum.StrEnum):
    """Which words a scripted challenger takes for evidence, and with no `data` which world is discussed."""

    WORDS = "words"
    """Six words of a world made to be argued about, small enough for the nano base."""
    PLANTED = "planted"
    """Those that the synthetic worlds plant."""
    LEARNED = "learned"
    """Those that the training papers of a label use more than the others."""


SCRIPTED: Final = "scripted"
NOBODY: Final = "nobody"
ITSELF: Final = "base"
"""Who challenges: one that follows a script, nobody, or the model under the adapter, frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateFrame(Frame):
    """The keys of an experiment with a challenger, other than the loop's settings."""

    kind: Kind = Kind.DEBATE
    with_metadata: bool = False
    reward: str = "adversarial/gated"
    """What a conversation earns: adversarial/gated, adversarial/seed or adversarial/forked."""
    opponent: str = SCRIPTED
    """B: `scripted`, `nobody` (the first answer is the last), or a model, which needs script=plain: `base` (the run's
    own without its adapter), a folder, or a name that base_url serves."""
    script: str = "plain"
    """The challenger's words: `brief` or `plain`."""
    truthful: float = 0.25
    """Share of challenges that argue for the gold label."""
    misleading: float = 0.5
    """Share that argue for a wrong one. With K - 1 times the truthful share a bare label says nothing."""
    null: float = 0.25
    """Share that only ask whether the model is sure."""
    evidence: float = 1.0
    """Share that quote words of the paper, of those that name a label."""
    wrong: WrongLabel = WrongLabel.ANY
    """Which wrong label a misleading challenge argues for: any, or one that was not answered."""
    cues: WhichCues = WhichCues.WORDS
    """Which words are taken for evidence."""
    papers: WhichPapers = WhichPapers.ARGUABLE
    """Which papers are discussed: all, or those with words for their label."""
    forks: int = 1
    """Second answers for each first one: adversarial/forked needs 2 or more."""
    opponent_max_tokens: int = 96
    """Most tokens in a challenge that a model writes."""
    opponent_temperature: float = 1.0
    """Temperature at which such a challenge is sampled."""

    def arms(self) -> Arms:
        """Return what a challenger argues for, and how often.

        Raises:
            ConfigError: the shares do not sum to 1.
        """
        return Arms(
            truthful=self.truthful, misleading=self.misleading, null=self.null, evidence=self.evidence, wrong=self.wrong
        )

    def __post_init__(self) -> None:
        self.arms()
        script = load_script(self.script)
        if self.opponent not in (SCRIPTED, NOBODY) and not script.asks_models:
            raise ConfigError(
                "this script has no words to ask a model with",
                field="script",
                value=self.script,
                allowed="plain",
                fix="script=plain, or opponent=scripted",
            )
        by_turn = debate_reward(self.reward).credit is Credit.TURN
        if self.forks < 1 or by_turn != (self.forks > 1):
            raise ConfigError(
                "turn-by-turn credit needs forks, and forks are used for nothing else",
                field="forks",
                value=self.forks,
                allowed="2 or more with reward=adversarial/forked, 1 with another",
            )
        if by_turn and self.opponent == NOBODY:
            raise ConfigError("without a challenge there is no second turn", field="opponent", value=self.opponent)
