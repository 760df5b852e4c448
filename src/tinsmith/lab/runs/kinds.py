"""What kinds of runs there are."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Kind(enum.StrEnum):
    """Which loop, and what it teaches."""

    RL = "rl"
    """Labels of papers, by reinforcement."""
    SFT = "sft"
    """Labels of papers, by example."""
    RLVR = "rlvr"
    """Instructions, by reinforcement; what is rewarded are rubrics that a judge finds fulfilled."""
    TASK = "task"
    """A task of the user's own, by reinforcement."""
    DEBATE = "debate"
    """Labels of papers under challenge: A predicts, B challenges, A revises or defends."""
    JOINT = "joint"
    """Both labels of papers in one answer, by reinforcement."""
    MEASUREMENT = "measurement"
    """Nothing is trained: a folder of that kind holds no run, and has its page already."""


KIND_WORDS: Final[Mapping[Kind, str]] = {
    Kind.RL: "RL",
    Kind.SFT: "SFT",
    Kind.RLVR: "RL with rubrics",
    Kind.JOINT: "RL on two labels",
    Kind.TASK: "RL on a task of one's own",
    Kind.DEBATE: "RL under challenge",
}
DATA_WORDS: Final[Mapping[Kind, str]] = {Kind.RLVR: "Tasks", Kind.TASK: "Items"}
"""What the data of a run are called where they are no papers."""
WITH_BASELINES: Final = frozenset({Kind.RL, Kind.SFT})
"""Elsewhere there is no class that a baseline could answer, two sets of them, or only a part of the papers is asked."""


class Status(enum.StrEnum):
    """How far a run came."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """Its server or judge was lost."""
