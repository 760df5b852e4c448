"""The dialect of patterns, read into a position automaton; `regular` says what stands in it and runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tinsmith.types.errors import DataError

MAX_POSITIONS: Final = 256
"""Places for a character in a pattern, repetitions written out."""
MAX_NESTING: Final = 24
_MAX_READS: Final = 4096

CharTest = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of the pattern: whether it takes the empty text, where it begins and ends."""

    empty: bool
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Automaton:
    """Places of a pattern: what each takes, which ones follow it; sets of places are integers."""

    whole: _Part
    tests: tuple[CharTest, ...]
    follow: tuple[int, ...]
    at_start: bool
    at_end: bool


_ESCAPED: Final[dict[str, CharTest]] = {
    "d": lambda c: c in "0123456789",
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
    "D": lambda c: c not in "0123456789",
    "W": lambda c: not (c.isalnum() or c == "_"),
    "S": lambda c: not c.isspace(),
}
_NAMED: Final = {"n": "\n", "t": "\t"}


class PatternReader:
    """Reads one pattern from left to right and wires its places; used once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._stop = len(pattern)
        self._tests: list[CharTest] = []
        self._follow: list[int] = []
        self._depth = 0
        self._reads = 0

    def automaton(self) -> Automaton:
        """Return the whole pattern's automaton.

        Raises:
            DataError: the pattern is not of the dialect, or too large; the message says where.
        """
        at_start = self._pattern.startswith("^")
        body = self._pattern[1:] if at_start else self._pattern
        slashes = len(body[:-1]) - len(body[:-1].rstrip("\\"))
        at_end = body.endswith("$") and slashes % 2 == 0
        self._at = int(at_start)
        self._stop -= int(at_end)
        whole = self._choice()
        if self._at < self._stop:
            raise self._wrong("a bracket that was not opened")
        return Automaton(whole, tuple(self._tests), tuple(self._follow), at_start, at_end)

    def _wrong(self, why: str) -> DataError:
        return DataError(
            f"pattern, character {self._at + 1}: {why}", field="pattern", value=self._pattern
        )

    def _peek(self) -> str:
        return self._pattern[self._at] if self._at < self._stop else ""

    def _next(self) -> str:
        if self._at >= self._stop:
            raise self._wrong("the pattern ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _choice(self) -> _Part:
        found = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            found = _Part(
                found.empty or other.empty, found.first | other.first, found.last | other.last
            )
        return found

    def _sequence(self) -> _Part:
        found = _Part(True, 0, 0)
        while self._peek() not in ("", "|", ")"):
            found = self._joined(found, self._repeated())
        return found

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._wire(left.last, right.first)
        return _Part(
            left.empty and right.empty,
            left.first | (right.first if left.empty else 0),
            right.last | (left.last if right.empty else 0),
        )

    def _wire(self, ends: int, begins: int) -> None:
        for place in range(len(self._tests)):
            if ends >> place & 1:
                self._follow[place] |= begins

    def _repeated(self) -> _Part:
        start = self._at
        part = self._one()
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._peek() and self._peek() in "*+?{":
            raise self._wrong("a repetition of a repetition; put brackets around the first")
        least, most = bounds
        end = self._at
        copies = [part]
        # Every copy needs places of its own: the piece is read again for each.
        for _ in range(max(1, least if most is None else most) - 1):
            self._at = start
            copies.append(self._one())
        self._at = end
        if most == 0:
            return _Part(True, 0, 0)
        if most is None:
            self._wire(copies[-1].last, copies[-1].first)
        found = _Part(True, 0, 0)
        for i, copy in enumerate(copies):
            found = self._joined(found, copy if i < least else _Part(True, copy.first, copy.last))
        return found

    def _bounds(self) -> tuple[int, int | None] | None:
        sign = self._peek()
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if sign in simple:
            self._at += 1
            return simple[sign]
        if sign != "{":
            return None
        self._at += 1
        least = self._number()
        most: int | None = least
        if self._peek() == ",":
            self._at += 1
            most = None if self._peek() == "}" else self._number()
        if self._next() != "}" or (most is not None and most < least):
            raise self._wrong("{m}, {m,} or {m,n} with m <= n")
        return least, most

    def _number(self) -> int:
        start = self._at
        while self._peek() and self._peek() in "0123456789":
            self._at += 1
        if not 0 < self._at - start <= 3:
            raise self._wrong("a number of one to three digits")
        return int(self._pattern[start : self._at])

    def _one(self) -> _Part:
        self._reads += 1  # repeated empty groups cost no place, but time
        if self._reads > _MAX_READS:
            raise self._wrong("too many repetitions")
        sign = self._next()
        if sign == "(":
            self._depth += 1
            if self._depth > MAX_NESTING:
                raise self._wrong("nested too deeply")
            found = self._choice()
            if self._next() != ")":
                raise self._wrong("a bracket is not closed")
            self._depth -= 1
            return found
        if sign in "*+?{}])^$":
            raise self._wrong(f"{sign!r} does not belong here; write a backslash before it")
        if sign == ".":
            return self._place(lambda c: c != "\n")
        if sign == "[":
            return self._place(self._class())
        if sign == "\\":
            return self._place(self._escape())
        return self._place(_is(sign))

    def _place(self, test: CharTest) -> _Part:
        if len(self._tests) >= MAX_POSITIONS:
            raise self._wrong(f"more than {MAX_POSITIONS} characters, repetitions written out")
        self._tests.append(test)
        self._follow.append(0)
        bit = 1 << (len(self._tests) - 1)
        return _Part(False, bit, bit)

    def _escape(self) -> CharTest:
        sign = self._next()
        if sign in _ESCAPED:
            return _ESCAPED[sign]
        return _is(self._literal(sign))

    def _literal(self, sign: str) -> str:
        if sign in _NAMED:
            return _NAMED[sign]
        if sign.isalnum():
            raise self._wrong(f"unknown escape \\{sign}")
        return sign

    def _class(self) -> CharTest:
        opposite = self._peek() == "^"
        self._at += int(opposite)
        tests: list[CharTest] = []
        while (sign := self._next()) != "]":
            if sign == "[":
                raise self._wrong("write \\[ inside a class")
            if sign == "\\":
                sign = self._next()
                if sign in _ESCAPED:
                    tests.append(_ESCAPED[sign])
                    continue
                sign = self._literal(sign)
            tests.append(self._range(sign))
        if not tests:
            raise self._wrong("an empty class")
        return _any_of(tuple(tests), opposite)

    def _range(self, low: str) -> CharTest:
        if self._peek() != "-" or self._pattern[self._at + 1 : self._at + 2] == "]":
            return _is(low)
        self._at += 1
        high = self._next()
        if high == "\\":
            high = self._literal(self._next())
        if high < low:
            raise self._wrong("a range runs upwards")
        return lambda c: low <= c <= high


def _is(sign: str) -> CharTest:
    return lambda c: c == sign


def _any_of(tests: tuple[CharTest, ...], opposite: bool) -> CharTest:
    return lambda c: any(test(c) for test in tests) != opposite
