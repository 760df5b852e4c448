"""What is studied: a task, its papers by split, and the tokens they become for one model.

A paper's prompt is rendered once and checked for leaks before any of it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product, takewhile
from typing import TYPE_CHECKING

from tinsmith.lab.environment import OneReply
from tinsmith.lab.labels.answers import Answer, Confidence
from tinsmith.lab.labels.environment import SingleTurn
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rollout_metrics import Line
from tinsmith.lab.rollouts import Rollout, Trajectory
from tinsmith.renderers.renderer import Message, Renderer, Role

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The items of each split, in the slice's order. The test split is looked at once, at the end."""

    train: Sequence[Item]
    validation: Sequence[Item]
    test: Sequence[Item]


@dataclass(slots=True)
class Study:
    """A task on papers, in one model's tokens."""

    task: Task
    papers: Papers
    renderer: Renderer
    tokenizer: PreTrainedTokenizerBase
    _prompts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def prompt(self, item: Item) -> tuple[int, ...]:
        """Return the tokens after which the model answers.

        Raises:
            DataError: the label or a score has leaked into the prompt.
        """
        key = item.paper.id
        if key not in self._prompts:
            first = SingleTurn(self.task, item).first()
            self._prompts[key] = self.renderer.build_generation_prompt(first)
        return self._prompts[key]

    def stop(self) -> Sequence[int]:
        """See Ground."""
        return self.renderer.stop_sequences()

    def environments(self, item: Item, count: int, seed: int) -> Sequence[OneReply]:
        """See Ground; nothing is drawn.

        Raises:
            DataError: the label or a score has leaked into the prompt.
        """
        del seed
        return [OneReply(self.prompt(item))] * count

    def text(self, tokens: Sequence[int]) -> str:
        """See Ground."""
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[Item]]) -> list[Answer]:
        """See Ground: what the contract reads in the last reply."""
        return [self.task.contract.parse(one.turns[-1].text) for one in trajectories]

    def answer_facts(self, rollout: Rollout[Item, Answer]) -> Line:
        """Return what a rollout's line says of its answer."""
        answer = rollout.answer
        labels = answer.predicted_labels
        return {
            "outcome": answer.outcome.value,
            **self.item_facts(rollout.item),
            "predicted": None if labels is None else self.task.by_subject(labels),
            "confidence": answer.confidence,
        }

    def item_facts(self, item: Item) -> Line:
        """Return what a rollout's line says of its paper."""
        return {"gold": self.task.by_subject(item.golds)}

    def answer(self, labels: str | tuple[str, ...]) -> str:
        """Return the answer that SFT teaches for these labels: confidence is not known, and says medium."""
        return self.task.contract.answer_text(labels, Confidence.MEDIUM)

    def example(self, item: Item, answer: str) -> tuple[tuple[int, ...], int]:
        """Return the tokens of prompt and answer with its end, and how many of them are the prompt's."""
        reply = Message(role=Role.ASSISTANT, content=answer)
        prompt = SingleTurn(self.task, item).first()
        tokens, weights = self.renderer.build_supervised_example((*prompt, reply))
        return tokens, sum(weight == 0.0 for weight in weights)

    def choices(self) -> list[tuple[str, ...]]:
        """Return everything that can be answered: a label a subject, in the order of the subjects and their labels."""
        return list(product(*(subject.labels for subject in self.task.subjects)))

    def label_tokens(self, labels: str | tuple[str, ...]) -> tuple[int, ...]:
        """Return the tokens with which every answer with these labels begins, as the tokenizer cuts whole answers."""
        contract = self.task.contract
        answers = [
            contract.answer_text(labels, confidence, justification=words)
            for confidence in Confidence
            for words in ("", "The")
        ]
        return common_opening(self.tokenizer, answers)


def common_opening(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the tokens with which all texts begin, as the tokenizer cuts each of them whole."""
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    common = takewhile(lambda column: len(set(column)) == 1, zip(*encoded, strict=False))
    return tuple(column[0] for column in common)
