"""Files of a judged run, and settings of a judge: items with their criteria, verdicts, the ledger; keys.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tinsmith.types.errors import ConfigError

RULES: Final = "rules"
"""The name of the judge that knows surfaces and rules."""


class CriteriaRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `tasks.jsonl`."""

    task_id: str
    split: str = ""
    prompt: str = ""
    criteria: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalls:
    """Settings of calls; they decide nothing that a judge answers."""

    judge_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; empty: OPENAI_BASE_URL, or else OpenAI's own."""
    judge_max_retries: int = 3
    """Maximum retries of a call."""
    judge_timeout_s: float = 60.0
    """Timeout of one attempt, in seconds."""
    judge_concurrency: int = 64
    """Maximum concurrent calls."""
    judge_rpm: int = 0
    """Maximum calls per minute; 0: no limit."""
    judge_tpm: int = 0
    """Maximum tokens per minute; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(JudgeCalls):
    """Which judge, and how it is asked."""

    judge_model: str
    """As the endpoint names it."""
    judge_temperature: float = 0.0
    """Sampling temperature of the judge."""
    judge_max_tokens: int = 0
    """Maximum tokens of an answer of the judge; 0: the endpoint's default."""
    identity: str | None = None
    """Stands in the cache for the model's name, where that may change its meaning (own weights)."""
    seed: int = 0
    """Of the waits' spread; nothing else is drawn."""

    def __post_init__(self) -> None:
        if not self.judge_model:
            raise ConfigError("no judge model is named", field="judge_model", value=self.judge_model)
        least = {"judge_concurrency": 1, "judge_max_retries": 0, "judge_temperature": 0}
        least |= {"judge_rpm": 0, "judge_tpm": 0, "judge_max_tokens": 0}
        for name, lowest in least.items():
            value: float = getattr(self, name)
            if not (math.isfinite(value) and value >= lowest):
                raise ConfigError("too small", field=name, value=value, allowed=f">= {lowest}")
        if not (math.isfinite(self.judge_timeout_s) and self.judge_timeout_s > 0):
            raise ConfigError("no time", field="judge_timeout_s", value=self.judge_timeout_s, allowed="> 0")
