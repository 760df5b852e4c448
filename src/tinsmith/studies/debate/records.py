"""What a line of rollouts says beside what every run's does, where a challenger stood between two answers.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import FailureRecord


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the two said."""

    role: str = ""
    text: str = ""
    outcome: str = ""
    """Of an answer; a challenge has none."""


class ChallengeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the challenger argued for."""

    arm: str = ""
    label: str | None = None
    evidence: bool = False
    grounded: bool | None = None
    """Whether the words it quotes speak for its label; None where nobody knows."""


class ConversationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation; `failure` is set where it came to nothing, `challenge` where there was one."""

    step: int
    split: str
    prompt_id: str
    sample: int = 0
    gold: str = ""
    predicted: str | None = None
    confidence: str | None = None
    outcome: str = ""
    turns: tuple[TurnRecord, ...] = ()
    challenge: ChallengeRecord | None = None
    speaks_for: int | None = None
    terms: dict[str, float] | None = None
    total: float | None = None
    failure: FailureRecord | None = None


def read_conversations(folder: Path, notes: list[str]) -> Iterator[ConversationRecord]:
    """Yield the conversations of a run in the order they were written; what is unreadable goes to `notes`."""
    yield from json_lines(folder / ROLLOUTS, ConversationRecord, notes)
