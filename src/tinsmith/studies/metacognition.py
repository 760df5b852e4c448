"""GRPO paid for stating what is needed, for following a plan, and for the answer; arms leave one of these out.

    tinsmith run metacognition [size=smallest | at=small] [key=value ...]
    tinsmith run sums pays=knowledge,right                                     # its task alone

Every word has a digit, which the base knows badly. An answer states units of knowledge (a word with its digit), plans
operations and carries them out, may look back for a unit that it left out, and ends in a number:

    know kettle 1 moon 2 plan add take do add 1 2 3 back stone 3 take 3 3 0 so 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from random import Random
from typing import Final

from tinsmith.lab.study.checks import allowed, higher, lower, within
from tinsmith.lab.study.study import Arm, Beats, Expectation, Learned, PerItem, Size, Study, Table
from tinsmith.lab.study.terms import term_table
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Item = Mapping[str, str]
Units = Sequence[tuple[str, str]]
WORDS: Final = ("kettle", "moon", "stone", "garden", "lamp", "river", "basket", "candle", "engine", "feather")
DIGITS: Final = ("1", "2", "3", "4")
OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": lambda total, digit: total + digit,
    "take": lambda total, digit: max(0, total - digit),
}
PENALTY: Final = 0.3  # Lambda: the part of the regulation term that a shortcut costs, as published.
ITEMS: Final = 320
HEDGES, SHORTCUTS, LEAVES_OUT, KNOWS = 0.15, 0.3, 0.25, 0.5
"""Shares of what the base was shown: every unit, an answer before the last step, a late unit, a right digit."""


def digit_of(word: str) -> str:
    """Return the digit of a word."""
    return DIGITS[WORDS.index(word) % len(DIGITS)]


def words_of(item: Item) -> list[str]:
    """Return the words that a question is about."""
    return [item[name] for name in "abc"]


def result(item: Item) -> str:
    """Return the right number."""
    a, b, c = (int(digit_of(word)) for word in words_of(item))
    return str(OPERATIONS[item["g"]](OPERATIONS[item["f"]](a, b), c))


def items() -> list[dict[str, str]]:
    """Return questions about three different words whose result is not 0, at which every difference ends."""
    every = product(permutations(WORDS, 3), product(OPERATIONS, repeat=2))
    asked = [{"id": f"{a}-{f}-{b}-{g}-{c}", "a": a, "f": f, "b": b, "g": g, "c": c} for (a, b, c), (f, g) in every]
    return Random(0).sample([one for one in asked if result(one) != "0"], ITEMS)


def _carried_out(step: Sequence[str]) -> bool:
    """Return True if a step's result is right for its numbers."""
    name, *numbers = step
    if len(numbers) != 3 or not all(one.isdecimal() and len(one) < 4 for one in numbers):
        return False
    return OPERATIONS[name](int(numbers[0]), int(numbers[1])) == int(numbers[2])


def marks(item: Item, text: str) -> dict[str, float]:
    """Grade an answer; words that stand in no section of it are passed over.

    `recall` is (k + r) / n of n needed units, k of them stated and r recovered by looking back; `knowledge` is its
    harmonic mean with precision. `fidelity` a is the share of the plan's steps, two at least, that are carried out in
    order; `shortcut` s is an answer before the last of them; `regulation` is a (1 - lambda s).
    """
    sections: list[list[str]] = []
    heads = {"know", "plan", "do", "back", "so"}
    for word in text.split():
        heads |= OPERATIONS.keys() if word == "do" else set[str]()
        if word in heads:
            sections.append([word])
        elif sections:
            sections[-1].append(word)
    stated = [one[1:] for one in sections if one[0] in ("know", "back")]
    units = {(one[at], one[at + 1]) for one in stated for at in range(0, len(one) - 1, 2)}
    hits = len(units & {(word, digit_of(word)) for word in words_of(item)})
    plan = next((one[1:] for one in sections if one[0] == "plan"), [])
    ends = next((place for place, one in enumerate(sections) if one[0] == "so"), len(sections))
    steps = [one for one in sections[:ends] if one[0] in OPERATIONS]
    done = 0
    for step in steps:
        done += done < len(plan) and step[0] == plan[done] and _carried_out(step)
    recall, precision = hits / 3, hits / max(1, len(units))
    fidelity, shortcut = done / max(2, len(plan)), len(steps) < max(2, len(plan))
    return {
        **{"recall": recall, "precision": precision, "units": len(units), "fidelity": fidelity},
        "knowledge": 2 * recall * precision / (recall + precision) if hits else 0.0,
        "regulation": fidelity * (1.0 - PENALTY * shortcut),
        "right": float(sections[ends:] == [["so", result(item)]]),
        "shortcut": float(shortcut),
    }


def mark(name: str) -> Callable[[Item, str], float]:
    """Return one of the marks as a reward or a metric."""
    return lambda item, text: marks(item, text)[name]


def written(item: Item, digits: Mapping[str, str], units: Units, late: str = "", most: int = 2, ends: str = "") -> str:
    """Write an answer by the digits that somebody believes: one unit may come late, steps may be missing."""
    total, said = int(digits[item["a"]]), ["do"]
    for name, word in ((item["f"], item["b"]), (item["g"], item["c"]))[:most]:
        said += ["back", word, digits[word]] if word == late else []
        before, total = total, OPERATIONS[name](total, int(digits[word]))
        said += [name, str(before), digits[word], str(total)]
    stated = [part for unit in units if unit[0] != late for part in unit]
    return " ".join(["know", *stated, "plan", item["f"], item["g"], *said, "so", ends or str(total)])


