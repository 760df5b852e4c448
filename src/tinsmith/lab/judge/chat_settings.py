"""The settings of a judge behind an endpoint; to read them takes nothing that could ask it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The judge's settings, under the names of the command line.

    Raises:
        ConfigError: a value out of range.
    """

    judge_model: str
    """As the endpoint names it."""
    judge_base_url: str | None = None
    """None: OPENAI_BASE_URL, else OpenAI's own."""
    judge_temperature: float = 0.0
    """At which it answers."""
    judge_max_retries: int = 3
    """Attempts after the first."""
    judge_timeout_s: float = 60.0
    """Of one attempt, in seconds."""
    judge_concurrency: int = 64
    """Calls at once."""
    judge_rpm: int | None = None
    """Most calls a minute; None: no limit."""
    judge_tpm: int | None = None
    """Most tokens a minute; None: no limit."""
    judge_max_tokens: int | None = None
    """Of one answer; without it `judge_tpm` reserves an estimate for answers that are still out."""
    identity: str | None = None
    """Stands in the cache for the model's name, where that may change its meaning (own weights)."""
    seed: int = 0
    """Of the waits' spread; nothing else is drawn."""

    def __post_init__(self) -> None:
        if not self.judge_model:
            raise ConfigError(
                "no judge model is named", field="judge_model", value=self.judge_model
            )
        _from("judge_max_retries", self.judge_max_retries, 0)
        _from("judge_concurrency", self.judge_concurrency, 1)
        for name in ("judge_rpm", "judge_tpm", "judge_max_tokens"):
            value: int | None = getattr(self, name)
            if value is not None:
                _from(name, value, 1)
        if not (math.isfinite(self.judge_temperature) and self.judge_temperature >= 0):
            raise ConfigError(
                "no temperature",
                field="judge_temperature",
                value=self.judge_temperature,
                allowed=">= 0",
            )
        if not (math.isfinite(self.judge_timeout_s) and self.judge_timeout_s > 0):
            raise ConfigError(
                "no time", field="judge_timeout_s", value=self.judge_timeout_s, allowed="> 0"
            )


def _from(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError("too small", field=name, value=value, allowed=f">= {least}")
