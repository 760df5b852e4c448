"""Knows what judging costs, before and after, from a table of prices that the user may replace."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from tinsmith.lab.judge.prompting import JudgeRequest, Question, rating_question
from tinsmith.lab.judge.verdicts import Spent
from tinsmith.types.errors import ConfigError
from tinsmith.types.toml_files import read_toml

BYTES_A_TOKEN: Final = 4  # Of English text, in the tokenizers in use: an estimate.
MOST_DOLLARS: Final = 1e6  # For a million tokens.
_DATED: Final = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        if not all(0 <= one <= MOST_DOLLARS for one in (self.prompt, self.completion)):
            raise ValueError("no price")


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
    """Read the shipped table, then the user's over it."""
    with as_file(files("tinsmith.lab.judge").joinpath("prices.toml")) as shipped:
        prices = _read(shipped)
    return PriceTable(MappingProxyType(prices if override is None else prices | _read(override)))


def _read(file: Path) -> dict[str, Price]:
    document = read_toml(file, field="prices")
    unknown = [name for name in document if name != "models"]
    if unknown or not document:
        what = f"{file}: a price table holds tables [models.NAME] and nothing else"
        fix = '[models."gpt-5-mini"] with the lines `prompt = 0.25` and `completion = 2.0`'
        raise ConfigError(what, field=unknown[0] if unknown else "models", fix=fix)
    models = document["models"]
    found = models.items() if isinstance(models, dict) else [("models", models)]
    prices: dict[str, Price] = {}
    for model, entry in cast("Iterable[tuple[str, object]]", found):
        try:
            prices[model] = msgspec.convert(entry, Price)
        except msgspec.ValidationError:
            what = f"{file}: a price is two numbers, dollars for a million tokens"
            allowed = "prompt and completion, each from 0 to 1,000,000, and nothing else"
            fix = f'[models."{model}"] with the lines `prompt = 0.25` and `completion = 2.0`'
            raise ConfigError(what, field=model, value=entry, allowed=allowed, fix=fix) from None
    return prices


def estimate_spent(requests: Iterable[JudgeRequest], *, response_tokens: int) -> Spent:
    """Estimate what judging will take: one call each, nothing retried, nothing found in the cache.

    Give the requests with an empty response, as many times as each will be judged; every response
    is taken to have `response_tokens` tokens.
    """
    questions = [rating_question(request) for request in requests]
    return estimate_questions(questions) + Spent(prompt_tokens=response_tokens * len(questions))


def estimate_questions(questions: Iterable[Question[Any]]) -> Spent:
    """Estimate what questions will take as they stand: one call each, nothing retried, nothing in the cache."""
    total = Spent(estimated=True)
    for question in questions:
        total += Spent(calls=1, prompt_tokens=tokens_in(question.prompt.size), completion_tokens=question.form.tokens)
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