def every_unit(item: Item) -> Units:
    """Return all units that there are about a question's words: the right ones are among them."""
    return list(product(words_of(item), DIGITS))


def demonstrate(item: Item, random: Random) -> str:
    """Answer as the base was shown."""
    digits: dict[str, str] = {}
    for word in words_of(item):
        others = [one for one in DIGITS if one != digit_of(word)]
        digits[word] = digit_of(word) if random.random() < KNOWS else random.choice(others)
    draw, guess = random.random(), str(random.randint(1, 9))
    if draw < HEDGES:
        return written(item, digits, every_unit(item))
    if draw < HEDGES + SHORTCUTS:
        return written(item, digits, list(digits.items()), most=random.randrange(2), ends=guess)
    late = random.choice((item["b"], item["c"])) if random.random() < LEAVES_OUT else ""
    return written(item, digits, list(digits.items()), late)


def solution(item: Item) -> str:
    """Return a right answer."""
    digits = {word: digit_of(word) for word in words_of(item)}
    return written(item, digits, list(digits.items()))


TERMS: Final = ("knowledge", "regulation", "right")
ALL: Final = ",".join(TERMS)


def sums(pays: str = ALL, base_steps: int = 1000, as_base: bool = False) -> Task:
    """Return sums and differences of words' digits, which the model has to know.

    pays: Terms of the reward: knowledge, regulation, right; recall in place of knowledge pays lists of everything.
    base_steps: How long the base was trained.
    as_base: Teach with sft_steps what a base was shown, for a model that read no demonstrations; else what is right.
    """
    terms = pays.split(",")
    if not set(terms) <= {*TERMS, "recall"}:
        raise ConfigError("this cannot be paid", field="pays", value=pays, allowed=f"{', '.join(TERMS)}, recall")
    measured = ("right", "recall", "precision", "units", "fidelity", "shortcut")
    ones: Mapping[str, str] = dict.fromkeys(WORDS, DIGITS[0])
    return Task(
        items=items(),
        prompt="{a} {f} {b} {g} {c} ?",
        reward={name: mark(name) for name in terms},
        metrics={name: mark(name) for name in measured},
        demonstrate=demonstrate,
        base_steps=base_steps,
        answer=lambda item: demonstrate(item, Random(derive(0, "sum", item["id"]))) if as_base else solution(item),
        baselines={"every unit, digits of 1": lambda item: written(item, ones, every_unit(item))},
        held_out=0.25,
        keys={"max_tokens": 56},
        question="Does the model learn to state what it needs, and to follow its plan?",
    )


RIGHT = PerItem("right", "right answers", "metric/right")
PRECISION = PerItem("precision", "precision", "metric/precision")
UNITS = PerItem("units", "units", "metric/units")
study = Study(
    name="metacognition",
    title="Knowledge, regulation and the answer",
    question="Do rewards for stated knowledge and plans do more than the reward for the answer alone?",
    task=sums,
    arms=(
        Arm("all", "all three terms", pays=ALL),
        Arm("no_knowledge", "without knowledge", pays="regulation,right"),
        Arm("no_regulation", "without regulation", pays="knowledge,right"),
        Arm("no_right", "without the answer", pays="knowledge,regulation"),
        Arm("outcome", "the answer alone", pays="right"),
        Arm("recall", "without the answer, by recall", pays="recall,regulation"),
        Arm("shuffled", "the answer alone, shuffled labels", pays="right", shuffle_labels=True),
    ),
    keys={"split_seed": 0, "save_every": 0},
    sizes={
        "smallest": Size(
            "learning_rate=0.002 base_steps=120 groups_per_batch=2 steps=4 eval_every=4 eval_items=16 eval_samples=1",
            seeds=[1],
            without=("no_regulation", "no_right", "recall"),
        ),
        "nano": Size(learning_rate=1e-3, groups_per_batch=4, steps=40, eval_every=40, eval_items=64, eval_samples=2),
        # The first steps of a run teach what an answer looks like, as no base of its own did.
        "small": Size(
            "at=small learning_rate=0.0003 groups_per_batch=4 steps=64 eval_every=32 eval_items=32 eval_samples=1 "
            "watch_forgetting=false as_base=true sft_steps=32 sft_batch_size=16 sft_learning_rate=0.0003",
            seeds=[1],
            before=1,
        ),
    },
    score=RIGHT,
    control="shuffled",
    claims=(
        *(Beats("all", other) for other in ("outcome", "no_knowledge", "no_regulation", "no_right")),
        Beats("no_right", "outcome"),
        Learned("all", "shuffled"),
        Learned("outcome", "shuffled"),
    ),
    source="arXiv:2605.23384",
    expectations=(
        Expectation("all three terms end above the answer alone", allowed("all", over="outcome")),
        Expectation("leaving out knowledge costs more than the answer", higher("no_right", "no_knowledge", RIGHT)),
        Expectation("leaving out regulation costs more than the answer", higher("no_right", "no_regulation", RIGHT)),
        Expectation("recall makes it list 1.5 times the units", higher("recall", "no_right", UNITS, times=1.5)),
        Expectation("its precision is lower", lower("recall", "no_right", PRECISION)),
        Expectation("shuffled labels change it by less than 0.1", within("shuffled", 0.1)),
    ),
    tables=(
        term_table(),
        Table(
            "What answers say",
            "Held-out questions. Three units are needed; fidelity is the share of the plan that is carried out in "
            "order, and a shortcut an answer before its last step.",
            (
                PerItem("recall", "recall", "metric/recall"),
                PRECISION,
                UNITS,
                PerItem("fidelity", "fidelity", "metric/fidelity"),
                PerItem("shortcut", "shortcut", "metric/shortcut"),
            ),
        ),
    ),
)
