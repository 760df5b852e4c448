"""The keys of an experiment on both labels of papers other than the loop's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.labels.task import (Task, make_joint_task,)
from tinsmith.lab.settings import Selection
from tinsmith.types.errors import ConfigError

SELECTIONS: Final = (
    Selection.MACRO_F1,
    Selection.BALANCED_ACCURACY,
    Selection.MIN_CLASS_RECALL,
    Selection.LAST,
)
"""What a checkpoint can be chosen by: the mean of both tasks, of the smallest recall the smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFrame:
    """See the module; the keys are those of a single label's experiment, where they mean anything."""

    kind: Kind = Kind.JOINT
    at: At = At.NANO
    prompt: str = "plain"
    """How both are asked for: plain or brief."""
    contract: str = "three_key"
    """`three_key`: both labels and a confidence; `five_key`: with a justification and signals."""
    with_metadata: bool = True
    """Whether the prompt shows year and citations, which leak the disruption label."""
    reward: str = "macro_f1"
    """The reward of each label; each has a memory of its own."""
    shuffle_labels: bool = False
    """Shuffle the training papers' pairs of labels among them: the negative control."""

    def asked(self) -> Task:
        """Return the task.

        Raises:
            ConfigError: one of its names is unknown.
        """
        return make_joint_task(
            prompt=self.prompt, contract=self.contract, with_metadata=self.with_metadata
        )


def require_selection(select_by: Selection) -> None:
    """Refuse to choose checkpoints by what a joint answer has no one figure for.

    Raises:
        ConfigError: naming what can be chosen by.
    """
    if select_by not in SELECTIONS:
        raise ConfigError(
            "a run on two labels has no label_match of its own",
            field="select_by",
            value=select_by.value,
            allowed=", ".join(SELECTIONS),
            fix="select_by=macro_f1 is the mean over both tasks",
        )
