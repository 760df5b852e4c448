r"""Regular expressions that any text is matched against in time linear in its length.

The dialect has no backtracking: literals, `.`, classes `[a-z]` and `[^a-z]`, `\d \w \s` and their
opposites, groups `( )`, `|`, `* + ?`, `{m}`, `{m,}` and `{m,n}`; `^` only at the very beginning and `$`
only at the very end. `\n` and `\t` are what they say; any other letter or digit after a backslash is an
error. It is run as a position automaton (Glushkov 1961) whose sets of positions are integers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tinsmith.studies.rubrics.rules.pattern import Automaton, CharTest, PatternReader

_CACHED: Final = 4096


def check_pattern(pattern: str) -> None:
    """Make sure that `pattern` is of the dialect.

    Raises:
        DataError: it is not, or it is too large; the message says where.
    """
    _compiled(pattern)


def found_in(pattern: str, text: str) -> bool:
    """Whether `pattern` occurs in `text`; case matters.

    Raises:
        DataError: as check_pattern.

    >>> found_in("^(tin|lead)+$", "tinleadtin")
    True
    """
    machine = _compiled(pattern)
    whole = machine.whole
    if whole.empty and (not machine.at_start or not machine.at_end or not text):
        return True
    takes: dict[str, int] = {}
    after: dict[int, int] = {}
    active = 0
    for place, character in enumerate(text):
        if character not in takes:
            takes[character] = _taking(machine.tests, character)
        if active not in after:
            if len(after) >= _CACHED:
                after.clear()
            after[active] = _following(machine.follow, active)
        fresh = whole.first if place == 0 or not machine.at_start else 0
        active = (after[active] | fresh) & takes[character]
        if not machine.at_end and active & whole.last:
            return True
        if not active and machine.at_start:
            return False
    return bool(machine.at_end and active & whole.last)


def _taking(tests: tuple[CharTest, ...], character: str) -> int:
    return sum(1 << place for place, test in enumerate(tests) if test(character))


def _following(follow: tuple[int, ...], active: int) -> int:
    reached = 0
    while active:
        lowest = active & -active
        reached |= follow[lowest.bit_length() - 1]
        active ^= lowest
    return reached


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Automaton:
    return PatternReader(pattern).automaton()
