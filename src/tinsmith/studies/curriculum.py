"""Order of supervised examples by the model's own perplexity; a coarse reward, then a fine one; and a loop at test.

    tinsmith run curriculum [size=smallest | at=small] [key=value ...]
    tinsmith run porter                                                 # its task alone

A prompt names guests; the answer names each with a door. The base knows seven guests' doors, and has mostly read a
wrong one of the other five. It has read second answers, and verdicts, which are right about every guest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from tinsmith.lab.sft import order_hashes
from tinsmith.lab.study.checks import equivalent, higher, lower, more, not_higher, not_lower, of_runs, runs_gap, within
from tinsmith.lab.study.study import Arm, Beats, Expectation, Learned, Measure, PerItem, Size, Study, Table
from tinsmith.lab.user_task.dialogue import revised, revising
from tinsmith.lab.user_task.items import named_item
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, task_conversations
from tinsmith.lab.user_task.step_reward import Conversation, Scored, StepReward
from tinsmith.lab.user_task.task import Base, Task
from tinsmith.types.seeds import derive

Item = Mapping[str, Any]
DOORS: Final = ("A", "B", "C", "D")
KNOWN: Final = ("ann", "ben", "cleo", "dan", "eve", "finn", "gus")
NEW: Final = ("hana", "ivo", "jane", "kurt", "lena")
GUESTS: Final = (*KNOWN, *NEW)
ITEMS, HELD, TESTED = 440, 80, 40  # All items, those that are held out, and those that may be tested.
RIGHT, RIGHT_NEW = 0.85, 0.3  # Shares of demonstrations that are right about a known guest, and about a new one.
ROUNDS: Final = 2
_HOW: Final = "Reply with each name and a door, A, B, C or D, behind it, and nothing else.\n\n"


def door_of(guest: str) -> str:
    """Return a guest's door: three guests have each."""
    return DOORS[GUESTS.index(guest) % len(DOORS)]


def items() -> list[dict[str, Any]]:
    """Return two or three guests each, all different."""
    random, found = Random(0), dict[str, dict[str, Any]]()
    while len(found) < ITEMS:
        guests = random.sample(GUESTS, random.choice((2, 3, 3)))
        found["-".join(guests)] = {"id": "-".join(guests), "guests": guests}
    return list(found.values())


def told(*columns: Sequence[str]) -> str:
    """Return guests, and what belongs to each behind it."""
    return " ".join(" ".join(row) for row in zip(*columns, strict=False))


def answer(item: Item) -> str:
    """Return the right answer."""
    return told(item["guests"], [door_of(guest) for guest in item["guests"]])


def sound(item: Item, text: str) -> float:
    """1 where every door is right: the fine reward."""
    return float(text.split() == answer(item).split())


def end(item: Item, text: str) -> float:
    """1 where the last door is right, after as many words as there should be: the coarse reward."""
    said, right = text.split(), answer(item).split()
    return float(len(said) == len(right) and said[-1] == right[-1])


def verdict(item: Item, text: str) -> str:
    """Return an answer with y or n after each door."""
    doors = text.split()[1::2]
    marks = ["y" if door == door_of(guest) else "n" for guest, door in zip(item["guests"], doors, strict=False)]
    return told(item["guests"], doors, marks)


def accepts(said: str) -> bool:
    """Return True for a verdict without n."""
    return "n" not in said.split()


def attempt(item: Item, random: Random, kept: Sequence[str] = ()) -> str:
    """Return an answer as the base knows it; doors that are kept begin it."""
    doors = list(kept)
    for guest in item["guests"][len(kept) :]:
        right, is_known = door_of(guest), guest in KNOWN
        wrong = random.choice(DOORS) if is_known else DOORS[(DOORS.index(right) + 1) % len(DOORS)]
        doors.append(right if random.random() < (RIGHT if is_known else RIGHT_NEW) else wrong)
    return told(item["guests"], doors)


