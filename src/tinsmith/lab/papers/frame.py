"""The keys of an experiment on papers other than the loop's settings: on one label, and on both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.labels.task import Task, make_joint_task, make_task
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import Selection
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import LATER

SELECTIONS: Final = (Selection.MACRO_F1, Selection.BALANCED_ACCURACY, Selection.MIN_CLASS_RECALL, Selection.LAST)
"""What a checkpoint can be chosen by: the mean of both tasks, of the smallest recall the smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(RunFrame):
    """The keys of an experiment on papers, other than the loop's settings."""

    kind: Kind = Kind.RL
    task: str = "disruption"
    """Which label: disruption or novelty."""
    prompt: str = "plain"
    """How it is asked for: plain, brief, short, checklist or ontology."""
    contract: str = "four_key"
    """Which JSON keys an answer has: four_key or two_key."""
    with_metadata: bool = True
    """Whether the prompt shows year and citations, which leak the label."""
    reward: str = "soft"
    """What an answer earns; tinsmith analyse incentives knows every name."""
    shuffle_labels: bool = False
    """Shuffle the training labels among the papers: the negative control."""
    prompt_lines: str = field(default="", metadata=LATER)
    """Lines before the paper in every prompt, such as a search finds them; none where it is empty."""

    def asked(self) -> Task:
        """Return the task.

        Raises:
            ConfigError: one of its names is unknown.
        """
        task = make_task(self.task, prompt=self.prompt, contract=self.contract, with_metadata=self.with_metadata)
        lines = tuple(line.strip() for line in self.prompt_lines.splitlines() if line.strip())
        return replace(task, prompt_lines=lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointFrame(RunFrame):
    """The keys of an experiment on both labels: those of a single one, where they mean anything."""

    kind: Kind = Kind.JOINT
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
        return make_joint_task(prompt=self.prompt, contract=self.contract, with_metadata=self.with_metadata)


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


def on_papers(plan: Plan | RunFrame) -> Frame | JointFrame:
    """Return the frame of a plan on papers, or the frame itself."""
    frame = plan.frame if isinstance(plan, Plan) else plan
    assert isinstance(frame, Frame | JointFrame), "this experiment is not on papers"
    return frame


def task_asked(plan: Plan) -> Task:
    """Return what is asked of a plan's papers."""
    return on_papers(plan).asked()
