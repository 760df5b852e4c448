"""Contract of an answer: its subjects, the keys of its JSON object, and the check of a text.

Decided here, once: the text is one JSON object with exactly the contract's keys, each once, in any
order; labels and confidence are matched as they are written, case included; white space around the
object is allowed, any other text is not. What breaks a rule is named by an Outcome, never repaired.
Beside this strict reading stands a lenient one that first takes off thoughts, fences and outer text.
One reader does it for all contracts, whether one label is asked for or several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.strict_json import JsonObject, NotJsonError, read_json
from tinsmith.types.errors import ConfigError, ContractError

CONFIDENCE_KEY: Final = "confidence"
JUSTIFICATION_KEY: Final = "label_justification"
SIGNALS_KEY: Final = "evidence_signals"
JOINT: Final = "joint"  # Name of a task or contract about several subjects at once.
_FENCE: Final = "```"
_THINK: Final = re.compile(r"</?think\b", re.IGNORECASE)
_THINK_TAG: Final = re.compile(r"<(/?)think\b[^<>]{0,80}>", re.IGNORECASE)


class Subject(StrEnum):
    """The subject of a task's question."""

    DISRUPTION = "disruption"  # The use that later papers make of it; the label comes from its CD index.
    NOVELTY = "novelty"  # The unusualness of the pairs of journals that it cites.

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the fixed order of every matrix and share."""
        classes = tuple(Disruption) if self is Subject.DISRUPTION else tuple(Novelty)
        return tuple(label.value for label in classes)

    @property
    def label_key(self) -> str:
        """The key of the label, in a slice's row and in an answer."""
        return f"{self.value}_label"

    def gold(self, row: PaperRow) -> str | None:
        """Return the row's label; None if it has none."""
        label = row.disruption_label if self is Subject.DISRUPTION else row.novelty_label
        return None if label is None else label.value


class Confidence(StrEnum):
    """The confidence that the model states."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Outcome(StrEnum):
    """Outcome of a strict reading. The first that applies, in this order."""

    OK = "ok"
    EMPTY = "empty"  # Nothing but white space.
    THINK = "think"  # A think tag stands in it, whatever else does.
    FENCED = "fenced"  # Three backticks stand in it, and it is not JSON.
    NOT_JSON = "not_json"
    NOT_OBJECT = "not_object"  # JSON, but a list, a string, a number, true, false or null.
    BAD_KEYS = "bad_keys"  # A key is missing, too many, or there twice.
    BAD_LABEL = "bad_label"
    BAD_CONFIDENCE = "bad_confidence"
    BAD_VALUE = "bad_value"  # A justification that is no string, or signals that are no list of strings.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Parsed answer: a label for each subject, all valid or none."""

    outcome: Outcome
    parse_ok: bool  # The text is one JSON value.
    labels: tuple[str, ...] | None
    """In the order of the subjects; where the text satisfies the contract, even with a think tag inside a string."""
    confidence: Confidence | None
    has_think: bool
    lenient_labels: tuple[str, ...] | None
    """The labels after thoughts, fences and outer text were taken off; `labels` where there are such."""

    @property
    def payload_ok(self) -> bool:
        """True if the text satisfies the contract; a think tag inside a string does not matter."""
        return self.labels is not None

    @property
    def predicted_labels(self) -> tuple[str, ...] | None:
        """Labels of a faultless answer, as counted by a strict evaluation."""
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
        """Return the part of the answer on the subject at `place`, as an answer of its own."""
        labels, lenient = (each and (each[place],) for each in (self.labels, self.lenient_labels))
        return replace(self, labels=labels, lenient_labels=lenient)


def _only(labels: tuple[str, ...] | None) -> str | None:
    if labels is None:
        return None
    (label,) = labels
    return label


class Form(StrEnum):
    """Extent of an answer."""

    FOUR_KEY = "four_key"  # Label, justification, signals, confidence.
    TWO_KEY = "two_key"  # Label and confidence.
    FIVE_KEY = "five_key"  # As four keys, with the labels of two subjects.
    THREE_KEY = "three_key"  # As two keys, with the labels of two subjects.


