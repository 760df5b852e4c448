"""What every rule is: a predicate over any text, and the forms in which a criterion carries it, behind `rule: `."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Final, Self, cast, get_type_hints

from tinsmith.types.errors import DataError

LARGEST: Final = 999_999  # No count in a rule is larger.
_TEXT: Final = r"'(?:[^']|'')+'"
_N: Final = r"(?:0|[1-9][0-9]{0,5})"
_SAID: Final[Mapping[object, str]] = {str: _TEXT, tuple[str, ...]: rf"{_TEXT}(?:, {_TEXT})*", int: _N}
_PLACE: Final = re.compile(r"(\[)?([^\[\]{}]*)\{(\w+)\}([^\[\]{}]*)\]?")


def quoted(text: str) -> str:
    """Return `text` in single quotes, those inside it doubled."""
    return "'" + text.replace("'", "''") + "'"


def _unquoted(texts: str) -> tuple[str, ...]:
    return tuple(one[1:-1].replace("''", "'") for one in re.findall(_TEXT, texts))


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds on a count: at least, at most, between, exactly."""

    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        ends = [end for end in (self.least, self.most) if end is not None]
        if not ends or ends != sorted(ends) or not all(0 <= end <= LARGEST for end in ends):
            allowed = f"0 <= least <= most <= {LARGEST}"
            raise DataError("not a bound", field="bound", value=tuple(ends), allowed=allowed)

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `text` gives."""
        first, *more = [int(number) for number in re.findall(_N, text)]
        if more and first >= more[0]:
            raise DataError("between runs from a smaller to a larger number", field="rule")
        least = None if text.startswith("at most") else first
        return cls(least, more[0] if more else None if text.startswith("at least") else first)

    @property
    def text(self) -> str:
        """As `exactly 3`, `at least 3`, `at most 3`, `between 3 and 5`."""
        if self.least == self.most:
            return f"exactly {self.least}"
        if self.most is None:
            return f"at least {self.least}"
        if self.least is None:
            return f"at most {self.most}"
        return f"between {self.least} and {self.most}"

    def holds(self, count: int) -> bool:
        """Whether a count is within."""
        return (self.least or 0) <= count and (self.most is None or count <= self.most)


AT_LEAST_ONE: Final = Bound(least=1)
NONE_AT_ALL: Final = Bound(least=0, most=0)
_BOUND: Final = rf"exactly {_N}|at least {_N}|at most {_N}|between {_N} and {_N}"


@dataclass(frozen=True, slots=True)
class Form:
    """How a rule is written: {name} stands for a field, and [...] is left out where the field in it has its default."""

    text: str
    fixed: Mapping[str, object] = field(default_factory=dict[str, object])
    """Fields that do not stand in it, as they are not what they are by default."""


class Rule:
    """A decidable predicate over responses; what is no rule raises DataError when it is made."""

    __slots__ = ()
    forms: ClassVar[tuple[Form, ...]]  # The first one that fits is how it is written.

    @property
    def text(self) -> str:
        """The rule as a criterion carries it."""
        fits = (each for each in self.forms if all(getattr(self, k) == v for k, v in each.fixed.items()))
        return _PLACE.sub(self._written, next(fits).text)

    def _written(self, place: re.Match[str]) -> str:
        optional, before, name, after = place.groups()
        value = getattr(self, name)
        if optional and value == _default(type(self), name):
            return ""
        return f"{before}{_said(value)}{after}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the rule that a text is; None where it has another form."""
        for pattern, fixed in _patterns(cls):
            if (found := pattern.fullmatch(text)) is not None:
                hints, given = get_type_hints(cls), found.groupdict()
                read = {k: _read(hints[k], said) for k, said in given.items() if said is not None}
                return cls(**read, **fixed)
        return None

    def holds(self, response: str) -> bool:
        """Return true if the response obeys; total, and a function of the text alone."""
        raise NotImplementedError

    def hold(self, responses: Sequence[str]) -> list[bool]:
        """Return which of the responses obey, in order."""
        return [self.holds(one) for one in responses]


@cache
def _patterns(rule: type[Rule]) -> tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]:
    hints: dict[str, Any] = get_type_hints(rule)

    def pattern(place: re.Match[str]) -> str:
        optional, before, name, after = place.groups()
        kind, said = hints[name], _SAID.get(hints[name], _BOUND)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            others = [one for one in kind if not optional or one != _default(rule, name)]
            said = "|".join(re.escape(str(one.value)) for one in others)
        whole = f"{before}(?P<{name}>{said}){after}"
        return f"(?:{whole})?" if optional else whole

    made = [(_PLACE.sub(pattern, each.text), each.fixed) for each in rule.forms]
    return tuple((re.compile(text, re.DOTALL), fixed) for text, fixed in made)


def _default(rule: type[Rule], name: str) -> object:
    own: Any = rule
    return next(each.default for each in fields(own) if each.name == name)


def _said(value: object) -> str:
    if isinstance(value, Bound):
        return value.text
    if isinstance(value, tuple):
        return ", ".join(map(quoted, cast("tuple[str, ...]", value)))
    return quoted(value) if type(value) is str else str(value)


def _read(kind: Callable[[str], object], said: str) -> object:
    if kind is Bound:
        return Bound.read(said)
    if kind is str:
        return _unquoted(said)[0]
    return _unquoted(said) if kind == tuple[str, ...] else kind(said)
