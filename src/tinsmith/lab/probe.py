"""A reply taken apart for a forced choice: its reasoning, and the answers that could stand behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One reply, in tokens."""

    prompt: tuple[int, ...]
    reasoning: tuple[int, ...]
    """All before the answer begins; the whole reply where none does."""
    answers: tuple[tuple[int, ...], ...]
    """Every answer that there is, from what introduces it to what ends the reply."""
    gold: int
    """The place of the right one."""
    said: int | None
    """The place of the reply's own; None: it has none, or another."""