def demonstrate(item: Item, random: Random) -> list[str]:
    """Return answers and verdicts in turn: what is right before the first n is kept."""
    replies = [attempt(item, random)]
    for _ in range(ROUNDS):
        replies.append(verdict(item, replies[-1]))
        if accepts(replies[-1]):
            break
        marks = replies[-1].split()[2::3]
        replies.append(attempt(item, random, replies[-2].split()[1::2][: marks.index("n")]))
    return replies


@dataclass
class Staged(StepReward):
    """Pays the end in the first steps of training, and then every door."""

    terms: ClassVar[tuple[str, ...]] = ("earned",)
    coarse_steps: int
    seen: int = 0

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored]:
        """Return each answer's reward."""
        pays = end if self.seen < self.coarse_steps else sound
        self.seen += 1
        return [Scored(terms={"earned": pays(one.item, one.text)}) for one in answers]

    def state(self) -> int:
        """Return the number of steps so far."""
        return self.seen

    def restore(self, state: object) -> None:
        """Go on from that number."""
        self.seen = int(str(state))


def porter(
    coarse_steps: int = 0,
    tested_items: int = TESTED,
    explain: bool = False,
    redrawn: bool = False,
    as_base: bool = False,
    base_steps: int = 400,
) -> Task:
    """Return guests whose doors are asked for, tested once as they are and twice in a loop.

    coarse_steps: Steps of training in which the last door is paid for; after them all doors are.
    tested_items: Items of the test, at most 40.
    explain: Say in the prompt how to answer.
    redrawn: Examples are listed the other way round, so that an order which is drawn is another one: a control.
    as_base: Examples are answers such as the base was shown: a control with nothing new in it.
    base_steps: Steps that the small base is trained.
    """
    every, recipe = items(), TaskBaseRecipe(steps=base_steps)
    plain = Task(
        items=every,
        prompt=lambda item: f"{_HOW if explain else ''}Guests: {' '.join(item['guests'])}.",
        reward={"earned": sound},
        metrics={"sound": sound, "end": end},
        demonstrate=demonstrate,
    )
    loop = revised(plain, revising("Check it.", "Answer again.", accepts, ROUNDS))
    blind = revised(plain, revising("Check it.", "Answer again.", lambda _: False, ROUNDS))
    held_out, tested, trained = every[:HELD], every[HELD : HELD + TESTED][:tested_items], every[HELD + TESTED :]
    return Task(
        name="porter",
        question="Does the order of examples matter, and does the model mend its answers where it is asked to?",
        items=trained[::-1] if redrawn else trained,
        held_out=held_out,
        tested=tested,
        controls={"test_revised": loop, "test_blind": blind},
        prompt=plain.prompt,
        reward=Staged(coarse_steps) if coarse_steps else plain.reward,
        metrics=plain.metrics,
        answer=(lambda item: attempt(item, Random(derive(0, "as base", item["id"])))) if as_base else answer,
        base=Base(recipe, lambda: task_conversations(loop, [named_item(loop, one) for one in trained], recipe)),
        keys={"max_tokens": 16, "eval_items": HELD},
    )


