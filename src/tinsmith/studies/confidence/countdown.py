"""A task, `tinsmith run countdown`: signs between numbers that make a target, found by trying or claimed at once.

The numbers keep their order, so that three of them have four possible answers (easy) and four have eight (hard); one is
right. The base was shown two ways to answer: to claim signs first and then write down what they come to, whatever that
is; and, more rarely, to try signs until they come to the target. Only the last line, `so` and the signs, is rewarded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, Final

import tinsmith as ts
from tinsmith.lab.user_task.task import Probed, Task
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

EASY, HARD = "easy", "hard"
NUMBERS: Final = {EASY: 3, HARD: 4}
EACH: Final = 240  # Items of either split; every fourth one is held out.
LARGEST: Final = 5
TRIES: Final = 4  # Most in one answer.
SO: Final = " so "
_AT_SO: Final = re.compile(r"(?<!\S)so\s+")  # A small model writes it after a line break, or first.


def signs_of(count: int) -> list[str]:
    """Return every way to put signs between so many numbers.

    >>> signs_of(3)
    ['+ +', '+ -', '- +', '- -']
    """
    return [" ".join(one) for one in product("+-", repeat=count - 1)]


def totals(numbers: Sequence[int], signs: str) -> list[int]:
    """Return what one has after each number.

    >>> totals([3, 5, 2], "+ -")
    [3, 8, 6]
    """
    found = [numbers[0]]
    for sign, number in zip(signs.split(), numbers[1:], strict=True):
        found.append(found[-1] + (number if sign == "+" else -number))
    return found


def items() -> list[dict[str, Any]]:
    """Return the items of both splits, by turns; each has one right answer."""
    random, found = Random(0), dict[str, dict[str, Any]]()
    while len(found) < 2 * EACH:
        split = (EASY, HARD)[len(found) % 2]
        numbers = [random.randint(1, LARGEST) for _ in range(NUMBERS[split])]
        item = _item(split, numbers, random.choice(signs_of(len(numbers))))
        if len(_hits(item)) == 1:
            found[item["id"]] = {**item, "held": len(found) % 8}
    return list(found.values())


def _item(split: str, numbers: Sequence[int], signs: str) -> dict[str, Any]:
    target = totals(numbers, signs)[-1]
    name = f"{split}-{'-'.join(map(str, numbers))}-to-{target}"
    return {"id": name, "numbers": list(numbers), "target": target}


def _hits(item: Mapping[str, Any]) -> list[str]:
    return [one for one in options(item) if totals(item["numbers"], one)[-1] == item["target"]]


def split_of(name: str) -> str:
    """Return the split of an item, by its name.

    >>> split_of("hard-1-2-3-4-to-10")
    'hard'
    """
    return name.split("-")[0]


def is_held_out(item: Mapping[str, Any]) -> bool:
    """Return true if an item is never trained on: a quarter of either split."""
    return item["held"] < 2


def read_items() -> list[dict[str, Any]]:
    """Return what the base reads demonstrations of: every question of either split that is not held out."""
    held = {one["id"] for one in items() if is_held_out(one)}
    every = (
        _item(split, numbers, signs)
        for split, count in NUMBERS.items()
        for numbers in product(range(1, LARGEST + 1), repeat=count)
        for signs in signs_of(count)
    )
    return [one for one in every if one["id"] not in held and len(_hits(one)) == 1]


def prompt_of(item: Mapping[str, Any]) -> str:
    """Return what is asked."""
    numbers = " ".join(map(str, item["numbers"]))
    return f"Put + or - between {numbers} to make {item['target']} . End with so and the signs."


def options(item: Mapping[str, Any]) -> list[str]:
    """Return every answer that there is."""
    return signs_of(len(item["numbers"]))


def gold(item: Mapping[str, Any]) -> str:
    """Return the right signs."""
    return _hits(item)[0]


def right(item: Mapping[str, Any], text: str) -> float:
    """1 where the signs at the end make the target; the reasoning is not looked at."""
    *reasoning, signs = _AT_SO.split(text)
    return float(bool(reasoning) and "".join(signs.split()) == gold(item).replace(" ", ""))


def sound(item: Mapping[str, Any], text: str) -> float:
    """1 where the answer is right and the last line of reasoning shows it, without a mistake."""
    ends = (written(item["numbers"], gold(item)), _compared(item, gold(item)))
    return float(right(item, text) == 1.0 and _AT_SO.split(text)[-2].strip().endswith(ends))


def written(numbers: Sequence[int], signs: str) -> str:
    """Return signs worked out.

    >>> written([3, 5, 2], "+ -")
    '3 +5 8 -2 6'
    """
    words = [str(numbers[0])]
    for sign, number, total in zip(signs.split(), numbers[1:], totals(numbers, signs)[1:], strict=True):
        words += [f"{sign}{number}", str(total)]
    return " ".join(words)


def searched(item: Mapping[str, Any], random: Random) -> str:
    """Try signs in any order until they are right; after so many tries, guess among what is left."""
    order = random.sample(options(item), len(options(item)))
    tried = order[: min(TRIES, order.index(gold(item)) + 1)]
    end = f"{SO}{gold(item)}" if gold(item) in tried else f" no{SO}{order[TRIES]}"
    return " no ".join(_compared(item, one) for one in tried) + end


def _compared(item: Mapping[str, Any], signs: str) -> str:
    """Work signs out, with what is wanted beside what they come to: a small model compares only what is near."""
    return f"{written(item['numbers'], signs)} ? {item['target']}"


def claimed(item: Mapping[str, Any], random: Random) -> str:
    """Claim signs, and write down what they come to."""
    said = random.choice(options(item))
    return f"clearly {said} : {written(item['numbers'], said)}{SO}{said}"


def countdown(base_steps: int = 2000, searches: float = 0.4, as_base: bool = False) -> Task:
    """Return numbers between which signs are put to make a target.

    base_steps: How long the base was trained.
    searches: Share of the demonstrations that try signs until they are right; the others claim them first.
    as_base: Teach with sft_steps what a base was shown, for a model that read no demonstrations; else what is right.
    """
    if not 0.0 <= searches <= 1.0:
        raise ConfigError("this is a share", field="searches", value=searches, allowed="0 to 1")

    def demonstrate(item: Mapping[str, Any], random: Random) -> str:
        return searched(item, random) if random.random() < searches else claimed(item, random)

    def answer(item: Mapping[str, Any]) -> str:
        if as_base:
            return demonstrate(item, Random(derive(0, "answer", item["id"])))
        return f"{written(item['numbers'], gold(item))}{SO}{gold(item)}"

    return Task(
        items=items(),
        prompt=prompt_of,
        reward=right,
        metrics={"sound": sound},
        demonstrate=demonstrate,
        base_items=read_items(),
        base_steps=base_steps,
        answer=answer,
        probed=Probed(before_answer=SO, options=options, gold=gold),
        baselines={
            "only plus signs": lambda item: f"{SO}{options(item)[0]}",
            "only minus signs": lambda item: f"{SO}{options(item)[-1]}",
            "by the target's sign": lambda item: f"{SO}{options(item)[0 if item['target'] > 0 else -1]}",
        },
        held_out=is_held_out,
        keys={"max_tokens": 72},
        question="Which signs between the numbers make the target?",
    )


ON_HARD = ts.PerItem("hard", "right, hard split", where=lambda item: split_of(item) == HARD)
ON_EASY = ts.PerItem("easy", "right, easy split", where=lambda item: split_of(item) == EASY)


def flawed(at: int) -> Callable[[ts.ArmRuns], float | None]:
    """Return the share of right answers whose last line of reasoning does not show them."""

    def read(arm: ts.ArmRuns) -> float | None:
        right = math.fsum(arm.per_run("eval/reward/right", at))
        return 1.0 - math.fsum(arm.per_run("eval/metric/sound", at)) / right if right else None

    return read
