"""What kinds of runs there are."""

from __future__ import annotations

import enum


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


class Status(enum.StrEnum):
    """How far a run came."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    """Its server or judge was lost."""