SOUND: Final = PerItem("sound", "every door right", "metric/sound")
SPLITS: Final = {"test": "one answer", "test_revised": "revised", "test_blind": "revised blindly"}
FIRST, REVISED, BLIND = (of_runs("random", f"{split}/metric/sound") for split in SPLITS)
SFT: Final = {"kind": "task_sft", "batch_size": 16, "learning_rate": {"smallest": 1e-3, "nano": 5e-4, "small": 3e-4}}
CONSTANT, FALLING = ("descending-constant", "random-constant"), ("random", "ascending", "descending", "recomputed")
study = Study(
    name="curriculum",
    question="Does the order of examples matter apart from the learning-rate schedule, and do stages and loops help?",
    task=porter,
    arms=(
        *(Arm(one, f"{one}, falling rate", SFT, lr_schedule="linear", order=one) for one in FALLING),
        *(Arm(one, one.replace("-", ", ") + " rate", SFT, order=one.partition("-")[0]) for one in CONSTANT),
        Arm("shuffled", "descending, shuffled labels", SFT, order="descending", shuffle_labels=True),
        Arm("redrawn", "random, drawn anew, falling rate", SFT, lr_schedule="linear", redrawn=True),
        Arm("again", "as the base was shown, falling rate", SFT, lr_schedule="linear", as_base=True),
        Arm("fine", "RL, fine reward", coarse_steps=0),
        Arm("staged", "RL, coarse then fine", coarse_steps={"smallest": 1, "nano": 20, "small": 20}),
    ),
    keys={"split_seed": 0, "save_every": 0, "learning_rate": 1e-3, "steps": 40, "eval_every": 40},
    sizes={
        "smallest": Size("base_steps=60 steps=2 eval_every=2 eval_items=8 eval_samples=1 tested_items=2", seeds=[1]),
        "nano": Size(eval_samples=2),
        "small": Size("at=small learning_rate=3e-4 eval_samples=1 eval_items=40 explain=true", seeds=[1]),
    },
    score=SOUND,
    control="again",
    claims=(
        *(Beats(name, "random") for name in FALLING[1:]),
        Beats(*CONSTANT),
        Beats("staged", "fine"),
        Learned("random", "again"),
    ),
    source="arXiv:2605.13301",
    expectations=(
        Expectation("descending ends above random with a falling rate", higher("descending", "random", SOUND)),
        Expectation("ascending ends below it", lower("ascending", "random", SOUND)),
        Expectation("at a constant rate it does not", not_higher(*CONSTANT, SOUND)),
        Expectation(
            "descending gains more over random where the rate falls",
            more(runs_gap("descending", "random", SOUND), runs_gap(*CONSTANT, SOUND)),
        ),
        Expectation(
            "recomputed each epoch it ends no lower", not_lower("recomputed", "descending", SOUND, margin=0.05)
        ),
        Expectation("coarse then fine ends above fine alone", higher("staged", "fine", SOUND)),
        Expectation("verified and revised answers are right more often (random)", more(REVISED, FIRST)),
        Expectation("more often than blindly revised ones", more(REVISED, BLIND)),
        Expectation("shuffled labels change it by less than 0.1", within("shuffled", 0.1)),
        # Such an order holds nothing, such answers nothing new: a leak, an unlike test, or more updates would show.
        Expectation("another drawn order changes less than 0.1", equivalent("redrawn", "random", SOUND, margin=0.1)),
        Expectation("the base's own answers change it by less than 0.1", within("again", 0.1)),
    ),
    tables=(
        Table(
            "Order",
            "Hash of the first epoch's order; nats a token of the answers that come first and last in an order.",
            (
                Measure("order", "SHA-256", lambda arm: order_hashes(arm.in_training("order/sha256")), missing="drawn"),
                Measure("first", "nats|first", lambda arm: arm.in_training("order/first_nats") or None, ".2f"),
                Measure("last", "nats|last", lambda arm: arm.in_training("order/last_nats") or None, ".2f"),
            ),
        ),
        Table(
            "Loop at test",
            "Items of the test, asked once; answered, verified by the model itself and revised, at most "
            f"{ROUNDS} times; and revised whatever the verdict. Tokens: sampled for one item, verdicts included.",
            tuple(
                Measure(f"{split}/{name}", f"{label}|{what}", lambda arm, of=f"{split}/{name}": arm.per_run(of), form)
                for split, label in SPLITS.items()
                for name, what, form in (("metric/sound", "right", ".3f"), ("tokens/answer", "tokens", ".1f"))
            ),
        ),
    ),
    notes=("All arms by example see as many items, and all by reward; examples and rewards are not compared.",),
)
