"""GRPO and SFT on tasks that were written from calls made first, beside the same tasks with answers that were believed.

    tinsmith run backchain [size=smallest | at=small] [key=value ...]

The task is `backchained`: typed tools over a small world make a graph, in which the output of one feeds the next. A
piece of it is drawn and executed; what came out is the answer to the task, which is written last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Final, NewType

import tinsmith as ts
from tinsmith.lab.study.checks import higher, rises, within
from tinsmith.lab.user_task.task import Task
from tinsmith.lab.user_task.tools import Piece, executed, reached, tools_of
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

Person, City = NewType("Person", str), NewType("City", str)
_LETTERS: Final = "bdfgklmnprstvz"
PEOPLE, CITIES = (tuple(map("".join, product(_LETTERS, vowels, _LETTERS))) for vowels in ("ae", "o"))
OBSERVED, BELIEVED, SHUFFLED = LABELS = ("observed", "believed", "shuffled")
WRONG, EARLY = 0.2, 0.4
"""Shares of calls that are believed to bring something else, and of demonstrations that answer early."""
DEEPEST = MOST_CALLS = 3
ANSWER: Final = "answer"


def _fact(tool: str, known: tuple[str, ...], values: tuple[str, ...], *of: str) -> str:
    """Return what a tool knows: drawn by what it is asked of, and the same whenever it is asked."""
    if not set(of) <= set(known):
        raise LookupError("nothing is known of this")
    return Random(derive(0, "world", tool, *of)).choice(values)


def boss(person: Person) -> Person:
    """The one a person works for."""
    return Person(_fact("boss", PEOPLE, PEOPLE, person))


def home(person: Person) -> City:
    """The city that a person lives in."""
    return City(_fact("home", PEOPLE, CITIES, person))


def mayor(city: City) -> Person:
    """The mayor of a city."""
    return Person(_fact("mayor", CITIES, PEOPLE, city))


def middle(first: City, second: City) -> City:
    """The city in the middle between two others."""
    return City(_fact("middle", CITIES, CITIES, first, second))


TOOLS: Final = tools_of(boss, home, mayor, middle)
_HOW: Final = (
    f"There are these tools:\n{TOOLS.described()}\nReply with one call and nothing else, such as boss(kab); you are "
    f"told what it brings. '{ANSWER} WORD' ends with your answer. At most {MOST_CALLS} calls.\n\n"
)


@dataclass(frozen=True, slots=True)
class Chain:
    """One item: a piece of the graph that was executed, and the answer that is rewarded."""

    id: str
    piece: Piece
    label: str


@cache
def chains(count: int, side: str, labels: str = OBSERVED) -> tuple[Chain, ...]:
    """Return tasks, a third of each depth; no two sides begin with the same people.

    A piece is drawn again where it has more calls than a conversation has room for, or is solved by fewer rounds.
    """
    found: list[Chain] = []
    begins = {Person: PEOPLE[("train", "held_out", "base").index(side) :: 3]}
    for place in range(count):
        random, depth = Random(derive(0, "chain", side, place)), place % DEEPEST + 1
        piece = executed(TOOLS, begins, depth, random)
        while len(piece.calls) > MOST_CALLS or (side != "base" and is_solved_sooner(piece)):
            piece = executed(TOOLS, begins, depth, random)
        is_wrong = labels == BELIEVED and any(random.random() < WRONG for _ in piece.calls)
        label = random.choice(PEOPLE if piece.value in PEOPLE else CITIES) if is_wrong else piece.value
        found.append(Chain(f"{side}-{depth}-{place:03d}", piece, label))
    given = found[DEEPEST:] + found[:DEEPEST] if labels == SHUFFLED else found
    return tuple(Chain(one.id, one.piece, other.label) for one, other in zip(found, given, strict=True))


def sooner(piece: Piece) -> dict[str, str]:
    """Return every call, with what it brings, that can be made in fewer rounds than a piece is deep."""
    return reached(TOOLS, {Person: piece.begins}, piece.depth - 1)


def is_solved_sooner(piece: Piece) -> bool:
    """Return True if such calls bring a piece's answer, or it is known at first."""
    return piece.value in {*piece.begins, *sooner(piece).values()}


def asked(piece: Piece) -> str:
    """Return what a piece asks for, from its people outwards."""
    parts, tool = " and ".join(asked(one) for one in piece.parts), piece.call.partition("(")[0]
    return f"{f'({parts})' if len(piece.parts) > 1 else parts}'s {tool}" if tool else piece.value


def shown(chain: Chain, random: Random) -> list[str]:
    """Return a demonstration for the base: it calls as it should, and often answers too early."""
    said: list[str] = []
    for call in chain.piece.calls:
        said.append(call)
        if random.random() < EARLY:
            break
    return [*said, f"{ANSWER} {chain.piece.calls[said[-1]]}"]


