"""Cost of the training of a finished run on papers: papers, updates, tokens and FLOPs, from its files and its papers.

FLOPs, with N the parameters that multiply (all linear weights of the layers and the head; an adapter's own are left
out, as they are few and every arm has them), L layers and d the width of all heads together:

    forward of a sequence of T positions    2 N T + 2 L d T (T + 1)
    the same with its gradient              3 times that: 6 a parameter and position

A group's prompt is read once, each sampled token goes through the model once, and a sequence that is trained on is a
prompt with its answer but for the last token. Examinations are left out: every arm has as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import msgspec

from tinsmith.lab.course import Course
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.task import Item
from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.schedule import batch
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.models.config import DecoderConfig
from tinsmith.types.errors import DataError

LabelCourse = Course[Item, Answer]


@dataclass(slots=True, kw_only=True)
class Spent:
    """Compute spent on training, without the seconds: of a run, or the mean of an arm's seeds."""

    papers: float = 0  # Labelled papers that a step looked at, again where it came again.
    updates: float = 0
    tokens_read: float = 0  # Of prompts, once a group, to sample from.
    tokens_sampled: float = 0
    tokens_trained: float = 0  # Positions of all sequences that a gradient was taken over.
    flops: float = 0


def multiplied(config: DecoderConfig) -> int:
    """Return the number of parameters of a decoder that multiply."""
    heads = config.num_heads * config.head_dim
    keys = config.num_kv_heads * config.head_dim
    attention = config.hidden_size * (2 * heads + 2 * keys)
    layer = attention + 3 * config.hidden_size * config.intermediate_size
    return config.num_layers * layer + config.hidden_size * config.vocab_size


def forward_flops(config: DecoderConfig, positions: int, before: int = 0) -> int:
    """Return the FLOPs of `positions` tokens after `before` earlier ones of the same sequence."""
    width = config.num_layers * config.num_heads * config.head_dim
    end = before + positions
    attended = end * (end + 1) - before * (before + 1)
    return 2 * multiplied(config) * positions + 2 * width * attended


class _Line(msgspec.Struct, frozen=True):
    """Part of a rollout's line about its tokens."""

    step: int
    split: str
    prompt_id: str
    sample: int = 0
    tokens: tuple[int, ...] = ()
    advantage: float | None = None


@dataclass(slots=True)
class Ledger:
    """Counter of a decoder's FLOPs, by the module's rule."""

    config: DecoderConfig
    spent: Spent = field(default_factory=Spent)

    def read(self, positions: int) -> None:
        """Count a prompt that is read to sample from."""
        self.spent.tokens_read += positions
        self.spent.flops += forward_flops(self.config, positions)

    def sampled(self, positions: int, before: int) -> None:
        """Count an answer after a prompt of so many positions."""
        self.spent.tokens_sampled += positions
        self.spent.flops += forward_flops(self.config, positions, before)

    def trained(self, positions: int) -> None:
        """Count a sequence that a gradient is taken over."""
        self.spent.tokens_trained += positions
        self.spent.flops += 3 * forward_flops(self.config, positions)


@dataclass(slots=True)
class Accountant:
    """Counter for runs of one base; token counts of prompts and examples are cached."""

    config: DecoderConfig
    _tokens: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def spent(self, folder: Path, course: LabelCourse) -> Spent:
        """Return the compute spent by the run in a folder."""
        ledger, settings = Ledger(self.config), course.settings
        if isinstance(settings, RlSettings):
            self._supervised(ledger, course, settings.supervised)
            self._sampled(ledger, course, settings, folder)
        elif isinstance(settings, SftSettings):
            self._supervised(ledger, course, settings)
        else:
            raise DataError("these are not the settings of a training loop", field="settings", value=str(settings))
        return ledger.spent

    def a_step_of_sft(self, course: LabelCourse, settings: SftSettings) -> float:
        """Return the FLOPs of a supervised step: the mean over as many steps as the settings have."""
        ledger = Ledger(self.config)
        self._supervised(ledger, course, settings)
        return ledger.spent.flops / settings.steps

    def _supervised(self, ledger: Ledger, course: LabelCourse, settings: SftSettings) -> None:
        for step in range(settings.steps):
            items = batch(course.train_items, settings.batch_size, step, settings.seed)
            for item in items:
                key = (item.paper.id, item.gold)
                if key not in self._tokens:
                    self._tokens[key] = len(course.subject.example(item).tokens)
                ledger.trained(self._tokens[key] - 1)
            ledger.spent.papers += len(items)
            ledger.spent.updates += 1

    def _sampled(self, ledger: Ledger, course: LabelCourse, settings: RlSettings, folder: Path) -> None:
        prompts = {item.prompt_id: item for item in course.train_items}
        learned: set[int] = set()
        for line in json_lines(folder / ROLLOUTS, _Line, []):
            if line.split != "train":
                continue
            key = (line.prompt_id, "")
            if key not in self._tokens:
                (environment,) = course.subject.environments(prompts[line.prompt_id], 1, 0)
                self._tokens[key] = len(environment.first())
            prompt = self._tokens[key]
            if line.sample == 0:  # the first of its group
                ledger.read(prompt)
            ledger.sampled(len(line.tokens), prompt)
            if line.advantage is not None:
                ledger.trained(prompt + len(line.tokens) - 1)
                learned.add(line.step)
        if not ledger.spent.tokens_sampled:
            raise DataError("a run of RL has no rollouts", field="cells", value=str(folder))
        ledger.spent.papers += (settings.steps - settings.sft_steps) * settings.groups_per_batch
        ledger.spent.updates += len(learned) * settings.num_substeps


def mean_spent(runs: Sequence[Spent]) -> Spent:
    """Return the mean of several runs."""
    names = [each.name for each in fields(Spent)]
    return Spent(**{name: sum(getattr(one, name) for one in runs) / len(runs) for name in names})
