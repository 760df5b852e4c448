"""Contents of a run folder as values: settings, metrics by step, rollouts; missing ones are None or empty.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from tinsmith.data.baselines.report import Baseline, TargetReport
from tinsmith.lab.judge.records import Verdict
from tinsmith.lab.runs.files import SERVED_NAME, Kind
from tinsmith.types.fingerprints import sha256_of


class Split(StrEnum):
    """Papers, decoding and weights of a rollout."""

    TRAIN = "train"
    EVAL = "eval"
    EVAL_GREEDY = "eval_greedy"
    TEST = "test"
    TEST_GREEDY = "test_greedy"
    TEST_LAST = "test_last"
    TEST_LAST_GREEDY = "test_last_greedy"
    TEST_OFFSET = "test_offset"


SPLIT_WORDS: Mapping[str, str] = {
    Split.TRAIN: "training rollouts",
    Split.EVAL: "validation, sampled",
    Split.EVAL_GREEDY: "validation, greedy",
    Split.TEST: "selected checkpoint, sampled",
    Split.TEST_GREEDY: "selected checkpoint, greedy",
    Split.TEST_LAST: "last checkpoint, sampled",
    Split.TEST_LAST_GREEDY: "last checkpoint, greedy",
    Split.TEST_OFFSET: "selected checkpoint, with logit offsets",
}
"""Name of each split on a page."""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a run."""

    name: str = ""
    labels: tuple[str, ...] = ()  # In the task's fixed order.
    prompt: str = ""
    contract: str = ""
    with_metadata: bool | None = None
    prompt_lines: tuple[str, ...] = ()  # What stands before the paper in every prompt.


class DataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The slice of a run: its papers by split."""

    name: str = ""
    fingerprint: str = ""
    train: int | None = None
    validation: int | None = None
    test: int | None = None
    rubrics: int | None = None  # Of a run on rubrics: how many all its tasks have.


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`config.json`: requested settings."""

    name: str
    version: int = 1
    question: str = ""
    parent: str | None = None
    delta: dict[str, object] = {}
    overrides: dict[str, object] = {}
    identity_sha256: str = ""
    settings: dict[str, object] = {}
    kind: Kind = Kind.RL
    task: TaskRecord = TaskRecord()
    reward: dict[str, object] | None = None
    model_name: str = ""
    data: DataRecord = DataRecord()

    @property
    def title(self) -> str:
        """The experiment's name and version."""
        return f"{self.name}@{self.version}"

    @property
    def reward_name(self) -> str:
        """The reward's name; empty where none is stated."""
        return str((self.reward or {}).get("name", ""))

    @property
    def seed(self) -> int | None:
        """Root seed; None if the settings have none."""
        seed = self.settings.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def steps(self) -> int | None:
        """Requested steps."""
        steps = self.settings.get("steps")
        return steps if isinstance(steps, int) else None


class AlarmRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An alarm of the collapse monitor."""

    kind: str
    label: str | None = None  # The class it speaks of, if of one.
    task: str | None = None  # The task, where an answer is to several.
    value: float | None = None
    threshold: float | None = None
    step: int | None = None
    message: str = ""

    @property
    def words(self) -> str:
        """The message; of an older run its kind and class."""
        return self.message or f"{self.kind} {self.label or ''}".strip()


@dataclass(frozen=True, slots=True, order=True)
class Score:
    """A policy's score in an evaluation; compared in this order."""

    value: float
    tie_break: float


