"""What kinds of experiments there are, and for which size of model their numbers are."""

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
    DEBATE = "debate"
    """Labels of papers under challenge: A predicts, B challenges, A revises or defends."""
    JOINT = "joint"
    """Both labels of papers in one answer, by reinforcement."""


class At(enum.StrEnum):
    """For which size of model the numbers are."""

    NANO = "nano"
    """The base that is built here, from scratch."""
    SMALL = "small"
    """A small pretrained chat model: SmolLM2-135M-Instruct, on two cores."""
    SEED = "seed"
    """As in the source notes: Llama-3.1-8B-Instruct on a hosted service."""
