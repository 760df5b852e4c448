"""Files of tasks for tests, and small keys."""

import json
from pathlib import Path
from typing import Any

from command_line import keys_in

TASK = '''\
from pathlib import Path

from tinsmith import Task, of_group

HERE = Path(__file__).parent


def letters(item, text):
    if (HERE / "broken").exists():
        raise OSError("the checker is not there")
    if (HERE / "brittle").exists() and len(text) % 3 == 0:
        raise ValueError("a text of threes")
    return sum(letter.isalpha() for letter in text) / 10


def rare(item, texts):
    return [1 / texts.count(text) for text in texts]


def task(start: int = 0):
    """Make it.

    start: the first of the numbers
    """
    return Task(
        question="Does it write letters?",
        items=[{"id": f"item-{n}", "n": n} for n in range(start, start + 12)],
        prompt="Item {n}:",
        held_out=0.5,
        reward={"letters": letters, "rare": of_group(rare)},
        metrics={"length": lambda item, text: len(text)},
        baselines={"a word": lambda item: "letters", "none": lambda item: 1 / 0},
        sections={
            "Lengths": lambda answers: [{"item": a.item["n"], "length": len(a.replies[0])} for a in answers],
            "Words": lambda answers: f"{len(answers)} answers",
            "Broken": lambda answers: answers["none"],
        },
        keys={"max_tokens": 5},
    )
'''

NANO = "tinsmith/nano"
KEYS = keys_in(
    "steps=3 group_size=4 groups_per_batch=2 lora_rank=4 learning_rate=2e-3 eval_items=2 eval_samples=2 eval_every=2 "
    "save_every=1 quiet=true"
)


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def whole(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name).read_text())
