"""`tinsmith run reasons`: an answer names two of the prompt's words as its reasons, then the letter that is rewarded.

Nothing is earned by reasons. The base that read the demonstrations names words of the prompt; a bonus for entropy pays
for other words too, and once the letters are right nothing else acts on the policy: templates, by design.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from tinsmith.lab.user_task.named import NamedTask, require_only
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value
from tinsmith.types.fingerprints import file_sha256

NAME: Final = "reasons"
QUESTION: Final = "Do the reasons of an answer go on depending on what was asked?"
LETTERS: Final = ("A", "B", "C", "D")
WORDS: Final = (
    *("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer"),
    *("island", "jacket", "kettle", "ladder", "mirror", "needle", "orchard", "pillow"),
)
ITEMS: Final = 480
BASE_STEPS: Final = 1_000
_SO: Final = " so "

_KEYS: Final = (OwnKey(name="base_steps", kind=int, default=BASE_STEPS, words="How long the base was trained."),)


def letter_of(word: str) -> str:
    """Return the letter of a word: four words have each."""
    return LETTERS[WORDS.index(word) % len(LETTERS)]


def items() -> list[dict[str, str]]:
    """Return triples of words, all different; the first one decides the letter."""
    random, found = Random(0), dict[str, dict[str, str]]()
    while len(found) < ITEMS:
        a, b, c = random.sample(WORDS, 3)
        found[f"{a}-{b}-{c}"] = {"id": f"{a}-{b}-{c}", "a": a, "b": b, "c": c}
    return list(found.values())


def prompt_of(item: Mapping[str, str]) -> str:
    """Return what is asked."""
    return f"Words: {item['a']}, {item['b']}, {item['c']}. Name two of them, then A, B, C or D."


def right(item: Mapping[str, str], text: str) -> float:
    """1 where the letter is that of the first word; the reasons are not looked at."""
    return float(text.strip().rpartition(_SO)[2] == letter_of(item["a"]) and _SO in text)


def grounded(item: Mapping[str, str], text: str) -> float:
    """Return which share of the words before the letter stand in the prompt."""
    named = text.strip().rpartition(_SO)[0].split()
    said = [word in (item["a"], item["b"], item["c"]) for word in named]
    return sum(said) / len(said) if said else 0.0


def demonstrate(item: Mapping[str, str], random: Random) -> str:
    """Name two of the words, and the right letter half of the time."""
    first, second = random.sample((item["a"], item["b"], item["c"]), 2)
    letter = letter_of(item["a"]) if random.randrange(2) else random.choice(LETTERS)
    return f"{first} {second}{_SO}{letter}"


def answer(item: Mapping[str, str]) -> str:
    """Return a right answer: the first two words."""
    return f"{item['a']} {item['b']}{_SO}{letter_of(item['a'])}"


def template(item: Mapping[str, str]) -> str:
    """Return one answer whatever is asked."""
    del item
    return f"{WORDS[0]} {WORDS[1]}{_SO}{LETTERS[0]}"


def reasons(values: Mapping[str, Value]) -> Task:
    """Return the task."""
    return Task(
        items=items(),
        prompt=prompt_of,
        reward=right,
        metrics={"grounded": grounded},
        demonstrate=demonstrate,
        base_steps=int(values["base_steps"]),
        answer=answer,
        baselines={"one template": template},
        held_out=0.25,
        keys={"max_tokens": 16},
        question=QUESTION,
    )


def reasons_source(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task as it is opened by its name.

    Raises:
        ConfigError: something stands after the name.
    """
    del given
    require_only(NAME, rest)
    return NamedTask(found_at=NAME, keys=_KEYS, sha256={"task.py": file_sha256(Path(__file__))}, entry=reasons)
