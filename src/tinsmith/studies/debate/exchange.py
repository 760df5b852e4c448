"""One finished conversation as it is scored: a prediction, a challenge, and the answer to it."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.lab.labels.answers import Answer, Outcome
from tinsmith.lab.labels.contracts import JUSTIFICATION_KEY, SIGNALS_KEY, Contract, Form
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.strict_json import JsonObject, NotJsonError, read_json
from tinsmith.studies.debate.stance import Stance


@dataclass(frozen=True, slots=True)
class Reasons:
    """What an answer says beside its label."""

    justification: str
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """See the module. A right answer is one without any fault and with the gold label."""

    item: Item
    first: Answer
    last: Answer
    stance: Stance
    challenge: str
    """B's words, without the request to answer again."""
    reasons: Reasons | None
    """Of the last answer; None where it has a fault or its contract asks for none."""

    @property
    def first_right(self) -> bool:
        """Whether the prediction was right (c1)."""
        return self.first.predicted == self.item.gold

    @property
    def last_right(self) -> bool:
        """Whether the answer to the challenge is right (c2)."""
        return self.last.predicted == self.item.gold

    @property
    def revised(self) -> bool:
        """Whether both answers are without fault, and their labels differ."""
        both = self.first.predicted is not None and self.last.predicted is not None
        return both and self.first.predicted != self.last.predicted


def reasons_of(contract: Contract, text: str) -> Reasons | None:
    """Return an answer's reasons; None where the answer has a fault or the contract asks for none."""
    if contract.form is not Form.FOUR_KEY or contract.parse(text).outcome is not Outcome.OK:
        return None
    try:
        value = read_json(text)
    except NotJsonError:
        return None
    if not isinstance(value, JsonObject):
        return None
    values = dict(value.pairs)
    justification, signals = values[JUSTIFICATION_KEY], values[SIGNALS_KEY]
    if not isinstance(justification, str) or not isinstance(signals, list):
        return None
    return Reasons(justification, tuple(one for one in signals if isinstance(one, str)))
