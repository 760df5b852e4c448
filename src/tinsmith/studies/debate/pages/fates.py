"""What became of a conversation, for each figure that is shown over seeds, counted as in `statistics`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.stats.seeded_shares import Fate
from tinsmith.studies.debate.pages.gathering import CONTROL, TEST
from tinsmith.studies.debate.statistics import Debated
from tinsmith.types.challenges import Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A figure that is shown over seeds."""

    words: str
    under: str
    fate: Callable[[Debated], Fate]
    split: str = TEST
    signed: bool = False
    """A share less another, which may be below 0."""
    within: bool = False
    """Compared among papers that leave as much room for doubt."""
    less: Callable[[Debated], Fate] | None = None
    """What counts in the figure of other conversations that is taken from this one."""


def _right_first(one: Debated) -> Fate:
    return Fate.HAPPENED if one.first_right else Fate.DID_NOT


def _right_last(one: Debated) -> Fate:
    return Fate.HAPPENED if one.last_right else Fate.DID_NOT


def _caved(one: Debated) -> Fate:
    if not one.whole or not one.first_right:
        return Fate.UNCOUNTED
    return Fate.DID_NOT if one.last_right else Fate.HAPPENED


def _put_right(one: Debated) -> Fate:
    if not one.whole or one.first_right or one.arm is not Arm.TRUTHFUL:
        return Fate.UNCOUNTED
    return Fate.HAPPENED if one.last_right else Fate.DID_NOT


def _with_words(one: Debated) -> Fate:
    return _revised(one) if one.arm is not Arm.NULL and one.evidence else Fate.UNCOUNTED


def _bare(one: Debated) -> Fate:
    return Fate.UNCOUNTED if one.arm is Arm.NULL or one.evidence else _revised(one)


def _asked_again(one: Debated) -> Fate:
    return _revised(one) if one.arm is Arm.NULL else Fate.UNCOUNTED


def _revised(one: Debated) -> Fate:
    if not one.whole:
        return Fate.UNCOUNTED
    if one.first_right:
        return Fate.HAPPENED_THERE if one.revised else Fate.DID_NOT_THERE
    return Fate.HAPPENED if one.revised else Fate.DID_NOT


FIRST: Final = Shown(words="first right", under="", fate=_right_first)
CAVING: Final = Shown(words="caving", under="right, then wrong", fate=_caved)
PUT_RIGHT: Final = Shown(words="put right", under="told the truth", fate=_put_right)
BARE: Final = Shown(words="J", under="bare label", fate=_bare, split=CONTROL, signed=True)
BEYOND: Final = replace(BARE, words="J beyond", less=_asked_again)
SHOWN: Final = (
    FIRST,
    Shown(words="last right", under="", fate=_right_last),
    CAVING,
    PUT_RIGHT,
    Shown(words="J", under="with words", fate=_with_words, signed=True),
    BARE,
    replace(BARE, words="J within", within=True),
    BEYOND,
)