_Found = tuple[Outcome, tuple[str, ...] | None, Confidence | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Keys of an answer and their allowed values."""

    subjects: tuple[Subject, ...]  # Each has a label of its own, in the order of the keys.
    form: Form

    @property
    def about(self) -> str:
        """Its only subject, or JOINT."""
        return self.subjects[0].value if len(self.subjects) == 1 else JOINT

    @property
    def name(self) -> str:
        """Its name among the contracts."""
        return f"{self.about}/{self.form}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of every subject in their fixed order."""
        return tuple(label for subject in self.subjects for label in subject.labels)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys in the order of prompts and answers."""
        reasons = (JUSTIFICATION_KEY, SIGNALS_KEY) if self._has_reasons else ()
        return (*(subject.label_key for subject in self.subjects), *reasons, CONFIDENCE_KEY)

    @property
    def _has_reasons(self) -> bool:
        return self.form in (Form.FOUR_KEY, Form.FIVE_KEY)

    def parse(self, text: str) -> Answer:
        """Parse an answer. Never raises, whatever the text; takes time linear in its length."""
        outcome, labels, confidence = self._read(text)
        parse_ok, think = outcome is not Outcome.NOT_JSON, _THINK.search(text) is not None
        fence, lenient = not parse_ok and _FENCE in text, labels
        if not text.strip():
            outcome = Outcome.EMPTY
        elif think or fence:
            outcome = Outcome.THINK if think else Outcome.FENCED
        if lenient is None and (inner := outer_object(text)) is not None:
            lenient = self._read(inner)[1]
        return Answer(
            outcome=outcome,
            parse_ok=parse_ok,
            labels=labels,
            confidence=confidence,
            has_think=think,
            lenient_labels=lenient,
        )

    def _read(self, text: str) -> _Found:
        try:
            value = read_json(text)
        except NotJsonError:
            return Outcome.NOT_JSON, None, None
        if not isinstance(value, JsonObject):
            return Outcome.NOT_OBJECT, None, None
        if sorted(value.keys) != sorted(self.keys):
            return Outcome.BAD_KEYS, None, None
        values = dict(value.pairs)
        labels = tuple(str(values[subject.label_key]) for subject in self.subjects)
        if not all(values[s.label_key] in s.labels for s in self.subjects):
            return Outcome.BAD_LABEL, None, None
        confidence = values[CONFIDENCE_KEY]
        if not isinstance(confidence, str) or confidence not in tuple(Confidence):
            return Outcome.BAD_CONFIDENCE, None, None
        if self._has_reasons:
            reason, signals = values[JUSTIFICATION_KEY], values[SIGNALS_KEY]
            if not (isinstance(reason, str) and isinstance(signals, list) and all(isinstance(s, str) for s in signals)):
                return Outcome.BAD_VALUE, None, None
        return Outcome.OK, labels, Confidence(confidence)

    def answer_text(
        self,
        labels: str | Sequence[str],
        confidence: Confidence,
        *,
        justification: str = "",
        signals: Sequence[str] = (),
    ) -> str:
        """Write an answer that satisfies the contract: one line of JSON, keys in their order.

        Args:
            labels: the label, or one a subject in their order.
            confidence: how sure it says it is.
            justification: why; left out where the form has none.
            signals: what in the paper speaks for it; likewise.

        >>> TWO_KEY.answer_text("neutral", Confidence.LOW)
        '{"disruption_label": "neutral", "confidence": "low"}'
        >>> THREE_KEY.answer_text(("disruptive", "novel"), Confidence.LOW)
        '{"disruption_label": "disruptive", "novelty_label": "novel", "confidence": "low"}'
        """
        pairs = tuple(zip(self.subjects, (labels,) if isinstance(labels, str) else labels, strict=True))
        values = {
            **{subject.label_key: label for subject, label in pairs},
            JUSTIFICATION_KEY: justification,
            SIGNALS_KEY: list(signals),
            CONFIDENCE_KEY: confidence.value,
        }
        text = json.dumps({key: values[key] for key in self.keys}, ensure_ascii=False)
        if not (answer := self.parse(text)).payload_ok:
            subject, label = next((pair for pair in pairs if pair[1] not in pair[0].labels), pairs[0])
            what = f"this answer would be {answer.outcome}"
            raise ContractError(what, field=subject.label_key, value=label, allowed=", ".join(subject.labels))
        return text


def without_think(text: str) -> str:
    """Return the text without think tags and their content.

    A closing tag without an opening one closes a thought that began before the text; an opening one
    without a closing one runs to the end. Linear in the text's length.

    >>> without_think("<think>a</think>b<THINK>c")
    'b'
    """
    parts: list[str] = []
    start, thinking = 0, False
    for tag in _THINK_TAG.finditer(text):
        closing = tag[1] == "/"
        if closing and not thinking:
            parts.clear()
        elif not closing and not thinking:
            parts.append(text[start : tag.start()])
        thinking = not closing
        start = tag.end()
    if not thinking:
        parts.append(text[start:])
    return "".join(parts)


def outer_object(text: str) -> str | None:
    """Return the text from the first `{` to the last `}` after all thoughts; None if either is missing.

    Two objects side by side stay together, and are no JSON: nobody guesses which one is meant.

    >>> outer_object('Here you are: {"a": 1}. Bye!')
    '{"a": 1}'
    """
    bare = without_think(text)
    first, last = bare.find("{"), bare.rfind("}")
    return bare[first : last + 1] if 0 <= first < last else None


FOUR_KEY: Final = Contract(subjects=(Subject.DISRUPTION,), form=Form.FOUR_KEY)
TWO_KEY: Final = Contract(subjects=(Subject.DISRUPTION,), form=Form.TWO_KEY)
NOVELTY_FOUR_KEY: Final = Contract(subjects=(Subject.NOVELTY,), form=Form.FOUR_KEY)
NOVELTY_TWO_KEY: Final = Contract(subjects=(Subject.NOVELTY,), form=Form.TWO_KEY)
FIVE_KEY: Final = Contract(subjects=tuple(Subject), form=Form.FIVE_KEY)
THREE_KEY: Final = Contract(subjects=tuple(Subject), form=Form.THREE_KEY)
CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType(
    {one.name: one for one in (FOUR_KEY, TWO_KEY, NOVELTY_FOUR_KEY, NOVELTY_TWO_KEY, FIVE_KEY, THREE_KEY)}
)
"""Every contract by its name, `subject/form` or `joint/form`."""


def contract_for(about: str, form: str) -> Contract:
    """Return the contract about a subject, or about JOINT, by the name of its form.

    >>> contract_for(Subject.DISRUPTION, "two_key") is TWO_KEY
    True
    """
    if (name := f"{about}/{form}") not in CONTRACTS:
        allowed = [one.form for one in CONTRACTS.values() if one.about == about]
        raise ConfigError("there is no such contract", field="contract", value=form, allowed=allowed)
    return CONTRACTS[name]