def backchained(
    tasks: int = 240, held_out_tasks: int = 48, labels: str = OBSERVED, explain: bool = False, base_steps: int = 1_000
) -> Task:
    """Return tasks that take one call of a tool or several, each with what another one brought.

    tasks: Tasks to train on.
    held_out_tasks: Tasks never trained on, about other people; their answers were observed.
    labels: Answers that are rewarded: observed, believed (without a call), or shuffled (another task's: a control).
    explain: Describe the tools in the prompt.
    base_steps: Steps that the small base is trained.
    """
    if labels not in LABELS:
        raise ConfigError("there are no such labels", field="labels", value=labels, allowed=LABELS)
    return Task(
        name="backchained",
        question="Does the model learn to call one tool with what another one brought?",
        items=chains(tasks, "train", labels),
        held_out=chains(held_out_tasks, "held_out"),
        prompt=lambda item: f"{_HOW if explain else ''}Who or what is {asked(item.piece)}?",
        parse=str.strip,
        tools=TOOLS,
        max_turns=MOST_CALLS + 1,
        reward={"right": lambda item, reply: reply == f"{ANSWER} {item.label}"},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=chains(2_000, "base"),
        base_steps=base_steps,
        answer=lambda item: [*item.piece.calls, f"{ANSWER} {item.label}"],
        baselines={"one call": lambda item: [one := next(iter(item.piece.calls)), f"{ANSWER} {item.piece.calls[one]}"]},
        keys={"max_tokens": 12, "eval_items": held_out_tasks},
    )


RIGHT = ts.PerItem("right", "right answers")
DEEP = ts.PerItem("deep", "right, two rounds of calls or more", where=lambda item: item.split("-")[1] != "1")


def trained_on(arm: ts.ArmRuns) -> tuple[Chain, ...]:
    """Return the tasks that an arm is trained on."""
    return chains(arm.reads[0].run.config.data.train or 0, "train", str(arm.arm.keys["labels"]))


def wrong(arm: ts.ArmRuns) -> float:
    """Return the share of tasks whose answer is not what their last call brings."""
    tasks = trained_on(arm)
    return sum(one.label != TOOLS.answer([*one.piece.calls][-1]) for one in tasks) / len(tasks)


def only_believed_err(results: ts.Results) -> ts.Finding:
    """Expect no wrong answer to tasks that were written last, and some to those that were written first."""
    none, some = (wrong(results.arms[name]) for name in (OBSERVED, BELIEVED))
    return ts.Finding(none == 0.0 < some, f"{none:.1%} beside {some:.1%}")


def replay(results: ts.Results) -> ts.Finding:
    """Expect that calls made again bring the same for every task, and that none is solved by fewer rounds of them."""
    tasks = trained_on(results.arms[OBSERVED])
    same = sum(all(TOOLS.answer(call) == value for call, value in one.piece.calls.items()) for one in tasks)
    early = sum(is_solved_sooner(one.piece) for one in tasks)
    return ts.Finding(same == len(tasks) and not early, f"{same} of {len(tasks)} replay, {early} are solved sooner")


def cached(results: ts.Results) -> ts.Finding:
    """Expect of the cache what the tools bring on every recorded call, on the models' own too, and a flag on others."""
    arm = results.arms[OBSERVED]
    tasks = (*trained_on(arm), *chains(48, "held_out"))
    record = {call: value for one in tasks for call, value in (sooner(one.piece) | one.piece.calls).items()}
    offline = TOOLS.replayed(record)
    made = {call: value for one in arm.reads for call, value in TOOLS.recorded(one.run.folder).items()}
    same = sum(offline.answer(call) == TOOLS.answer(call) for call in record)
    hits = made.keys() & record.keys()
    met = same == len(record) and all(made[one] == record[one] for one in hits)
    words = f"of {len(made):,} calls of the models {len(hits):,} are recorded, the others flagged"
    met = met and len(hits) + len(offline.missed(made)) == len(made)
    return ts.Finding(met, f"{same:,} of {len(record):,} recorded are equal; {words}")


MEASURES: Final = (ts.Measure("wrong", "wrong", wrong, ".1%"), DEEP, RIGHT)
study = ts.Study(
    name="backchain",
    question="Do tasks written from observed results of tool calls teach more than tasks with assumed answers?",
    task=backchained,
    arms=(
        *(ts.Arm(one, one, labels=one) for one in LABELS),
        *(
            ts.Arm(f"sft-{one}", f"{one}, SFT", "kind=task_sft batch_size=16", labels=one)
            for one in (OBSERVED, BELIEVED)
        ),
    ),
    keys={"save_every": 0, "eval_every": 1_000, "eval_samples": 2, "group_size": 8, "watch_forgetting": False},
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.001 steps=4 groups_per_batch=2 held_out_tasks=6 base_steps=150", seeds=[1]
        ),
        "nano": ts.Size(learning_rate=1e-3, steps=32, groups_per_batch=5),
        "small": ts.Size("learning_rate=0.0003 steps=20 groups_per_batch=4 held_out_tasks=12 explain=true", seeds=[1]),
    },
    score=DEEP,
    control=SHUFFLED,
    claims=(ts.Beats(OBSERVED, BELIEVED), ts.Learned(OBSERVED, SHUFFLED)),
    source="arXiv:2605.17558 (of a model of 4 billion parameters)",
    expectations=(
        ts.Expectation("tasks that were written last have no wrong answers", only_believed_err),
        ts.Expectation("all their calls bring the same again, and none is solved by fewer rounds of them", replay),
        ts.Expectation("a cache brings what the tools bring, and flags what it has not", cached),
        ts.Expectation("observed answers teach", rises(OBSERVED)),
        ts.Expectation("observed answers teach more than believed ones", higher(OBSERVED, BELIEVED, DEEP)),
        ts.Expectation("by SFT too, 1.2 times as much", higher("sft-observed", "sft-believed", DEEP, times=1.2)),
        ts.Expectation("answers of other tasks change less than 0.1", within(SHUFFLED, 0.1)),
    ),
    tables=(
        ts.Table("Tasks", "Wrong: answers that are not what the last call brings. Right: on held-out tasks.", MEASURES),
    ),
    pictures=(ts.BeforeAfter((RIGHT, DEEP)),),
)
