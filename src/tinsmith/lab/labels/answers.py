"""Outcome of reading an answer: its label or labels, and its confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Confidence(StrEnum):
    """How sure the model says it is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Outcome(StrEnum):
    """Outcome of a strict reading. The first that applies, in this order."""

    OK = "ok"
    EMPTY = "empty"
    """Nothing but white space."""
    THINK = "think"
    """A think tag stands in it, whatever else does."""
    FENCED = "fenced"
    """Three backticks stand in it, and it is not JSON."""
    NOT_JSON = "not_json"
    NOT_OBJECT = "not_object"
    """JSON, but a list, a string, a number, true, false or null."""
    BAD_KEYS = "bad_keys"
    """A key is missing, too many, or there twice."""
    BAD_LABEL = "bad_label"
    BAD_CONFIDENCE = "bad_confidence"
    BAD_VALUE = "bad_value"
    """A justification that is no string, or signals that are no list of strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One text as its contract reads it: a label for each subject that was asked about. All are valid, or none is."""

    outcome: Outcome
    parse_ok: bool
    """The text is one JSON value."""
    labels: tuple[str, ...] | None
    """In the order of the subjects; where the text satisfies the contract, even with a think tag inside a string."""
    confidence: Confidence | None
    has_think: bool
    has_fence: bool
    lenient_labels: tuple[str, ...] | None
    """The labels after thoughts, fences and outer text were taken off; `labels` where there are such."""

    @property
    def payload_ok(self) -> bool:
        """True if the text satisfies the contract; a think tag inside a string does not matter."""
        return self.labels is not None

    @property
    def predicted_labels(self) -> tuple[str, ...] | None:
        """The labels of an answer without any fault; what a strict evaluation counts."""
        return self.labels if self.outcome is Outcome.OK else None

    @property
    def label(self) -> str | None:
        """`labels` of an answer about one subject."""
        return _only(self.labels)

    @property
    def predicted(self) -> str | None:
        """`predicted_labels` of an answer about one subject."""
        return _only(self.predicted_labels)

    @property
    def lenient(self) -> str | None:
        """`lenient_labels` of an answer about one subject."""
        return _only(self.lenient_labels)

    def alone(self, place: int) -> Answer:
        """Return what it says of the subject at `place`, as if nothing else had been asked."""
        labels, lenient = (each and (each[place],) for each in (self.labels, self.lenient_labels))
        return replace(self, labels=labels, lenient_labels=lenient)


def _only(labels: tuple[str, ...] | None) -> str | None:
    if labels is None:
        return None
    (label,) = labels
    return label
