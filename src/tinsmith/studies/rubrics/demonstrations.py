"""Demonstrations for a model built from scratch: instructions like the built-in ones, often ill obeyed.

A model that never saw such an instruction does nothing of what is asked, and there is nothing to
reinforce. These show it how answers look; only some of them do what their prompt says, so that obeying
is what is left to learn. No prompt of the built-in tasks is among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.studies.rubrics.builtin import worked_tasks
from tinsmith.studies.rubrics.templates import FAMILIES, LEXICON, Words
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits

_RAMBLES: Final = (5, 6, 7)
"""Words of the lexicon in a ramble; with what joins them, 13 to 19 words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A prompt, and an answer to it; `obeys` where the answer does all that is asked."""

    prompt: str
    answer: str
    obeys: bool


def demonstrations(count: int, *, seed: int, obeying: float = 0.2) -> tuple[Demonstration, ...]:
    """Make `count` demonstrations; demonstration i is the same whatever the count.

    A share `obeying` does what is asked. Of the others, a half answers some instruction or other
    with other words, and a half rambles.

    Raises:
        ConfigError: `obeying` is no share, or `count` is below 0.
    """
    if count < 0:
        raise ConfigError("at least none", field="count", value=count)
    if not 0 <= obeying <= 1:
        raise ConfigError("a share", field="obeying", value=obeying, allowed="0 <= obeying <= 1")
    taken = frozenset(worked.task.prompt for worked in worked_tasks())
    return tuple(
        _demonstration(derive(seed, "demonstration", i), obeying, taken) for i in range(count)
    )


def _demonstration(seed: int, obeying: float, taken: frozenset[str]) -> Demonstration:
    attempt = 0
    while True:  # every family has far more prompts than the built-in tasks use
        bits = [int(word) for word in random_bits(derive(seed, attempt), 5)]
        _, template = FAMILIES[bits[0] % len(FAMILIES)]
        sheet = template(_three(bits[1]), bits[2] % len(LEXICON))
        if sheet.prompt not in taken:
            break
        attempt += 1
    unit = (bits[3] >> 11) * 2.0**-53
    if unit < obeying:
        return Demonstration(prompt=sheet.prompt, answer=sheet.answer, obeys=True)
    if bits[3] % 2:
        _, other = FAMILIES[bits[4] % len(FAMILIES)]
        answer = other(_three(bits[4] // len(FAMILIES)), 0).answer
    else:
        order = _shuffled(bits[4])
        answer = " and the ".join(order[: _RAMBLES[bits[2] % len(_RAMBLES)]])
    obeys = all(rule.holds(answer) for rule in sheet.rules)
    return Demonstration(prompt=sheet.prompt, answer=answer, obeys=obeys)


def _three(seed: int) -> Words:
    first, second, third, *_ = _shuffled(seed)
    return first, second, third


def _shuffled(seed: int) -> list[str]:
    keys = random_bits(seed, len(LEXICON))
    return [LEXICON[i] for i in sorted(range(len(LEXICON)), key=lambda i: int(keys[i]))]
