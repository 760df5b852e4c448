"""The keys of an experiment on both labels of papers other than the loop's settings."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.experiments.kinds import At, Kind
from tinsmith.tasks.joint import JointTask, make_joint_task


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

    def asked(self) -> JointTask:
        """Return the task.

        Raises:
            ConfigError: one of its names is unknown.
        """
        return make_joint_task(
            prompt=self.prompt, contract=self.contract, with_metadata=self.with_metadata
        )
