"""Built-in corpus: generated English about papers, citations, arithmetic and JSON.

The presets' tokenizers are trained on it. It is generated locally, the same everywhere, without a download.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tinsmith.renderers.grammar import RULES
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits

NUM_SENTENCES = 12000
"""Sentences of the corpus that the presets' tokenizers are trained on."""

_MAX_DRAWS = 96
_SYMBOL = re.compile(r"\{(\w+)\}")
_A_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")

Draws = Iterator[int]
"""Random words of one sentence, taken in order."""

Choice = TypeVar("Choice")


def builtin_corpus(*, num_sentences: int = NUM_SENTENCES, seed: int = 0) -> tuple[str, ...]:
    """Return `num_sentences` sentences; sentence i depends on (seed, i) only.

    About one in six states a correct sum, difference or product; one in six is a JSON object.

    >>> builtin_corpus(num_sentences=2) == builtin_corpus(num_sentences=5)[:2]
    True

    Raises:
        ConfigError: if `num_sentences` is not positive.
    """
    if num_sentences < 1:
        raise ConfigError("a corpus needs sentences", field="num_sentences", value=num_sentences, allowed=">= 1")
    seeds = (derive(seed, "builtin_corpus", i) for i in range(num_sentences))
    return tuple(_sentence(iter(random_bits(child, _MAX_DRAWS).tolist())) for child in seeds)


def _sentence(draws: Draws) -> str:
    kinds: tuple[Callable[[Draws], str], ...] = (_prose,) * 4 + (_arithmetic, _json)
    return _pick(kinds, draws)(draws)


def _pick(choices: Sequence[Choice], draws: Draws) -> Choice:
    return choices[next(draws) % len(choices)]


def _prose(draws: Draws) -> str:
    text = _A_BEFORE_VOWEL.sub(r"\1n ", _expand("sentence", draws))
    return text[0].upper() + text[1:]


def _expand(symbol: str, draws: Draws) -> str:
    def expand(match: re.Match[str]) -> str:
        return _expand(match[1], draws)

    return _SYMBOL.sub(expand, _pick(RULES[symbol], draws))


def _arithmetic(draws: Draws) -> str:
    a, b = next(draws) % 100, next(draws) % 100
    word, sign, result = _pick((("plus", "+", a + b), ("minus", "-", a - b), ("times", "*", a * b)), draws)
    forms = (
        f"{a} {sign} {b} = {result}",
        f"{a} {word} {b} is {result}.",
        f"What is {a} {word} {b}? It is {result}.",
        f"If a paper has {a + b} citations and {a} of them are old, {b} of them are new.",
        f"The larger of {a} and {b} is {max(a, b)}, the smaller is {min(a, b)}.",
    )
    return _pick(forms, draws)


def _json(draws: Draws) -> str:
    label = _expand("label", draws)
    forms: tuple[dict[str, object], ...] = (
        {"label": label},
        {"label": label, "confidence": next(draws) % 101 / 100},
        {"label": label, "reason": _expand("because", draws)},
        {"title": _expand("topic", draws), "year": int(_expand("year", draws)), "label": label},
        {"authors": [_expand("name", draws), _expand("name", draws)], "field": _expand("field", draws)},
        {"citations": int(_expand("count", draws)), "open": next(draws) % 2 == 0, "label": None},
        {"answer": next(draws) % 1000, "ok": True},
    )
    return json.dumps(_pick(forms, draws))
