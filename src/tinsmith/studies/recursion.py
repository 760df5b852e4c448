"""RL of a model that may ask itself about parts of an item that does not fit into its context.

    tinsmith run recursion [size=smallest] [key=value ...]
    tinsmith run relay bonus=sum                              # its task alone

A prompt shows the first two words of a list and says how many more there are; wanted are the first word and the last.
`split` asks the same model about both halves, `double` about each half twice; the ends of what the first ones answer
come back as a list that fits. Whoever sees two words of more is right one time in sixteen: they are drawn alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final

from tinsmith.lab.study.checks import higher, not_higher, within
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.study import Arm, Beats, BeforeAfter, Expectation, Finding, Learned, PerItem, Size, Study, Table
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.run_data import recipe_of, task_conversations
from tinsmith.lab.user_task.task import Base, Child, Spawn, Task, Turns, of_conversation, of_tree
from tinsmith.pages.measures import listed
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Item = Mapping[str, str]
WORDS: Final = (
    *("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer"),
    *("island", "jacket", "kettle", "ladder", "mirror", "needle", "orchard", "pillow"),
)
CONTEXT: Final = 2  # Words that a prompt has room for.
TIMES: Final = {"split": 1, "double": 2}  # Replies that ask for rollouts below, and their number for each half.
TRAINED, DEEPEST = (4, 8), 3
DEEPER: Final = 16  # Words of held-out items that are longer than any that is trained on.
BONUSES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "none": lambda _: 0.0,
    "average": lambda earned: fmean(earned) if earned else 0.0,
    "sum": lambda earned: float(sum(earned)),
}
WEIGHT: Final = 0.5  # Of what children earned, beside 1 for a right answer.
SIDES, PAYS = ("train", "held out", "base"), ("answer", "coin")
_HABITS: Final = (0.15, 0.05)  # Shares of demonstrations that split, and that double, what does not fit.


def item(words: Sequence[str]) -> Item:
    """Return the item of some words."""
    return {"id": f"n{len(words)}-{'-'.join(words)}", "words": " ".join(words)}


def items(counts: Mapping[int, int], side: str) -> list[Item]:
    """Return so many different items of each number of words; none that does not fit is on two sides."""
    random, found = Random(derive(0, "words", side)), dict[str, Item]()
    for size, count in counts.items():
        end = len(found) + count
        while len(found) < end:
            one = item(random.choices(WORDS, k=size))
            if size <= CONTEXT or SIDES[derive(0, "side", one["id"]) % len(SIDES)] == side:
                found.setdefault(one["id"], one)
    return list(found.values())


def prompt_of(one: Item) -> str:
    """Return what a model sees: the first words, and how many more there are.

    >>> prompt_of(item(["anchor", "basket", "candle", "dragon"]))
    'ends of anchor basket and 2 more'
    """
    words = one["words"].split()
    more = len(words) - CONTEXT
    return " ".join(["ends of", *words[:CONTEXT], *([f"and {more} more"] if more > 0 else [])])


def ends(one: Item) -> str:
    """Return the first word and the last."""
    words = one["words"].split()
    return f"{words[0]} {words[-1]}"


def reply(one: Item, said: Sequence[str], seed: int, *, is_lost: bool = False) -> Spawn | None:
    """Ask about the halves of what does not fit, else end; the last word that comes back is drawn if it is lost."""
    words, times = one["words"].split(), TIMES.get(said[-1], 0)
    half = len(words) // 2
    if not times or len(words) <= CONTEXT:
        return None

    def then(answers: Sequence[str | None]) -> str:
        read = [(each or "").split() for each in answers[::times]]
        first, last = (each if len(each) == CONTEXT else ["none"] for each in read)
        return prompt_of(item([first[0], Random(seed).choice(WORDS) if is_lost else last[-1]]))

    return Spawn([item(part) for part in (words[:half], words[half:]) for _ in range(times)], then)


def right(one: Item, said: Sequence[str]) -> bool:
    """True where the last reply is the first word and the last."""
    return said[-1] == ends(one)


def coin(one: Item, said: Sequence[str]) -> bool:
    """Half of all conversations, chosen by their hash."""
    return sha256("\n".join([one["id"], *said]).encode()).digest()[0] % 2 == 0


def shown(one: Item, random: Random) -> list[str]:
    """Return one demonstration: right where everything fits, else seldom a way to get there and mostly a guess."""
    words = one["words"].split()
    if len(words) <= CONTEXT:
        return [ends(one)]
    guess = f"{words[0]} {random.choice(WORDS)}"
    way = random.choices((*TIMES, guess), (*_HABITS, 1 - sum(_HABITS)))[0]
    return [guess] if way == guess else [way, ends(one)]


def relay(
    bonus: str = "average",
    delegates: bool = True,
    pays: str = "answer",
    lost: bool = False,
    items_each: int = 150,
    base_steps: int = 1000,
) -> Task:
    """Return lists of more words than a prompt shows, which parts of may be asked about.

    bonus: What a rollout earns for those that it spawned: none, the average of their own rewards, or their sum.
    delegates: False: whatever asks for rollouts is a wrong answer.
    pays: What is rewarded: answer (the right words), or coin (chance, fixed by what was said).
    lost: A drawn word comes back in place of the last one that was answered: a control, where delegation says nothing.
    items_each: Items to train on, of each length.
    base_steps: Steps that the small base is trained.
    """
    for key, value, allowed in (("bonus", bonus, tuple(BONUSES)), ("pays", pays, PAYS)):
        if value not in allowed:
            raise ConfigError("this cannot be rewarded", field=key, value=value, allowed=allowed)

    def children(_: Item, __: Sequence[str], spawned: Sequence[Child]) -> float:
        return WEIGHT * BONUSES[bonus]([one.earned for one in spawned])

    task = Task(
        name="relay",
        question="Does the model learn to ask itself about the parts of what does not fit?",
        items=items(dict.fromkeys(TRAINED, items_each), "train"),
        held_out=items({**dict.fromkeys(TRAINED, 24), DEEPER: 12}, "held out"),
        prompt=prompt_of,
        parse=lambda text: text.strip(),
        turns=Turns(reply=reply, most=2, deepest=DEEPEST) if delegates else None,
        reward={"right": of_conversation(right if pays == "answer" else coin), "children": of_tree(children)},
        metrics={
            "right": of_conversation(right),
            "rollouts": of_tree(lambda _, __, spawned: 1 + sum(1 + one.below() for one in spawned)),
            "delegated": of_conversation(lambda _, said: len(said) > 1),
        },
        demonstrate=shown,
        answer=lambda one: ends(one) if len(one["words"].split()) <= CONTEXT else ["split", ends(one)],
        base_items=items({CONTEXT: len(WORDS) ** 2, **dict.fromkeys((*TRAINED, DEEPER), 80)}, "base"),
        base_steps=base_steps,
        baselines={"what is shown": lambda one: " ".join(one["words"].split()[:CONTEXT])},
        keys={"max_tokens": 6, "eval_items": 60},
    )
    if not lost:
        return task
    recipe, losing = recipe_of(task), Turns(reply=partial(reply, is_lost=True), most=2, deepest=DEEPEST)
    read = partial(task_conversations, task, items_of_base(task, Path()) or (), recipe)  # So that the base is the same.
    return replace(task, turns=losing, base=Base(recipe, read))


def of_size(*sizes: int) -> Callable[[str], bool]:
    """Return the test of whether an item, by its id, has so many words."""
    return lambda one: int(one.partition("-")[0][1:]) in sizes


FLAT, AVERAGE, SUM, COIN, LOST = "flat", "average", "sum", "coin", "lost"
RIGHT = PerItem("right", "right", "metric/right", where=of_size(*TRAINED))
LONGER = PerItem("longer", f"right, {DEEPER} words", "metric/right", where=of_size(DEEPER))
ROLLOUTS = PerItem("rollouts", "rollouts", "metric/rollouts", where=of_size(*TRAINED))
NEEDED: Final = fmean(size // CONTEXT * 2 - 1 for size in TRAINED)  # Rollouts of a tree that splits what does not fit.


def ends_right(arm: str, least: float, most: float) -> Callable[[Results], Finding]:
    """Return the check of an arm's share of right answers after training."""
    return lambda results: Finding(least <= (found := results.after(arm, RIGHT)).value <= most, f"{found}")


