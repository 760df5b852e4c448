"""Knows how a judge behind an endpoint is asked, under the names of the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalls:
    """How calls are made; it decides nothing that a judge says."""

    judge_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; None: OPENAI_BASE_URL, else OpenAI's own."""
    judge_max_retries: int = 3
    """Most attempts of a call after the first."""
    judge_timeout_s: float = 60.0
    """Most seconds for one attempt."""
    judge_concurrency: int = 64
    """Most calls at once."""
    judge_rpm: int = 0
    """Most calls a minute; 0: no limit."""
    judge_tpm: int = 0
    """Most tokens a minute; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(JudgeCalls):
    """Which judge, and how it is asked."""

    judge_model: str
    """As the endpoint names it."""
    judge_temperature: float = 0.0
    """Temperature at which the judge answers."""
    judge_max_tokens: int = 0
    """Most tokens in one answer of the judge; 0: as the endpoint decides."""
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
