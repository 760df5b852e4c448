"""The contract of an answer: which keys its JSON object has, and how a text is held against it.

Decided here, once: the text is one JSON object with exactly the contract's keys, each once, in any
order; labels and confidence are matched as they are written, case included; white space around the
object is allowed, any other text is not. What breaks a rule is named by an Outcome, never repaired.
Beside this strict reading stands a lenient one that first takes off thoughts, fences and outer text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.tasks.answers import Answer, Confidence, Outcome
from tinsmith.tasks.strict_json import JsonObject, JsonValue, NotJsonError, read_json
from tinsmith.tasks.subjects import Subject
from tinsmith.tasks.wrappings import FENCE, has_think, outer_object
from tinsmith.types.errors import ConfigError, ContractError

CONFIDENCE_KEY: Final = "confidence"
JUSTIFICATION_KEY: Final = "label_justification"
SIGNALS_KEY: Final = "evidence_signals"


class Form(StrEnum):
    """How much an answer says."""

    FOUR_KEY = "four_key"
    """Label, justification, signals, confidence."""
    TWO_KEY = "two_key"
    """Label and confidence."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text held against the keys only."""

    parse_ok: bool
    outcome: Outcome
    label: str | None = None
    confidence: Confidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The keys of an answer and what may stand under them."""

    subject: Subject
    form: Form

    @property
    def name(self) -> str:
        """Its name in CONTRACTS."""
        return f"{self.subject}/{self.form}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in their fixed order."""
        return self.subject.labels

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they are shown and written."""
        label = self.subject.label_key
        if self.form is Form.TWO_KEY:
            return (label, CONFIDENCE_KEY)
        return (label, JUSTIFICATION_KEY, SIGNALS_KEY, CONFIDENCE_KEY)

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
        lenient = reading.label
        if lenient is None and (inner := outer_object(text)) is not None:
            lenient = self._read(inner).label
        return Answer(
            outcome=outcome,
            parse_ok=reading.parse_ok,
            label=reading.label,
            confidence=reading.confidence,
            has_think=think,
            has_fence=fence,
            lenient=lenient,
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
        label, confidence = values[self.subject.label_key], values[CONFIDENCE_KEY]
        if not isinstance(label, str) or label not in self.labels:
            return _Reading(True, Outcome.BAD_LABEL)
        if not isinstance(confidence, str) or confidence not in tuple(Confidence):
            return _Reading(True, Outcome.BAD_CONFIDENCE)
        if self.form is Form.FOUR_KEY and not _reasons_ok(values):
            return _Reading(True, Outcome.BAD_VALUE)
        return _Reading(True, Outcome.OK, label, Confidence(confidence))

    def answer_text(
        self,
        label: str,
        confidence: Confidence,
        *,
        justification: str = "",
        signals: Sequence[str] = (),
    ) -> str:
        """Write an answer that satisfies the contract: one line of JSON, keys in their order.

        Justification and signals are left out of a TWO_KEY answer.

        Raises:
            ContractError: the label is none of the contract's, or a text has a lone surrogate.

        >>> TWO_KEY.answer_text(TWO_KEY.labels[0], Confidence.LOW)
        '{"disruption_label": "disruptive", "confidence": "low"}'
        """
        values = {
            self.subject.label_key: label,
            JUSTIFICATION_KEY: justification,
            SIGNALS_KEY: list(signals),
            CONFIDENCE_KEY: confidence.value,
        }
        text = json.dumps({key: values[key] for key in self.keys}, ensure_ascii=False)
        if not (answer := self.parse(text)).payload_ok:
            raise ContractError(
                f"this answer would be {answer.outcome}",
                field=self.subject.label_key,
                value=label,
                allowed=", ".join(self.labels),
            )
        return text

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer, for people and for constrained sampling.

        It says all that `parse` demands but that no key may be there twice.
        """
        values: dict[str, object] = {
            self.subject.label_key: {"type": "string", "enum": list(self.labels)},
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


FOUR_KEY: Final = Contract(subject=Subject.DISRUPTION, form=Form.FOUR_KEY)
TWO_KEY: Final = Contract(subject=Subject.DISRUPTION, form=Form.TWO_KEY)
NOVELTY_FOUR_KEY: Final = Contract(subject=Subject.NOVELTY, form=Form.FOUR_KEY)
NOVELTY_TWO_KEY: Final = Contract(subject=Subject.NOVELTY, form=Form.TWO_KEY)

CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType(
    {one.name: one for one in (FOUR_KEY, TWO_KEY, NOVELTY_FOUR_KEY, NOVELTY_TWO_KEY)}
)
"""Every contract by its name, `subject/form`."""


def contract_for(subject: Subject, form: str) -> Contract:
    """Return the contract of a subject by the name of its form.

    Raises:
        ConfigError: there is no such form.

    >>> contract_for(Subject.DISRUPTION, "two_key") is TWO_KEY
    True
    """
    name = f"{subject}/{form}"
    if name not in CONTRACTS:
        raise ConfigError("no such contract", field="contract", value=form, allowed=", ".join(Form))
    return CONTRACTS[name]
