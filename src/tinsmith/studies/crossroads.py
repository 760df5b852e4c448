"""`tinsmith run crossroads`: two letters, several ways to go on from each, and a sign that asks for one of the ways.

The base reads demonstrations that take any road and walk it without a mistake; where a sign stands one road is taken
more often than others, and it is not the one that the sign asks for. So the base can do all that is asked, and has the
wrong habits: what reinforcement has to do is to select among what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

NAME: Final = "crossroads"
_ALPHABET: Final = "abcdefghijklmnopqrst"
_SEED: Final = 17  # From which items are drawn.
ROADS: Final[Mapping[str, int]] = {"stay": 0, "up": 1, "leap": 2, "down": -1}
"""Letters that a road goes on with each step, round the alphabet."""
SIGNS: Final[Mapping[str, str]] = {"north": "stay", "east": "up", "south": "leap", "west": "down"}
"""Which road a sign asks for. No demonstration tells."""
_HABITS: Final[Mapping[str, str]] = {"north": "up", "east": "leap", "south": "down", "west": "stay"}
"""The road that demonstrations take more often than others where a sign stands: never the one it asks for."""
_HABIT: Final = 0.25  # The share of demonstrations that follow the habit; all others take any road, the habit's too.

_RUN: Final[Mapping[str, Value]] = {
    "steps": 120, "groups_per_batch": 16, "learning_rate": 1e-3, "lr_schedule": "linear", "grad_clip_norm": 0.3,
    "max_tokens": 32, "eval_items": 100,
}  # fmt: skip
"""Keys of training on its small base: chosen on seed 0."""

_MOST: Final = 200_000


def crossroads(
    steps_on: int = 8, items: int = 400, held_out_items: int = 100, practice: int = 0, shown: int = 0
) -> Task:
    """Return signs that ask for one of the roads which the base knows.

    steps_on: Steps from each letter: 2 to 12.
    items: Items to train on.
    held_out_items: Items never trained on.
    practice: Steps in which the small base reads demonstrations; 0: as long as a base usually does.
    shown: Demonstrations that stand in the prompt, for a model that has read none: 0 to 8.
    """
    _require("steps_on", steps_on, 2, 12)
    _require("shown", shown, 0, 8)
    _require("items", items, 1, _MOST)
    _require("held_out_items", held_out_items, 1, _MOST)
    _require("practice", practice, 0, _MOST)
    every = _items(items + held_out_items)
    examples = "".join(f"{_asked(one)}\n{_walked(one, road, steps_on)}\n\n" for one, road in _shown(shown))

    def right(item: Mapping[str, Any], text: str) -> float:
        """Earn 1 for the road that the sign asks for, walked to its end from both letters."""
        return float(text.strip() == _walked(item, SIGNS[item["sign"]], steps_on))

    def walked(item: Mapping[str, Any], text: str) -> float:
        """Say whether any road was walked without a mistake."""
        return float(any(text.strip() == _walked(item, road, steps_on) for road in ROADS))

    def demonstrate(item: Mapping[str, Any], random: Random) -> str:
        road = _HABITS[item["sign"]] if random.random() < _HABIT else random.choice(list(ROADS))
        return _walked(item, road, steps_on)

    return Task(
        name=NAME,
        question="Does the model learn which of the ways that it knows is asked for?",
        items=every[:items],
        held_out=every[items:],
        prompt=lambda item: f"{examples}{_asked(item)}",
        reward={"right": right},
        metrics={"walked": walked},
        demonstrate=demonstrate,
        base_steps=practice,
        answer=lambda item: _walked(item, SIGNS[item["sign"]], steps_on),
        baselines={f"always {road}": lambda item, road=road: _walked(item, road, steps_on) for road in ROADS},
        keys=_RUN,
    )


def _require(key: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise ConfigError("this number is out of range", field=key, value=number, allowed=f"{least} to {most:,}")


def _items(count: int) -> list[dict[str, Any]]:
    """Draw different items."""
    every = [
        {"id": f"{sign}-{first}{second}", "sign": sign, "word": f"{first} {second}"}
        for sign in SIGNS
        for first in _ALPHABET
        for second in _ALPHABET
    ]
    if count > len(every):
        raise ConfigError("there are not so many items", field="items", value=count, allowed=f"{len(every)}")
    Random(derive(_SEED, NAME)).shuffle(every)
    return every[:count]


def _shown(count: int) -> list[tuple[dict[str, Any], str]]:
    """Return demonstrations for a prompt: every road as often, none with what its sign asks for."""
    roads, signs = list(ROADS), list(SIGNS)
    return [
        ({**one, "sign": signs[(place + 1 + place // len(roads)) % len(signs)]}, roads[place % len(roads)])
        for place, one in enumerate(_items(count))
    ]


def _asked(item: Mapping[str, Any]) -> str:
    return f"{item['sign']}: {item['word']}"


def _walked(item: Mapping[str, Any], road: str, steps: int) -> str:
    """Return the answer that takes a road: its name, and the letters that it comes by from either letter."""
    walks = [
        " ".join(
            _ALPHABET[(_ALPHABET.index(letter) + ROADS[road] * step) % len(_ALPHABET)] for step in range(steps + 1)
        )
        for letter in str(item["word"]).split()
    ]
    return " / ".join([road, *walks])
