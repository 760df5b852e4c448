"""The contract of an answer: which keys its JSON object has, and how a text is held against it.

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
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.labels.answers import Answer, Confidence, Outcome
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.strict_json import JsonObject, JsonValue, NotJsonError, read_json
from tinsmith.types.errors import ConfigError, ContractError

CONFIDENCE_KEY: Final = "confidence"
JUSTIFICATION_KEY: Final = "label_justification"
SIGNALS_KEY: Final = "evidence_signals"
JOINT: Final = "joint"
"""Name of a task or contract about several subjects at once."""
_FENCE: Final = "```"
_THINK: Final = re.compile(r"</?think\b", re.IGNORECASE)
_THINK_TAG: Final = re.compile(r"<(/?)think\b[^<>]{0,80}>", re.IGNORECASE)


class Form(StrEnum):
    """How much an answer says."""

    FOUR_KEY = "four_key"
    """Label, justification, signals, confidence."""
    TWO_KEY = "two_key"
    """Label and confidence."""
    FIVE_KEY = "five_key"
    """As four keys, with the labels of two subjects."""
    THREE_KEY = "three_key"
    """As two keys, with the labels of two subjects."""

    @property
    def with_reasons(self) -> bool:
        """True if justification and signals are asked for."""
        return self in (Form.FOUR_KEY, Form.FIVE_KEY)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text held against the keys only."""

    parse_ok: bool
    outcome: Outcome
    labels: tuple[str, ...] | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The keys of an answer and what may stand under them."""

    subjects: tuple[Subject, ...]
    """Each has a label of its own, in the order of the keys."""
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
        """The keys in the order in which they are shown and written."""
        reasons = (JUSTIFICATION_KEY, SIGNALS_KEY) if self.form.with_reasons else ()
        return (*(subject.label_key for subject in self.subjects), *reasons, CONFIDENCE_KEY)

    def parse(self, text: str) -> Answer:
        """Read an answer. Never raises, whatever the text; takes time linear in its length."""
        reading = self._read(text)
        think = _THINK.search(text) is not None
        fence = not reading.parse_ok and _FENCE in text
        outcome, lenient = reading.outcome, reading.labels
        if not text.strip():
            outcome = Outcome.EMPTY
        elif think or fence:
            outcome = Outcome.THINK if think else Outcome.FENCED
        if lenient is None and (inner := outer_object(text)) is not None:
            lenient = self._read(inner).labels
        return Answer(
            outcome=outcome,
            parse_ok=reading.parse_ok,
            labels=reading.labels,
            confidence=reading.confidence,
            has_think=think,
            has_fence=fence,
            lenient_labels=lenient,
        )

    def _read(self, text: str) -> _Reading:
        try:
            value = read_json(text)
        except NotJsonError:
            return _Reading(False, Outcome.NOT_JSON)
        if not isinstance(value, JsonObject):
            return _Reading(True, Outcome.NOT_OBJECT)
        if sorted(value.keys) != sorted(self.keys):
            return _Reading(True, Outcome.BAD_KEYS)
        values = dict(value.pairs)
        labels: list[str] = []
        for subject in self.subjects:
            label = values[subject.label_key]
            if not isinstance(label, str) or label not in subject.labels:
                return _Reading(True, Outcome.BAD_LABEL)
            labels.append(label)
        confidence = values[CONFIDENCE_KEY]
        if not isinstance(confidence, str) or confidence not in tuple(Confidence):
            return _Reading(True, Outcome.BAD_CONFIDENCE)
        if self.form.with_reasons and not _reasons_ok(values):
            return _Reading(True, Outcome.BAD_VALUE)
        return _Reading(True, Outcome.OK, tuple(labels), Confidence(confidence))

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
            raise ContractError(
                f"this answer would be {answer.outcome}",
                field=subject.label_key,
                value=label,
                allowed=", ".join(subject.labels),
            )
        return text

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer, for people and for constrained sampling.

        It says all that `parse` demands but that no key may be there twice.
        """
        values: dict[str, object] = {
            **{subject.label_key: {"type": "string", "enum": list(subject.labels)} for subject in self.subjects},
            JUSTIFICATION_KEY: {"type": "string"},
            SIGNALS_KEY: {"type": "array", "items": {"type": "string"}},
            CONFIDENCE_KEY: {"type": "string", "enum": [one.value for one in Confidence]},
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {key: values[key] for key in self.keys},
            "required": list(self.keys),
            "additionalProperties": False,
        }


def _reasons_ok(values: Mapping[str, JsonValue]) -> bool:
    reason, signals = values[JUSTIFICATION_KEY], values[SIGNALS_KEY]
    return isinstance(reason, str) and isinstance(signals, list) and all(isinstance(each, str) for each in signals)


def without_think(text: str) -> str:
    """Return the text without what stands between think tags.

    A closing tag without an opening one closes a thought that began before the text; an opening one
    without a closing one runs to the end. Linear in the text's length.

    >>> without_think("<think>a</think>b<THINK>c")
    'b'
    """
    kept: list[str] = []
    start, thinking = 0, False
    for tag in _THINK_TAG.finditer(text):
        closing = tag[1] == "/"
        if closing and not thinking:
            kept.clear()
        elif not closing and not thinking:
            kept.append(text[start : tag.start()])
        thinking = not closing
        start = tag.end()
    if not thinking:
        kept.append(text[start:])
    return "".join(kept)


def outer_object(text: str) -> str | None:
    """Return what stands from the first `{` to the last `}` after all thoughts; None without both.

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
_EVERY: Final = {one.name: one for one in (FOUR_KEY, TWO_KEY, NOVELTY_FOUR_KEY, NOVELTY_TWO_KEY, FIVE_KEY, THREE_KEY)}
CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType(
    {name: one for name, one in _EVERY.items() if one.about != JOINT}
)
"""Every contract about one subject by its name, `subject/form`."""


def contract_for(about: str, form: str) -> Contract:
    """Return the contract about a subject, or about JOINT, by the name of its form.

    >>> contract_for(Subject.DISRUPTION, "two_key") is TWO_KEY
    True
    """
    if (name := f"{about}/{form}") not in _EVERY:
        allowed = ", ".join(one.form for one in _EVERY.values() if one.about == about)
        raise ConfigError("there is no such contract", field="contract", value=form, allowed=allowed)
    return _EVERY[name]
