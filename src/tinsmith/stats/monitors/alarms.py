"""What counts as a collapse: the limits in one place, and the alarm that says which label and how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tinsmith.types.errors import ConfigError


class AlarmKind(StrEnum):
    """What was seen."""

    UNREAD = "unread"  # Hardly any answer keeps the contract; whatever else is told of labels means nothing then.
    SHARE = "predicted_share"  # One label has most of the answers.
    RECALL = "min_class_recall"  # A label is hardly ever found.
    INFORMATION = "label_mi"  # The answer does not depend on the paper.
    GROUPS = "informative_groups"  # A label's groups carry no gradient any more.
    CHANCE = "balanced_accuracy"  # The recalls are no better than guessing.
    GOODHART = "goodhart"  # The training reward rises while the classifier gets worse.
    SAME_TEXT = "same_text"  # Many prompts get the same response.
    JUDGE_FAILED = "judge_failed"  # Responses have no reward, because their judge failed.
    DETERMINISM = "determinism"
    """Prompts are always right or always wrong: groups carry no gradient, and more samples will not help."""
    ROLLOUTS_FAILED = "rollouts_failed"
    """Responses have no reward, because a function of the task failed, or nobody sampled them."""
    IDLE_EXPERTS = "idle_experts"  # Many of a mixture's experts get no token.


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing seen at one step; `label` is None where all labels are meant."""

    kind: AlarmKind
    label: str | None
    value: float
    threshold: float
    step: int
    message: str
    task: str | None = None  # The task that is meant, where an answer is to several.

    @property
    def key(self) -> str:
        """The name in metrics.jsonl: alarm/kind, then /task and /label where it has them."""
        return "/".join(["alarm", self.kind, *(name for name in (self.task, self.label) if name)])

    def of_task(self, task: str) -> Alarm:
        """Return the alarm as one of several tasks' that are watched; it says which."""
        return replace(self, task=task, message=f"{task}: {self.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When an alarm is raised."""

    min_read: float = 0.05  # Share of the answers that keep the contract.
    read_answers: int = 4  # Fewest answers to judge that by.
    max_share: float = 0.75
    share_evaluations: int = 3  # Evaluations running with a label above `max_share`.
    min_recall: float = 0.05
    min_information: float = 0.01  # Nats.
    min_informative_rate: float = 0.05
    group_steps: int = 20  # Steps over which informative groups are counted.
    group_count: int = 30  # Fewest groups of a label in those steps to judge by.
    goodhart_drop: float = 0.05  # Macro-F1 below its best while the training reward is above what it was then ...
    goodhart_evaluations: int = 2  # ... in this many evaluations running.

    def __post_init__(self) -> None:
        for field in ("min_read", "max_share", "min_recall", "min_informative_rate", "goodhart_drop"):
            if not 0.0 <= getattr(self, field) <= 1.0:
                raise ConfigError(
                    "this limit must be a share", field=field, value=getattr(self, field), allowed="0 to 1"
                )
        for field in ("read_answers", "share_evaluations", "group_steps", "group_count", "goodhart_evaluations"):
            if getattr(self, field) < 1:
                raise ConfigError(
                    "this limit must be a number", field=field, value=getattr(self, field), allowed="1 and more"
                )
        if not self.min_information >= 0.0:
            raise ConfigError(
                "the smallest information must not be negative", field="min_information", value=self.min_information
            )
