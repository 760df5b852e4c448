"""Knows what judging costs, before and after, from a table of prices that the user may replace."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from tinsmith.lab.judge.answers import Question, ratings_form
from tinsmith.lab.judge.prompting import JudgeRequest, judge_prompt
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.types.errors import ConfigError

BYTES_A_TOKEN: Final = 4
"""Of English text, in the tokenizers in use: an estimate."""
_DATED: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by the judge's name."""

    prices: Mapping[str, Price]

    def dollars(self, model: str, spent: Spent) -> float | None:
        """Return what was or will be paid; None where the price is not known.

        A dated name (`gpt-5-mini-2025-08-07`) has the price of the undated one, unless it has its own.
        """
        price = self.prices.get(model) or self.prices.get(_DATED.sub("", model))
        if price is None:
            return None
        cost = spent.prompt_tokens * price.prompt + spent.completion_tokens * price.completion
        return cost / 1e6


def load_prices(override: Path | None = None) -> PriceTable:
    """Read the shipped table, then the user's over it.

    Raises:
        ConfigError: the user's file cannot be read, or a price in it is no number from 0 up.
    """
    shipped = files("tinsmith.lab.judge").joinpath("prices.toml").read_text(encoding="utf-8")
    prices = _parse(shipped, "prices.toml")
    if override is not None:
        try:
            text = override.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"the price table cannot be read: {error}", field="prices", value=str(override)
            ) from None
        prices |= _parse(text, str(override))
    return PriceTable(MappingProxyType(prices))


def _parse(text: str, name: str) -> dict[str, Price]:
    try:
        models = tomllib.loads(text).get("models", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is no TOML: {error}") from None
    if not isinstance(models, dict):
        raise _no_price(name, "models", models)
    table = cast("dict[str, object]", models)
    return {model: _price(name, model, entry) for model, entry in table.items()}


def _price(name: str, model: str, entry: object) -> Price:
    if not isinstance(entry, dict) or set(cast("dict[str, object]", entry)) != {
        "prompt",
        "completion",
    }:
        raise _no_price(name, model, entry)
    values = cast("dict[str, object]", entry)
    return Price(
        _dollars(name, model, values["prompt"]), _dollars(name, model, values["completion"])
    )


def _dollars(name: str, model: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not (math.isfinite(value) and value >= 0)
    ):
        raise _no_price(name, model, value)
    return float(value)


def _no_price(name: str, model: str, value: object) -> ConfigError:
    return ConfigError(
        f"{name}: a price is two numbers, dollars for a million tokens",
        field=model,
        value=value,
        allowed="prompt and completion, each from 0 up",
        fix=f'[models."{model}"] with the lines `prompt = 0.25` and `completion = 2.0`',
    )


def estimate_spent(requests: Iterable[JudgeRequest], *, response_tokens: int) -> Spent:
    """Estimate what judging will take: one call each, nothing retried, nothing found in the cache.

    Give the requests with an empty response, as many times as each will be judged; every response
    is taken to have `response_tokens` tokens.
    """
    total = Spent(estimated=True)
    for request in requests:
        total += Spent(
            calls=1,
            prompt_tokens=tokens_in(judge_prompt(request).size) + response_tokens,
            completion_tokens=ratings_form(len(request.criteria)).tokens,
        )
    return total


def estimate_questions(questions: Iterable[Question[Any]]) -> Spent:
    """Estimate what questions will take as they stand: one call each, nothing retried, nothing in the cache."""
    total = Spent(estimated=True)
    for question in questions:
        total += Spent(
            calls=1,
            prompt_tokens=tokens_in(question.prompt.size),
            completion_tokens=question.form.tokens,
        )
    return total


def tokens_in(size: int) -> int:
    """Estimate the tokens of a text from its bytes."""
    return math.ceil(size / BYTES_A_TOKEN)


def shown(dollars: float | None) -> str:
    """Return an amount as a person reads it.

    >>> shown(None), shown(0.01234), shown(12.5)
    ('unknown', '$0.0123', '$12.50')
    """
    if dollars is None:
        return "unknown"
    return f"${dollars:.4f}" if 0 < dollars < 1 else f"${dollars:.2f}"
