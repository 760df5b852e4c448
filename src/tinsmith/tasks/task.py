"""A task: what is asked about a paper, in which words, and how the answer must look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.tasks.contracts import FOUR_KEY, NOVELTY_FOUR_KEY, Contract, contract_for
from tinsmith.tasks.prompt_files import Prompt, load_prompt
from tinsmith.tasks.subjects import Subject
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question; vary it with `dataclasses.replace(task, prompt="ontology")`.

    Raises:
        ConfigError: there is no such prompt, or the contract is another subject's.
    """

    subject: Subject
    contract: Contract
    prompt: str = "plain"
    with_metadata: bool = True
    """Whether the model is told the year and the citations. Both say something about the label that
    nobody knew when the paper came out."""

    def __post_init__(self) -> None:
        if self.contract.subject is not self.subject:
            raise ConfigError(
                f"this contract is about {self.contract.subject}",
                field="contract",
                value=self.contract.name,
                allowed=f"a contract about {self.subject}",
            )
        self.loaded_prompt()

    @property
    def name(self) -> str:
        """Its name in TASKS."""
        return self.subject.value

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in their fixed order."""
        return self.subject.labels

    @property
    def prompt_sha256(self) -> str:
        """The identity of all words the task says itself; the paper's are not in it."""
        return self.loaded_prompt().sha256

    def loaded_prompt(self) -> Prompt:
        """Return the prompt for this contract."""
        return load_prompt(
            self.subject, self.prompt, self.contract, with_metadata=self.with_metadata
        )


TASKS: Final[Mapping[str, Task]] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task(subject=Subject.DISRUPTION, contract=FOUR_KEY),
            Task(subject=Subject.NOVELTY, contract=NOVELTY_FOUR_KEY),
        )
    }
)
"""Every task by its name, as the source notes' reference run asks it: plain prompt, four keys, metadata."""


def make_task(
    name: str, *, prompt: str = "plain", contract: str = "four_key", with_metadata: bool = True
) -> Task:
    """Return a task from names, as they stand in an experiment or on a command line.

    Raises:
        ConfigError: one of the names is unknown.

    >>> make_task("disruption", contract="two_key").labels
    ('disruptive', 'consolidating', 'neutral')
    """
    if name not in TASKS:
        raise ConfigError("no such task", field="task", value=name, allowed=", ".join(TASKS))
    subject = TASKS[name].subject
    return Task(
        subject=subject,
        contract=contract_for(subject, contract),
        prompt=prompt,
        with_metadata=with_metadata,
    )