study = Study(
    name="recursion",
    title="Delegation inside the loop",
    question="Does RL teach a model to split what does not fit its context, and ask itself about the parts?",
    task=relay,
    arms=(
        Arm(FLAT, "no delegation", delegates=False),
        Arm(AVERAGE, "children's average", bonus="average"),
        Arm(SUM, "children's sum", bonus="sum"),
        Arm(COIN, "average, paid by chance", bonus="average", pays="coin"),
        Arm(LOST, "average, answers lost", bonus="average", lost=True, eval_samples=8),
    ),
    keys={"save_every": 0, "advantage": "rloo"},
    sizes={
        "smallest": Size(
            "learning_rate=0.002 steps=4 group_size=4 groups_per_batch=2 eval_every=4 eval_samples=1 base_steps=100 "
            "eval_items=9",
            seeds=[1],
        ),
        "nano": Size(learning_rate=2e-3, steps=24, group_size=8, groups_per_batch=4, eval_every=12, eval_samples=1),
    },
    score=RIGHT,
    against=FLAT,
    control=LOST,
    claims=(Beats(AVERAGE, FLAT), Beats(SUM, FLAT), *(Learned(name, LOST) for name in (FLAT, AVERAGE, SUM))),
    source="arXiv:2605.06639",
    expectations=(
        Expectation("without delegation at most 10% are right, but for 5 points", ends_right(FLAT, 0.0, 0.15)),
        Expectation("with the children's average 70% or more are right", ends_right(AVERAGE, 0.7, 1.0)),
        Expectation(
            f"at {DEEPER} words, which are not trained on, it ends above no delegation", higher(AVERAGE, FLAT, LONGER)
        ),
        Expectation(
            "the children's sum asks for 1.2 times as many rollouts", higher(SUM, AVERAGE, ROLLOUTS, times=1.2)
        ),
        Expectation("the sum is not shown to be more often right than the average", not_higher(SUM, AVERAGE, RIGHT)),
        Expectation("pay by chance changes it by less than 0.1", within(COIN, 0.1)),
        # Whoever delegates or guesses is right one time in 16 then, before training and after it; pay, bonus, rollouts
        # and updates are those of the average, so that a leak of the last word, or an unlike evaluation, would show.
        Expectation("delegation whose answers are lost changes it by less than 0.1", within(LOST, 0.1)),
    ),
    tables=(
        Table(
            "By length",
            f"Held-out items with {listed([str(size) for size in TRAINED])} words, as those of training, and with "
            f"{DEEPER}. Rollouts: those of a tree, which compute costs; {NEEDED:.0f} are enough.",
            (LONGER, ROLLOUTS),
        ),
    ),
    pictures=(BeforeAfter((RIGHT, LONGER, ROLLOUTS)),),
    notes=(
        f"The context is the task's: a prompt shows {CONTEXT} words of an item, whatever the model itself could read.",
        "Every rollout of a tree is trained on, with the mean reward of all others of its depth in its group as "
        "baseline; depths are not weighted, so that the deeper, of which there are more, weigh more.",
        "Where answers are lost eight answers an item are evaluated, else one: with one the interval of its gain was "
        "0.19 wide, too wide to lie within 0.1 of zero unless by luck. Training and margin are as before.",
    ),
)
