"""What kinds of runs there are."""

from __future__ import annotations

import enum


class Kind(enum.StrEnum):
    """Which loop, and what it teaches."""

    RL = "rl"  # Labels of papers, by reinforcement.
    SFT = "sft"  # Labels of papers, by example.
    RLVR = "rlvr"  # Instructions, by reinforcement; what is rewarded are rubrics that a judge finds fulfilled.
    TASK = "task"  # A task of the user's own, by reinforcement.
    TASK_SFT = "task_sft"  # A task of the user's own, by example.
    TASK_SPARSE = "task_sparse"  # A task of the user's own, by the base's own rollouts at uncertain tokens.
    JOINT = "joint"  # Both labels of papers in one answer, by reinforcement.
    MEASUREMENT = "measurement"  # Nothing is trained: a folder of that kind holds no run, and has its page already.

    @property
    def words(self) -> str:
        """What a page calls it."""
        return {
            Kind.RL: "RL",
            Kind.SFT: "SFT",
            Kind.RLVR: "RL with rubrics",
            Kind.TASK: "RL on a task of one's own",
            Kind.TASK_SFT: "SFT on a task of one's own",
            Kind.TASK_SPARSE: "Sparse selection on a task of one's own",
            Kind.JOINT: "RL on two labels",
        }[self]

    @property
    def data_words(self) -> str:
        """What its data are called."""
        return {Kind.RLVR: "Tasks", Kind.TASK: "Items", Kind.TASK_SFT: "Items", Kind.TASK_SPARSE: "Items"}.get(
            self, "Papers"
        )

    @property
    def has_baselines(self) -> bool:
        """Whether its answers stand beside baselines, which answer every paper, each with one label."""
        return self in (Kind.RL, Kind.SFT)


class Status(enum.StrEnum):
    """How far a run came."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    LOST = "lost"  # Its server or judge was lost.
