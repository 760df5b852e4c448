"""What a run asks of its papers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.labels.task import Task, make_task
from tinsmith.lab.runs.kinds import Kind
from tinsmith.types.fingerprints import LATER


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
        """Return the task."""
        task = make_task(self.task, prompt=self.prompt, contract=self.contract, with_metadata=self.with_metadata)
        lines = tuple(line.strip() for line in self.prompt_lines.splitlines() if line.strip())
        return replace(task, prompt_lines=lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfPapers:
    """What a run asks of its papers, and what answers earn."""

    asked: Task
    reward: str
    shuffle_labels: bool


def on_papers(plan: Plan) -> AskedOfPapers:
    """Return what a plan asks of its papers."""
    if isinstance(plan.frame, Frame):
        asked = plan.frame.asked()
        return AskedOfPapers(asked=asked, reward=plan.frame.reward, shuffle_labels=plan.frame.shuffle_labels)
    found = getattr(getattr(plan.experiment.subject, "task", None), "run", None)
    assert isinstance(found, AskedOfPapers), "this experiment is not on papers"
    return found


def task_asked(plan: Plan) -> Task:
    """Return what is asked of a plan's papers."""
    return on_papers(plan).asked
