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

from tinsmith.lab.labels.answer_shape import CONFIDENCE_KEY, JUSTIFICATION_KEY, SIGNALS_KEY, Shape
from tinsmith.lab.labels.answers import Answer, Confidence, Outcome
from tinsmith.lab.labels.subjects import Subject
from tinsmith.types.errors import ConfigError

__all__ = [
    "CONFIDENCE_KEY",
    "CONTRACTS",
    "FIVE_KEY",
    "FOUR_KEY",
    "JOINT",
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
    "Outcome",
    "contract_for",
]


JOINT: Final = "joint"
"""What a task or contract about all subjects at once is called."""


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

    subjects: tuple[Subject, ...]
    """What it has labels for, in the order of its keys."""
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
    def shape(self) -> Shape:
        """What its texts are held against."""
        return Shape(subjects=self.subjects, with_reasons=self.form.with_reasons)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they are shown and written."""
        return self.shape.keys

    def parse(self, text: str) -> Answer:
        """Read an answer. Never raises, whatever the text; takes time linear in its length."""
        return self.shape.parse(text)

    def answer_text(
        self,
        labels: str | tuple[str, ...],
        confidence: Confidence,
        *,
        justification: str = "",
        signals: Sequence[str] = (),
    ) -> str:
        """Write an answer that satisfies the contract: one line of JSON, keys in their order.

        Justification and signals are left out where the form has none.

        Args:
            labels: the label, or one a subject in their order.
            confidence: how sure it says it is.
            justification: why.
            signals: what in the paper speaks for it.

        Raises:
            ContractError: a label is none of its subject's, or a text has a lone surrogate.

        >>> TWO_KEY.answer_text("neutral", Confidence.LOW)
        '{"disruption_label": "neutral", "confidence": "low"}'
        >>> THREE_KEY.answer_text(("disruptive", "novel"), Confidence.LOW)
        '{"disruption_label": "disruptive", "novelty_label": "novel", "confidence": "low"}'
        """
        each = (labels,) if isinstance(labels, str) else labels
        return self.shape.write(each, confidence, justification=justification, signals=signals)

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema (2020-12) of an answer, for people and for constrained sampling.

        It says all that `parse` demands but that no key may be there twice.
        """
        return self.shape.schema()


FOUR_KEY: Final = Contract(subjects=(Subject.DISRUPTION,), form=Form.FOUR_KEY)
TWO_KEY: Final = Contract(subjects=(Subject.DISRUPTION,), form=Form.TWO_KEY)
NOVELTY_FOUR_KEY: Final = Contract(subjects=(Subject.NOVELTY,), form=Form.FOUR_KEY)
NOVELTY_TWO_KEY: Final = Contract(subjects=(Subject.NOVELTY,), form=Form.TWO_KEY)
FIVE_KEY: Final = Contract(subjects=tuple(Subject), form=Form.FIVE_KEY)
THREE_KEY: Final = Contract(subjects=tuple(Subject), form=Form.THREE_KEY)

CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType(
    {one.name: one for one in (FOUR_KEY, TWO_KEY, NOVELTY_FOUR_KEY, NOVELTY_TWO_KEY)}
)
"""Every contract about one subject by its name, `subject/form`."""

JOINT_CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType({one.name: one for one in (FIVE_KEY, THREE_KEY)})
"""Every contract about all subjects by its name, `joint/form`."""


def contract_for(about: str, form: str) -> Contract:
    """Return the contract about a subject, or about JOINT, by the name of its form.

    Raises:
        ConfigError: there is no such form.

    >>> contract_for(Subject.DISRUPTION, "two_key") is TWO_KEY
    True
    """
    known = {**CONTRACTS, **JOINT_CONTRACTS}
    if (name := f"{about}/{form}") not in known:
        allowed = ", ".join(one.form for one in known.values() if one.about == about)
        raise ConfigError("there is no such contract", field="contract", value=form, allowed=allowed)
    return known[name]
