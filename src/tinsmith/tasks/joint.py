"""The joint task: disruption and novelty of a paper in one answer, and a paper with the labels of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tinsmith.data.slice_rows import PaperRow
from tinsmith.tasks.contracts import THREE_KEY, JointContract, joint_contract
from tinsmith.tasks.paper import Item, Paper, paper_of, scores_of
from tinsmith.tasks.prompt_files import Prompt, load_joint_prompt
from tinsmith.tasks.subjects import Subject
from tinsmith.tasks.task import TASKS, Task
from tinsmith.types.errors import DataError

JOINT: Final = "joint"
"""The task's name, in a run's folder and for `tinsmith data slice --task`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTask:
    """One question about both labels.

    Raises:
        ConfigError: there is no such prompt.
    """

    contract: JointContract = THREE_KEY
    prompt: str = "plain"
    with_metadata: bool = True
    """As Task's."""

    def __post_init__(self) -> None:
        self.loaded_prompt()

    @property
    def name(self) -> str:
        """What it is called."""
        return JOINT

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """What is asked about, in the order of the answer's keys; labels of papers stand in this order too."""
        return self.contract.subjects

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that ask for one of the labels alone, in the same order: whose rewards and scores are used."""
        return tuple(TASKS[subject.value] for subject in self.subjects)

    @property
    def prompt_sha256(self) -> str:
        """The identity of all words the task says itself; the paper's are not in it."""
        return self.loaded_prompt().sha256

    def loaded_prompt(self) -> Prompt:
        """Return the prompt for this contract."""
        return load_joint_prompt(self.prompt, self.contract, with_metadata=self.with_metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointItem:
    """A paper with the labels its answer is scored against. No prompt is made from an item."""

    paper: Paper
    golds: tuple[str, ...]
    """In the order of the task's subjects."""
    hidden: tuple[float, ...] = ()
    """As Item's."""

    @property
    def prompt_id(self) -> str:
        """The paper's id: its name in the files of a run."""
        return self.paper.id

    def alone(self, place: int) -> Item:
        """Return the paper with its label for the subject at `place`, as if nothing else had been asked."""
        return Item(paper=self.paper, gold=self.golds[place], hidden=self.hidden)


def make_joint_task(
    *, prompt: str = "plain", contract: str = "three_key", with_metadata: bool = True
) -> JointTask:
    """Return the joint task from names, as they stand in an experiment or on a command line.

    Raises:
        ConfigError: one of the names is unknown.

    >>> make_joint_task().contract.keys
    ('disruption_label', 'novelty_label', 'confidence')
    """
    return JointTask(contract=joint_contract(contract), prompt=prompt, with_metadata=with_metadata)


def joint_items_of(rows: Iterable[PaperRow], task: JointTask) -> list[JointItem]:
    """Return one item a row, in order.

    Raises:
        DataError: a row lacks one of the labels.
    """
    return [_item(row, task) for row in rows]


def _item(row: PaperRow, task: JointTask) -> JointItem:
    golds: list[str] = []
    for subject in task.subjects:
        gold = subject.gold(row)
        if gold is None:
            raise DataError(
                f"paper {row.openalex_id} has no {subject} label, and both are asked for",
                field=subject.label_key,
                value=None,
                allowed=", ".join(subject.labels),
                fix=f"cut the slice for both: tinsmith data slice CORPUS --task {task.name}",
            )
        golds.append(gold)
    return JointItem(paper=paper_of(row), golds=tuple(golds), hidden=scores_of(row))
