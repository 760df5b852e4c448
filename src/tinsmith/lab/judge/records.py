"""Files of a judged run beside those of every run: its items with their criteria, verdicts, and the judge's ledger.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tinsmith.data.replacing import replacing

RULES: Final = "rules"
"""The name of the judge that knows surfaces and rules."""


class CriteriaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `tasks.jsonl`."""

    task_id: str
    split: str = ""
    prompt: str = ""
    criteria: tuple[str, ...] = ()


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on one criterion."""

    passed: bool
    rationale: str = ""


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of the judge: responses judged, and what that took."""

    judged: int = 0
    failed: int = 0
    from_cache: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    dollars: float | None = None


def summed(lines: Sequence[LedgerRecord]) -> LedgerRecord:
    """Return the sum of all askings."""
    counts = ("judged", "failed", "from_cache", "calls", "prompt_tokens", "completion_tokens")
    # Answers from the cache alone cost nothing, whatever the judge's price.
    dollars = [line.dollars if line.calls else 0.0 for line in lines]
    known = [each for each in dollars if each is not None]
    return LedgerRecord(
        **{name: sum(getattr(line, name) for line in lines) for name in counts},
        estimated=any(line.estimated for line in lines),
        dollars=sum(known) if len(known) == len(dollars) else None,
    )


class Prompted(Protocol):
    """An item with its name and what is asked about it."""

    @property
    def prompt_id(self) -> str:
        """Its name."""
        ...

    @property
    def prompt(self) -> str:
        """Text of the prompt."""
        ...

    @property
    def item(self) -> object:
        """Item of the task; its criteria are a function of it."""
        ...


def write_tasks(
    criteria: Callable[[Any], Sequence[str]], train: Sequence[Prompted], held_out: Sequence[Prompted], file: Path
) -> None:
    """Write one line an item with its criteria, training and held-out ones; the old file or the whole new one."""
    with replacing(file) as part, part.open("w", encoding="utf-8", newline="\n") as lines:
        for side, tasks in (("train", train), ("test", held_out)):
            for one in tasks:
                found = tuple(criteria(one.item))
                line = CriteriaRecord(task_id=one.prompt_id, split=side, prompt=one.prompt, criteria=found)
                lines.write(json.dumps(msgspec.to_builtins(line), ensure_ascii=False) + "\n")
