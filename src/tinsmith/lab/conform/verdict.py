"""What can be said of one question to a server: four words, and how it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Word(StrEnum):
    """What a server does with what it was asked for."""

    HONOURED = "honoured"
    """It computes what the documentation says."""
    DIFFERS = "differs"
    """It does otherwise and that can be seen: an error of its own, no answer, another arithmetic, or not to be told."""
    REFUSED = "refused"
    """It says in the way of the protocol that it does not."""
    SILENT = "silent difference"
    """It accepts the request, and computes something else or ignores a part of it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, and what it rests on."""

    word: Word
    how: str


ROUNDING: Final = 1e-4
"""Nats that two float32 computations of one number may be apart."""
COARSE: Final = 0.1
"""Nats that two computations of one number in bfloat16 may be apart; more is another number."""


def honoured(how: str) -> Verdict:
    """Return that a server does what is written."""
    return Verdict(Word.HONOURED, how)


def differs(how: str) -> Verdict:
    """Return that a server visibly does otherwise."""
    return Verdict(Word.DIFFERS, how)


def silent(how: str) -> Verdict:
    """Return that a server does otherwise without a word."""
    return Verdict(Word.SILENT, how)


def graded(distance: float, same: str, *, unit: str = "nats") -> Verdict:
    """Judge two numbers that must be one: `same` says what agrees, `distance` is how far they are apart.

    >>> graded(0.0, "both texts").how, graded(0.02, "both texts").word.value, graded(2.0, "both texts").word.value
    ('both texts: exactly', 'differs', 'silent difference')
    """
    if distance == 0.0:
        return honoured(f"{same}: exactly")
    apart = f"{same}: {distance:.2g} {unit} apart"
    if distance <= ROUNDING:
        return honoured(apart)
    return differs(f"{apart}, another rounding") if distance <= COARSE else silent(apart)


def effect(moved: float, noise: float, what: str) -> Verdict:
    """Judge an option that must change the result: `moved` is by how much it did, `noise` what repeating alone does.

    >>> effect(0.0, 0.0, "clipping").word.value, effect(0.3, 1e-6, "clipping").word.value
    ('silent difference', 'honoured')
    """
    if moved > max(ROUNDING, 10.0 * noise):
        return honoured(f"{what} changes the log-probabilities by {moved:.2g} nats")
    if noise > ROUNDING:
        return differs(f"cannot be told: equal steps are {noise:.2g} nats apart themselves")
    return silent(f"{what} is accepted and changes nothing ({moved:.2g} nats)")
