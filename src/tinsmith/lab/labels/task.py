"""A task: what is asked about a paper, in which words, and how the answer must look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeVar

from tinsmith.lab.labels.contracts import FOUR_KEY, JOINT, NOVELTY_FOUR_KEY, Answer, Contract, Subject, contract_for
from tinsmith.lab.labels.prompt_files import Prompt, load_prompt
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import LATER

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question, about one subject or several; vary it with `dataclasses.replace(task, prompt="ontology")`."""

    contract: Contract
    prompt: str = "plain"
    with_metadata: bool = True
    """Whether the model is told the year and the citations. Both say something about the label that
    nobody knew when the paper came out."""
    prompt_lines: tuple[str, ...] = field(default=(), metadata=LATER)
    """What the user's message begins with: a document as `lab/prompt_search` finds it."""

    def __post_init__(self) -> None:
        self.loaded_prompt()

    @property
    def name(self) -> str:
        """Its subject, or JOINT; in a run's folder and for `tinsmith data slice --task`."""
        return self.contract.about

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """What is asked about, in the order of the answer's keys; labels of papers stand in this order too."""
        return self.contract.subjects

    @property
    def alone(self) -> tuple[Task, ...]:
        """The tasks that ask about one of the subjects each, in the same order: whose rewards and scores are used."""
        if len(self.subjects) == 1:
            return (self,)
        every = (TASKS[subject.value] for subject in self.subjects)
        return tuple(replace(one, with_metadata=self.with_metadata) for one in every)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of every subject in their fixed order."""
        return self.contract.labels

    @property
    def prompt_sha256(self) -> str:
        """The identity of all words the task says itself; the paper's are not in it."""
        return self.loaded_prompt().sha256

    def loaded_prompt(self) -> Prompt:
        """Return the prompt for this contract."""
        return load_prompt(self.prompt, self.contract, with_metadata=self.with_metadata, lines=self.prompt_lines)

    def facts(self, golds: tuple[str, ...], answer: Answer) -> dict[str, object]:
        """Return what a rollout's line says of an answer."""
        labels = answer.predicted_labels
        return {
            "outcome": answer.outcome.value,
            "gold": self.by_subject(golds),
            "predicted": None if labels is None else self.by_subject(labels),
            "confidence": answer.confidence,
        }

    def by_subject(self, values: Sequence[T]) -> T | dict[str, T]:
        """Return what files say of one value a subject: the only one as it is, several by their subjects' names."""
        if len(self.subjects) == 1:
            return values[0]
        names = [subject.value for subject in self.subjects]
        return dict(zip(names, values, strict=True))

    def one_a_subject(self, told: object) -> list[object]:
        """Return the values that `by_subject` told."""
        if len(self.subjects) == 1:
            return [told]
        names = [subject.value for subject in self.subjects]
        if not isinstance(told, Mapping) or set(told) != set(names):
            raise CheckpointError("this is no joint task's state", field="subjects", allowed=", ".join(names))
        return [told[name] for name in names]

    def under(self, group: str, subject: Subject) -> str:
        """Return what a subject's metrics of a group stand under: `group`, or `group/SUBJECT` beside another's."""
        return group if len(self.subjects) == 1 else f"{group}/{subject}"


TASKS: Final[Mapping[str, Task]] = MappingProxyType(
    {task.name: task for task in (Task(contract=FOUR_KEY), Task(contract=NOVELTY_FOUR_KEY))}
)
"""Every task about one subject by its name, as the seeds' reference run asks it: plain prompt, four keys, metadata."""


def make_task(name: str, *, prompt: str = "plain", contract: str = "four_key", with_metadata: bool = True) -> Task:
    """Return a task about one subject from names, as they stand in an experiment or on a command line.

    >>> make_task("disruption", contract="two_key").labels
    ('disruptive', 'consolidating', 'neutral')
    """
    if name not in TASKS:
        raise ConfigError("no such task", field="task", value=name, allowed=", ".join(TASKS))
    return Task(contract=contract_for(name, contract), prompt=prompt, with_metadata=with_metadata)


def make_joint_task(*, prompt: str = "plain", contract: str = "three_key", with_metadata: bool = True) -> Task:
    """Return the task that asks for both labels in one answer.

    >>> make_joint_task().contract.keys
    ('disruption_label', 'novelty_label', 'confidence')
    """
    return Task(contract=contract_for(JOINT, contract), prompt=prompt, with_metadata=with_metadata)
