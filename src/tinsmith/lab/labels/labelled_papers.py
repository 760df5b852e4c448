"""Papers with labels as a subject, and log-probabilities of every label's opening after the prompt.

A paper's prompt is rendered once and checked for leaks before any of it is sent. The log-probabilities are exact
where sampling only estimates. They serve mutual information, `predict_proba`, logit offsets and the exact policy
gradient. The gradient: with K labels of probability pi_k (normalised over the labels) and reward r_k it is sum_k pi_k
(r_k - sum_j pi_j r_j) grad log pi_k: mean actor-critic (arXiv:1709.00503) over the one choice that the task term pays
for; a conditional expectation over that choice, so Rao-Blackwell's. A sampled step adds up its group_size rollouts of
a prompt, so here the sum is multiplied by group_size: a group in which every label has exactly its share pi_k gives
the same gradient. (What a sampled group gives on average is (group_size - 1) / group_size of it, because under
`center` a rollout is in its own baseline; `rloo` takes that back.) It carries the task term alone, given that an
answer keeps the contract. That it does is what sampled rollouts teach beside it, by parse, contract and think: their
advantages leave the task term out. What collapses under this gradient collapses because of the objective, and not of
its estimator. A reward's state is the sampled answers', as in every run: the same window, broken answers counted.

Offsets are SFT's honest comparator: the decision is argmax_k (log p_k + b_k), with offsets chosen on validation for
macro-F1. It moves the balance between classes after the fact, without any training (arXiv:2007.07314).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import tinker
from numpy.typing import NDArray

from tinsmith.data.slices.splits import Split
from tinsmith.lab.course import Tested
from tinsmith.lab.environment import OneReply
from tinsmith.lab.grouping import Example, Line, ScoredGroup, answer_datum, share, shared_opening
from tinsmith.lab.labels.contracts import Answer, Confidence, Outcome
from tinsmith.lab.labels.rewards import LabelReward
from tinsmith.lab.labels.task import Item, Paper, Task, prompt_messages
from tinsmith.lab.rollouts import WAIT_SECONDS, Group, Rollout, Trajectory, log_probs
from tinsmith.lab.subject import Subject
from tinsmith.lab.user_task.step_reward import NamedTerms, rounded_sum
from tinsmith.ops.exact import exp
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.stats.evaluation import Answered, Evaluation, Evaluations
from tinsmith.stats.information import label_information
from tinsmith.stats.rates import Confusion, Metric

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The items of each split, in the slice's order. The test split is looked at once, at the end."""

    train: Sequence[Item]
    validation: Sequence[Item]
    test: Sequence[Item]


PaperRollout = Rollout[Item, Answer]


@dataclass(slots=True)
class LabelledPapers(Subject[Item, Answer]):
    """Labels of papers as a `Subject`; its methods are described there."""

    task: Task
    papers: Papers
    renderer: Renderer
    tokenizer: PreTrainedTokenizerBase
    reward: LabelReward | None = None  # None: nothing is rewarded, as in supervised training.
    _prompts: dict[Paper, tuple[int, ...]] = field(default_factory=dict[Paper, tuple[int, ...]])

    def items(self, split: Split) -> Sequence[Item]:
        papers = self.papers
        return {Split.TRAIN: papers.train, Split.VALIDATION: papers.validation, Split.TEST: papers.test}[split]

    def prompt(self, item: Item) -> tuple[int, ...]:
        """Return the tokens after which the model answers."""
        key = item.paper
        if key not in self._prompts:
            messages = prompt_messages(self.task, item)
            self._prompts[key] = self.renderer.build_generation_prompt(messages)
        return self._prompts[key]

    def stop(self) -> Sequence[int]:
        return self.renderer.stop_sequences()

    def environments(self, item: Item, count: int, seed: int) -> Sequence[OneReply]:
        """Create conversations of one reply; nothing is drawn."""
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

    def figures(self, groups: Sequence[Group[Item, Answer]], split: str) -> dict[str, float]:
        return self.evaluations(groups).metrics(split)

    def evaluations(self, groups: Sequence[Group[Item, Answer]]) -> Evaluations:
        """Return the evaluation of each subject, from one answer per paper."""
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
            predicted = [one.answer.alone(place).predicted for one in rollouts]
            metrics[f"{under}/label_match"] = share(
                label == one.item.golds[place] for label, one in zip(predicted, rollouts, strict=True)
            )
            for label in subject.labels:
                metrics[f"{under}/predicted_share/{label}"] = share(one == label for one in predicted)
        if rollouts:
            metrics["train/parse_ok"] = share(one.answer.parse_ok for one in rollouts)
            metrics["train/format_strict_ok"] = share(one.answer.outcome is Outcome.OK for one in rollouts)
        if rollouts and len(task.subjects) > 1:
            metrics["train/exact_match"] = share(one.answer.predicted_labels == one.item.golds for one in rollouts)
        return metrics

    def facts(self, rollout: PaperRollout) -> Line:
        return self.task.facts(rollout.item.golds, rollout.answer)

    def item_facts(self, item: Item) -> Line:
        return {"gold": self.task.by_subject(item.golds)}

    def example(self, item: Item) -> Example:
        """Return the correct answer; its confidence is unknown, and written as medium."""
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
        """Return all possible answers: one label per subject, in the order of subjects and labels."""
        return list(product(*(subject.labels for subject in self.task.subjects)))

    def label_tokens(self, labels: str | tuple[str, ...]) -> tuple[int, ...]:
        """Return the tokens with which every answer with these labels begins, as the tokenizer cuts whole answers."""
        contract = self.task.contract
        answers = [
            contract.answer_text(labels, confidence, justification=words)
            for confidence in Confidence
            for words in ("", "The")
        ]
        return shared_opening(self.tokenizer.encode(text, add_special_tokens=False) for text in answers)


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


