"""The joint task on papers, in one model's tokens: the prompts, the answers read, and every pair of labels' opening."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from tinsmith.renderers.renderer import Renderer
from tinsmith.tasks.answers import Confidence, JointAnswer
from tinsmith.tasks.joint import JointItem, JointTask
from tinsmith.tasks.leaks import check_prompt
from tinsmith.tasks.prompting import messages
from tinsmith.training.environment import OneReply
from tinsmith.training.rollouts import Rollout, Trajectory
from tinsmith.training.study import common_opening

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

JointRollout = Rollout[JointItem, JointAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPapers:
    """The items of each split, in the slice's order. The test split is looked at once, at the end."""

    train: Sequence[JointItem]
    validation: Sequence[JointItem]
    test: Sequence[JointItem]


@dataclass(slots=True)
class JointGround:
    """See Ground; its methods are described there."""

    task: JointTask
    renderer: Renderer
    tokenizer: PreTrainedTokenizerBase
    _prompts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def prompt(self, item: JointItem) -> tuple[int, ...]:
        """Return the tokens after which the model answers.

        Raises:
            DataError: a label or a score has leaked into the prompt.
        """
        key = item.paper.id
        if key not in self._prompts:
            first = messages(self.task, item.paper)
            check_prompt(self.task, item, first)
            self._prompts[key] = self.renderer.build_generation_prompt(first)
        return self._prompts[key]

    def stop(self) -> Sequence[int]:
        """See Ground."""
        return self.renderer.stop_sequences()

    def environments(self, item: JointItem, count: int, seed: int) -> Sequence[OneReply]:
        """See Ground; nothing is drawn.

        Raises:
            DataError: a label or a score has leaked into the prompt.
        """
        del seed
        return [OneReply(self.prompt(item))] * count

    def text(self, tokens: Sequence[int]) -> str:
        """See Ground."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[JointItem]]) -> list[JointAnswer]:
        """See Ground: what the contract reads in the last reply."""
        return [self.task.contract.parse(one.turns[-1].text) for one in trajectories]

    def choices(self) -> list[tuple[str, ...]]:
        """Return every combination of labels, in the order of the task's subjects and labels."""
        return list(product(*(subject.labels for subject in self.task.subjects)))

    def opening(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the tokens with which every answer with these labels begins."""
        contract = self.task.contract
        return common_opening(
            self.tokenizer,
            [
                contract.answer_text(labels, confidence, justification=words)
                for confidence in Confidence
                for words in ("", "The")
            ],
        )
