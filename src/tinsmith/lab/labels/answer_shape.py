"""Which keys an answer has, and how a text is held against them: one label a subject, reasons or none, a confidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.labels.answers import Answer, Confidence, Outcome
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.labels.wrappings import FENCE, has_think, outer_object
from tinsmith.lab.strict_json import JsonObject, JsonValue, NotJsonError, read_json
from tinsmith.types.errors import ContractError

CONFIDENCE_KEY: Final = "confidence"
JUSTIFICATION_KEY: Final = "label_justification"
SIGNALS_KEY: Final = "evidence_signals"


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text held against the keys only."""

    parse_ok: bool
    outcome: Outcome
    labels: tuple[str, ...] | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The keys of an answer and what may stand under them; every contract's reading is this one."""

    subjects: tuple[Subject, ...]
    """Each has a label of its own, in this order."""
    with_reasons: bool
    """Whether justification and signals are asked for."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they are shown and written."""
        reasons = (JUSTIFICATION_KEY, SIGNALS_KEY) if self.with_reasons else ()
        return (*(subject.label_key for subject in self.subjects), *reasons, CONFIDENCE_KEY)

    def parse(self, text: str) -> Answer:
        """Read an answer. Never raises, whatever the text; takes time linear in its length."""
        reading = self._read(text)
        think = has_think(text)
        fence = not reading.parse_ok and FENCE in text
        if not text.strip():
            outcome = Outcome.EMPTY
        elif think:
            outcome = Outcome.THINK
        elif fence:
            outcome = Outcome.FENCED
        else:
            outcome = reading.outcome
        lenient = reading.labels
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
        if self.with_reasons and not _reasons_ok(values):
            return _Reading(True, Outcome.BAD_VALUE)
        return _Reading(True, Outcome.OK, tuple(labels), Confidence(confidence))

    def write(
        self, labels: Sequence[str], confidence: Confidence, *, justification: str = "", signals: Sequence[str] = ()
    ) -> str:
        """Write an answer of this shape: one line of JSON, keys in their order; reasons only where they are asked for.

        Raises:
            ContractError: a label is none of its subject's, or a text has a lone surrogate.
        """
        pairs = tuple(zip(self.subjects, labels, strict=True))
        values = {
            **{subject.label_key: label for subject, label in pairs},
            JUSTIFICATION_KEY: justification,
            SIGNALS_KEY: list(signals),
            CONFIDENCE_KEY: confidence.value,
        }
        text = json.dumps({key: values[key] for key in self.keys}, ensure_ascii=False)
        if not (answer := self.parse(text)).payload_ok:
            wrong = [pair for pair in pairs if pair[1] not in pair[0].labels]
            subject, label = (wrong or pairs)[0]
            raise ContractError(
                f"this answer would be {answer.outcome}",
                field=subject.label_key,
                value=label,
                allowed=", ".join(subject.labels),
            )
        return text

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer; it says all that `parse` demands but that no key repeats."""
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
    signals = values[SIGNALS_KEY]
    return (
        isinstance(values[JUSTIFICATION_KEY], str)
        and isinstance(signals, list)
        and all(isinstance(signal, str) for signal in signals)
    )