Floats = NDArray[np.float64]
PROBED = 48  # Papers whose label probabilities are computed exactly, for the label's mutual information.
GRID = tuple(float(each) / 4 for each in range(-8, 9))  # Offsets of a label against the first one, in nats.


def label_logprobs(client: tinker.SamplingClient, study: LabelledPapers, items: Sequence[Item]) -> Floats:
    """Return [N, K] log-probabilities of the openings of the K labels, at temperature 1; not normalised.

    Of a task about several subjects K counts the combinations of their labels, as `LabelledPapers.choices` has them.
    For a policy that is only served: one request a paper and label.
    """
    openings = [study.label_tokens(labels) for labels in study.choices()]
    found = log_probs(client, [[*study.prompt(item), *opening] for item in items for opening in openings])
    return _sums([[value or 0.0 for value in each] for each in found], openings)


def trained_label_logprobs(trainer: tinker.TrainingClient, study: LabelledPapers, items: Sequence[Item]) -> Floats:
    """Return the labels' log-probabilities under the trainer's weights, in one call for all papers.

    Where sampler and trainer are one model the bits are the same.
    """
    openings = [study.label_tokens(labels) for labels in study.choices()]
    prompts = [study.prompt(item) for item in items]
    datums = [answer_datum((*prompt, *opening), len(prompt), 1.0) for prompt in prompts for opening in openings]
    outputs = trainer.forward(datums, "cross_entropy").result(WAIT_SECONDS).loss_fn_outputs
    return _sums([output["logprobs"].tolist() for output in outputs], openings)


def _sums(found: Sequence[Sequence[float]], openings: Sequence[tuple[int, ...]]) -> Floats:
    """Sum the log-probabilities of each opening, which ends its sequence; [N, K] from N * K sequences."""
    sums = [math.fsum(values[-len(openings[place % len(openings)]) :]) for place, values in enumerate(found)]
    return np.array(sums, dtype=np.float64).reshape(-1, len(openings))


def label_probabilities(logprobs: Floats) -> Floats:
    """Normalise [N, K] log-probabilities over the labels, with the same bits on every machine."""
    weights = exp(logprobs - logprobs.max(axis=1, keepdims=True))
    totals = np.array([math.fsum(row) for row in weights.tolist()], dtype=np.float64)
    return weights / totals[:, None]


