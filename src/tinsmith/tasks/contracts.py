"""The contract of an answer: which keys its JSON object has, and how a text is held against it.

Decided here, once: the text is one JSON object with exactly the contract's keys, each once, in any
order; labels and confidence are matched as they are written, case included; white space around the
object is allowed, any other text is not. What breaks a rule is named by an Outcome, never repaired.
Beside this strict reading stands a lenient one that first takes off thoughts, fences and outer text.
One reader does it for all contracts, whether one label is asked for or two (see answer_shape.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.tasks.answer_shape import CONFIDENCE_KEY, JUSTIFICATION_KEY, SIGNALS_KEY, Shape
from tinsmith.tasks.answers import Answer, Confidence, JointAnswer, Outcome
from tinsmith.tasks.subjects import Subject
from tinsmith.types.errors import ConfigError

__all__ = [
    "CONFIDENCE_KEY",
    "CONTRACTS",
    "FIVE_KEY",
    "FOUR_KEY",
    "JOINT_CONTRACTS",
    "JUSTIFICATION_KEY",
    "NOVELTY_FOUR_KEY",
    "NOVELTY_TWO_KEY",
    "SIGNALS_KEY",
    "THREE_KEY",
    "TWO_KEY",
    "Answer",
    "Confidence",
    "Contract",
    "Form",
    "JointAnswer",
    "JointContract",
    "Outcome",
    "contract_for",
    "joint_contract",
]


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
        """Whether justification and signals are asked for."""
        return self in (Form.FOUR_KEY, Form.FIVE_KEY)


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
    def shape(self) -> Shape:
        """What its texts are held against."""
        return Shape(subjects=(self.subject,), with_reasons=self.form.with_reasons)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they are shown and written."""
        return self.shape.keys

    def parse(self, text: str) -> Answer:
        """Read an answer. Never raises, whatever the text; takes time linear in its length."""
        return self.shape.parse(text).alone(0)

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
        return self.shape.write((label,), confidence, justification=justification, signals=signals)

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer, for people and for constrained sampling.

        It says all that `parse` demands but that no key may be there twice.
        """
        return self.shape.schema()


@dataclass(frozen=True, slots=True, kw_only=True)
class JointContract:
    """The contract of an answer that labels a paper for every subject at once."""

    form: Form

    @property
    def name(self) -> str:
        """Its name in JOINT_CONTRACTS."""
        return f"joint/{self.form}"

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """What it has labels for, in the order of its keys."""
        return tuple(Subject)

    @property
    def shape(self) -> Shape:
        """What its texts are held against."""
        return Shape(subjects=self.subjects, with_reasons=self.form.with_reasons)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they are shown and written."""
        return self.shape.keys

    def parse(self, text: str) -> JointAnswer:
        """Read an answer. Never raises, whatever the text; takes time linear in its length."""
        return self.shape.parse(text)

    def answer_text(
        self,
        labels: Sequence[str],
        confidence: Confidence,
        *,
        justification: str = "",
        signals: Sequence[str] = (),
    ) -> str:
        """Write an answer that satisfies the contract; `labels`: one a subject, in their order.

        Raises:
            ContractError: a label is none of its subject's, or a text has a lone surrogate.

        >>> THREE_KEY.answer_text(("disruptive", "novel"), Confidence.LOW)
        '{"disruption_label": "disruptive", "novelty_label": "novel", "confidence": "low"}'
        """
        return self.shape.write(labels, confidence, justification=justification, signals=signals)

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer; see Contract.schema."""
        return self.shape.schema()


FOUR_KEY: Final = Contract(subject=Subject.DISRUPTION, form=Form.FOUR_KEY)
TWO_KEY: Final = Contract(subject=Subject.DISRUPTION, form=Form.TWO_KEY)
NOVELTY_FOUR_KEY: Final = Contract(subject=Subject.NOVELTY, form=Form.FOUR_KEY)
NOVELTY_TWO_KEY: Final = Contract(subject=Subject.NOVELTY, form=Form.TWO_KEY)
FIVE_KEY: Final = JointContract(form=Form.FIVE_KEY)
THREE_KEY: Final = JointContract(form=Form.THREE_KEY)

CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType(
    {one.name: one for one in (FOUR_KEY, TWO_KEY, NOVELTY_FOUR_KEY, NOVELTY_TWO_KEY)}
)
"""Every contract about one subject by its name, `subject/form`."""

JOINT_CONTRACTS: Final[Mapping[str, JointContract]] = MappingProxyType(
    {one.name: one for one in (FIVE_KEY, THREE_KEY)}
)
"""Every contract about all subjects by its name, `joint/form`."""


def contract_for(subject: Subject, form: str) -> Contract:
    """Return the contract of a subject by the name of its form.

    Raises:
        ConfigError: there is no such form.

    >>> contract_for(Subject.DISRUPTION, "two_key") is TWO_KEY
    True
    """
    name = f"{subject}/{form}"
    if name not in CONTRACTS:
        raise _no_such(form, [one.form for one in CONTRACTS.values() if one.subject is subject])
    return CONTRACTS[name]


def joint_contract(form: str) -> JointContract:
    """Return the contract about all subjects by the name of its form.

    Raises:
        ConfigError: there is no such form.
    """
    name = f"joint/{form}"
    if name not in JOINT_CONTRACTS:
        raise _no_such(form, [one.form for one in JOINT_CONTRACTS.values()])
    return JOINT_CONTRACTS[name]


def _no_such(form: str, allowed: Sequence[Form]) -> ConfigError:
    return ConfigError(
        "there is no such contract", field="contract", value=form, allowed=", ".join(allowed)
    )
