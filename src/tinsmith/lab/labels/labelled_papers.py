"""Papers with labels as a subject: a task, its papers by split, the tokens they become for one model, their reward.

A paper's prompt is rendered once and checked for leaks before any of it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, takewhile
from typing import TYPE_CHECKING

from tinsmith.lab.datums import Example
from tinsmith.lab.environment import OneReply
from tinsmith.lab.grouping import Line, ScoredGroup, share
from tinsmith.lab.labels.contracts import Answer, Confidence, Outcome
from tinsmith.lab.labels.leaks import prompt_messages
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.rewards import LabelReward
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rollouts import Failure, Rollout, Trajectory
from tinsmith.lab.subject import Split, Subject
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.stats.evaluation import Answered, Evaluation, Evaluations

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The items of each split, in the slice's order. The test split is looked at once, at the end."""

    train: Sequence[Item]
    validation: Sequence[Item]
    test: Sequence[Item]

    def of(self, split: Split) -> Sequence[Item]:
        """Return a split's."""
        return {Split.TRAIN: self.train, Split.VALIDATION: self.validation, Split.TEST: self.test}[split]


PaperRollout = Rollout[Item, Answer]


@dataclass(slots=True)
class LabelledPapers(Subject[Item, Answer]):
    """Labels of papers as a `Subject`; its methods are described there."""

    task: Task
    papers: Papers
    renderer: Renderer
    tokenizer: PreTrainedTokenizerBase
    reward: LabelReward | None = None  # None: nothing is rewarded, as in supervised training.
    _prompts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def items(self, split: Split) -> Sequence[Item]:
        return self.papers.of(split)

    def prompt(self, item: Item) -> tuple[int, ...]:
        """Return the tokens after which the model answers."""
        key = item.paper.id
        if key not in self._prompts:
            asked = prompt_messages(self.task, item)
            self._prompts[key] = self.renderer.build_generation_prompt(asked)
        return self._prompts[key]

    def stop(self) -> Sequence[int]:
        return self.renderer.stop_sequences()

    def environments(self, item: Item, count: int, seed: int) -> Sequence[OneReply]:
        """Make conversations of one reply; nothing is drawn."""
        del seed
        return [OneReply(self.prompt(item))] * count

    def text(self, tokens: Sequence[int]) -> str:
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[Item]]) -> list[Answer]:
        """Read the last reply by the contract."""
        return [self.task.contract.parse(one.text) for one in trajectories]

    def score(self, rollouts: Sequence[PaperRollout]) -> list[NamedTerms]:
        assert self.reward is not None, "nothing is rewarded"
        items, answers = [one.item for one in rollouts], [one.answer for one in rollouts]
        terms = self.reward.score(items, answers)
        self.reward.update(items, answers)
        return terms

    def figures(self, groups: Sequence[Sequence[PaperRollout | Failure[Item]]], split: str) -> dict[str, float]:
        return self.evaluations(groups).metrics(split)

    def evaluations(self, groups: Sequence[Sequence[PaperRollout | Failure[Item]]]) -> Evaluations:
        """Return the evaluation of one answer a paper, of each subject that it is labelled for."""
        rollouts = [one for group in groups for one in group if isinstance(one, Rollout)]
        return Evaluations(
            {
                subject.value: Evaluation(subject.labels, tuple(_answered(one, place) for one in rollouts))
                for place, subject in enumerate(self.task.subjects)
            }
        )

    def train_figures(self, groups: Sequence[ScoredGroup[Item, Answer]]) -> dict[str, float]:
        task = self.task
        rollouts = [one.rollout for group in groups for one in group.scored]
        metrics: dict[str, float] = {}
        for place, subject in enumerate(task.subjects):
            for label in subject.labels:
                of_label = [one.informative for one in groups if one.item.golds[place] == label]
                if of_label:
                    metrics[f"train/groups/informative/{label}"] = share(of_label)
            if not rollouts:
                continue
            under = task.under("train", subject)
            said = [one.answer.alone(place).predicted for one in rollouts]
            metrics[f"{under}/label_match"] = share(
                label == one.item.golds[place] for label, one in zip(said, rollouts, strict=True)
            )
            for label in subject.labels:
                metrics[f"{under}/predicted_share/{label}"] = share(one == label for one in said)
        if rollouts:
            metrics["train/parse_ok"] = share(one.answer.outcome is Outcome.OK for one in rollouts)
        if rollouts and len(task.subjects) > 1:
            metrics["train/exact_match"] = share(one.answer.predicted_labels == one.item.golds for one in rollouts)
        return metrics

    def facts(self, rollout: PaperRollout) -> Line:
        return self.task.facts(rollout.item.golds, rollout.answer)

    def item_facts(self, item: Item) -> Line:
        return {"gold": self.task.by_subject(item.golds)}

    def example(self, item: Item) -> Example:
        """Return the right answer; confidence is not known, and the answer says medium."""
        answer = self.task.contract.answer_text(item.golds, Confidence.MEDIUM)
        reply = Message(role=Role.ASSISTANT, content=answer)
        tokens, weights = self.renderer.build_supervised_example((*prompt_messages(self.task, item), reply))
        return Example.after(sum(weight == 0.0 for weight in weights), tokens)

    def trace(self) -> Mapping[str, float]:
        return {} if self.reward is None else {f"reward/{key}": one for key, one in self.reward.trace().items()}

    def state(self) -> object:
        return None if self.reward is None else self.reward.state()

    def restore(self, state: object) -> None:
        if self.reward is not None:
            self.reward.restore(state)

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


def _answered(rollout: PaperRollout, place: int) -> Answered:
    answer = rollout.answer.alone(place)
    return Answered(
        item=rollout.item.paper.id,
        gold=rollout.item.golds[place],
        predicted=answer.predicted,
        outcome=answer.outcome.value,
        parse_ok=answer.parse_ok,
        confidence=answer.confidence,
        lenient=answer.lenient,
    )