def information(trainer: tinker.TrainingClient, study: LabelledPapers, items: Sequence[Item]) -> dict[str, float]:
    """Return the mutual information of papers and each subject's label, in nats, from all choices' probabilities."""
    choices = study.choices()
    pi = label_probabilities(trained_label_logprobs(trainer, study, items[:PROBED])).tolist()

    def alone(place: int, labels: Sequence[str]) -> list[list[float]]:
        at = [[k for k, choice in enumerate(choices) if choice[place] == label] for label in labels]
        return [[math.fsum(row[k] for k in some) for some in at] for row in pi]

    subjects = enumerate(study.task.subjects)
    return {one.value: label_information(np.array(alone(place, one.labels))) for place, one in subjects}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGradient:
    """Exact gradient of one step's task terms."""

    study: LabelledPapers
    paid: Floats
    """[K, K]: reward of a valid answer k (column) for true label y (row), in the state before the step.

    The contract's term is in it too; it is the same for all valid answers and cancels.
    """
    group_size: int

    def datums(self, trainer: tinker.TrainingClient, items: Sequence[Item]) -> list[tinker.Datum]:
        """Return cross-entropy datums whose gradient equals that of the items, under the trainer's current weights."""
        study, labels = self.study, self.study.task.labels
        pi = label_probabilities(trained_label_logprobs(trainer, study, items))
        paid = self.paid[[labels.index(item.gold) for item in items]]
        weights = self.group_size * label_weights(pi, paid)
        openings = [study.label_tokens(label) for label in labels]
        # The weights of a prompt sum to zero, so what all openings share would cancel; here it never enters.
        shared = len(shared_opening(openings))
        return [
            answer_datum((*study.prompt(item), *opening), len(study.prompt(item)) + shared, weight)
            for item, row in zip(items, weights.tolist(), strict=True)
            for opening, weight in zip(openings, row, strict=True)
        ]

    def besides(self, terms: NamedTerms) -> float:
        """Return a reward without its task term."""
        return rounded_sum(*(value for name, value in terms.values.items() if name != "task"))


def label_weights(pi: Floats, paid: Floats) -> Floats:
    """Return [N, K] weights of grad log pi_k from probabilities [N, K] and rewards [N, K].

    >>> label_weights(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([[ 0.25, -0.25]])
    """
    expected = np.array([math.fsum(row) for row in (pi * paid).tolist()], dtype=np.float64)
    return pi * (paid - expected[:, None])


def tested_with_offset(
    client: tinker.SamplingClient, study: LabelledPapers, validation: Sequence[Item], test: Sequence[Item], step: int
) -> Tested:
    """Select offsets on validation papers, and label test papers with them; return metrics and lines `test_offset`."""
    labels, split, ok = study.task.labels, "test_offset", Outcome.OK.value
    offsets = best_offsets(label_logprobs(client, study, validation), [item.gold for item in validation], labels)
    predicted = [labels[k] for k in decide(label_logprobs(client, study, test), offsets)]
    answers: list[Answered] = []
    lines: list[Line] = []
    for item, answer in zip(test, predicted, strict=True):
        name, gold = item.paper.id, item.gold
        answers.append(Answered(item=name, gold=gold, predicted=answer, outcome=ok, parse_ok=True, lenient=answer))
        line: Line = {"step": step, "split": split, "prompt_id": name, "sample": 0, "tokens": [], "text": ""}
        lines.append({**line, "outcome": ok, "gold": gold, "predicted": answer, "confidence": None})
    metrics = dict(Evaluation(labels, tuple(answers)).metrics(split))
    metrics |= {f"offset/{label}": b for label, b in zip(labels, offsets, strict=True)}
    return Tested(metrics=metrics, lines=lines)


def decide(logprobs: Floats, offsets: tuple[float, ...]) -> list[int]:
    """Return the label of each row of [N, K]; the first among equals."""
    return [int(k) for k in (logprobs + np.array(offsets)).argmax(axis=1)]


def best_offsets(logprobs: Floats, golds: list[str], labels: tuple[str, ...]) -> tuple[float, ...]:
    """Return the offsets on the grid with the largest macro-F1, the smallest among equals; the first label's is 0."""

    def quality(offsets: tuple[float, ...]) -> tuple[float, float]:
        predicted = [labels[k] for k in decide(logprobs, offsets)]
        score = Confusion.of(labels, golds, predicted).score(Metric.MACRO_F1)
        return score, -sum(abs(b) for b in offsets)

    candidates = ((0.0, *rest) for rest in itertools.product(GRID, repeat=len(labels) - 1))
    return max(candidates, key=quality)