class Selected(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Best checkpoint so far, and at a run's end the last; paths of several agents are separated by spaces."""

    step: int
    score: Score | None = None
    by: str = ""
    sampler_path: str = ""  # Where its weights were saved to sample from.
    final_path: str = ""  # Of the last policy.


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`: progress, inputs, and hashes of the outputs."""

    status: str = ""
    identity: dict[str, object] = {}
    identity_sha256: str = ""
    circumstances: dict[str, object] = {}
    alarms: tuple[AlarmRecord, ...] = ()
    selected: Selected | None = None
    hashes: dict[str, str | None] = {}
    trace_links: tuple[str, ...] = ()
    ended: str = ""  # Day on which it came to its end, or stopped, in UTC; empty in older runs.

    @property
    def model(self) -> Mapping[str, object]:
        """Identity of the trained model, as reported by its server; empty if it was not."""
        return cast("Mapping[str, object]", self.identity.get("model") or {})

    @property
    def judge(self) -> object:
        """Name of the judge; None where the run has none."""
        return cast("Mapping[str, object]", self.identity.get("frame") or {}).get("judge_model")


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Cause of a failed rollout."""

    where: str = ""
    what: str = ""


class ExampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Demonstration of an item, as read by a filter of examples."""

    id: str
    sha256: str  # Of its prompt and its replies.
    steps: int  # Replies.
    calls: int  # Replies that call a tool.
    left_out: str = ""  # Reason why it is not trained on; empty: it is.


def examples_summary(examples: Sequence[ExampleRecord]) -> str:
    """Return a filter's numbers of passed and rejected demonstrations, mean steps and calls, and their hash."""
    passed = [one for one in examples if not one.left_out]
    reasons = Counter(one.left_out for one in examples if one.left_out)
    means = [sum(values) / len(passed) for values in ([one.steps for one in passed], [one.calls for one in passed])]
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return (
        f"{len(passed):,} of {len(examples):,} demonstrations, mean {means[0]:.2f} steps and {means[1]:.2f} calls; "
        f"left out: {left_out or 'none'}; sha256 {sha256_of([one.sha256 for one in passed])[:12]}"
    )


class SectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a page that a task adds: a text or a table; or why there is none."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Cause of failed rollouts: location, message and split."""

    split: str
    where: str
    what: str


class AnyRollout(msgspec.Struct, frozen=True, kw_only=True):
    """Rollout on any subject; `failure` is set if it has no answer."""

    step: int
    split: str
    prompt_id: str
    sample: int = 0
    text: str = ""
    outcome: str = ""
    terms: dict[str, float] | None = None
    total: float | None = None
    advantage: float | None = None
    confidence: str | None = None
    failure: FailureRecord | None = None


class RolloutRecord(AnyRollout, frozen=True, kw_only=True):
    """Rollout on one label."""

    gold: str = ""
    predicted: str | None = None


class JointRollout(AnyRollout, frozen=True, kw_only=True):
    """Rollout on several labels, by subject."""

    gold: dict[str, str] = {}
    predicted: dict[str, str] | None = None  # None where the answer has a fault.

    def alone(self, subject: str) -> RolloutRecord:
        """Return the part on one subject."""
        predicted = None if self.predicted is None else self.predicted.get(subject)
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        fields |= {"gold": self.gold.get(subject, ""), "predicted": predicted}
        return RolloutRecord(**fields)


PASS_RATE: Final = "pass rate"  # Of an answer that a judge saw: the share of criteria that it fulfils.
ALL_CRITERIA: Final = "all criteria"  # Of an answer that a judge saw: 1 where it fulfils all of them, else 0.


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a conversation, after the prompt."""

    role: str
    text: str = ""


class TaskRollout(AnyRollout, frozen=True, kw_only=True):
    """Rollout on a task; `failure` is set if it has no reward."""

    terms: dict[str, float] = {}
    metrics: dict[str, float] = {}
    turns: tuple[TurnRecord, ...] = ()
    verdicts: tuple[Verdict, ...] = ()  # Of a judge, in the order of the item's criteria.
    fork: int = 0

    def continues(self, before: TaskRollout | None) -> bool:
        """Return True if it is of the group of the line before: by sample and fork, failures after all others."""
        if before is None or (self.step, self.prompt_id) != (before.step, before.prompt_id):
            return False
        failed = self.failure is not None
        places = [(one.failure is not None, one.sample, one.fork) for one in (before, self)]
        return places[0] < places[1] or (failed and places[0] == places[1])  # a failure does not name its fork

    @property
    def values(self) -> dict[str, Fraction]:
        """Values by name of the term: `total` is their sum; after a judge it is the pass rate if no other is recorded.

        `metric/NAME` is not rewarded. As it is written: what is equal in decimals is a tie.
        """
        found = {"total": self.total, **self.terms} if self.total is not None else {}
        found |= {f"metric/{name}": value for name, value in self.metrics.items()}
        exact = {name: _as_written(value) for name, value in found.items()}
        if self.verdicts:
            held = sum(one.passed for one in self.verdicts)
            rate = Fraction(held, len(self.verdicts))
            exact |= {"total" if self.total is None else PASS_RATE: rate, ALL_CRITERIA: Fraction(rate == 1)}
        return exact


@lru_cache(maxsize=1 << 14)
def _as_written(value: float) -> Fraction:
    """Return a decimal's exact value, cached, as most rewards take few values."""
    return Fraction(repr(value))


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Line of `checkpoints.jsonl`."""

    step: int
    state_path: str = ""
    sampler_path: str = ""


Row = Mapping[str, float | None]  # The metrics of one step, by key.


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Readable content of one run folder."""

    folder: Path
    config: Config
    manifest: Manifest | None
    metrics: Mapping[int, Row]  # By step, ascending.
    timings: tuple[Mapping[str, float | None], ...]
    checkpoints: tuple[CheckpointRecord, ...]
    baselines: TargetReport | None  # Of the run's own task.
    baseline_answers: Mapping[Baseline, Mapping[str, str]]
    """Class by test paper, for baselines with saved answers; empty in older runs."""
    notes: tuple[str, ...]  # What could not be read, in words.

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the task's order."""
        return self.config.task.labels

    @property
    def model(self) -> str:
        """Its model in words: a folder or file by its own name, not by the one under which it was served."""
        name, around = self.config.model_name, {} if self.manifest is None else self.manifest.circumstances
        if name != SERVED_NAME or "model_name" not in around:
            return name or "not stated"
        return Path(str(around["model_name"])).name if around["model_name"] else "small base, trained from scratch"

    @property
    def last_step(self) -> int | None:
        """The last step that metrics were written for."""
        return max(self.metrics, default=None)

    @property
    def alarms(self) -> tuple[AlarmRecord, ...]:
        """The alarms by step: the manifest's, or those in the metrics where the manifest has none yet."""
        found = self.manifest.alarms if self.manifest else ()
        found = found or tuple(_alarms_of(self.metrics))
        return tuple(sorted(found, key=lambda alarm: (alarm.step or 0, alarm.kind, alarm.label or "")))


def _alarms_of(metrics: Mapping[int, Row]) -> list[AlarmRecord]:
    alarms: list[AlarmRecord] = []
    for step, row in metrics.items():
        for key, value in row.items():
            group, _, rest = key.partition("/")
            if group == "alarm" and value is not None:
                kind, _, label = rest.partition("/")
                alarms.append(AlarmRecord(kind=kind, label=label or None, value=value, step=step))
    return alarms
