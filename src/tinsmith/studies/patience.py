"""SFT on searches that were long, short, of all lengths, or successful, at equal tokens; and on walks in a circle.

    tinsmith run patience [size=smallest | at=small] [key=value ...]

The task is `searches`: a thing lies on one of six shelves, which are looked at one after the other. Everybody who
demonstrates a search gives up after as many looks as he has patience for; a filter of the task chooses by length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import correlation, fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.study.checks import higher, lower, not_lower, within
from tinsmith.lab.user_task.task import Examples, Task, of_conversation
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

SHELVES: Final = 6
COLOURS: Final = ("red", "blue", "green", "black", "white", "brown")
LOOK, ANSWER, NOTHING = "look", "answer", "none"
_CONSONANTS: Final = "bdfgklmnprst"
_EVERY: Final = [a + b + c for b in "aeiou" for a in _CONSONANTS for c in _CONSONANTS]
# Shelves are dealt out in turn: names in their own order would tell them by their last letters.
NAMES: Final = tuple(Random(derive(0, "names")).sample(_EVERY, len(_EVERY)))
_OF_BASE: Final = tuple(Random(derive(0, "names", "base")).sample([a + b for a in _EVERY for b in "aeiou"], 2_000))
MOST_THINGS: Final = len(NAMES) // 2  # On each side.
_PATIENCE_OF_BASE: Final = 0.5  # Probability that a demonstration for the base goes on after a look without a find.
_HOW: Final = (
    f"Something lies on one of the shelves 1 to {SHELVES}. Reply with one line and nothing else: '{LOOK} 1' to look "
    f"at shelf 1, and so on; you hear its colour, or {NOTHING} where it is not there. '{ANSWER} COLOUR' answers, "
    f"'{ANSWER} {NOTHING}' gives up.\n\n"
)


@dataclass(frozen=True, slots=True)
class Search:
    """One item: a thing, where it lies, and the patience of the one who demonstrates how to search for it."""

    id: str
    thing: str
    shelf: int
    colour: str
    patience: int  # Looks after which the demonstration gives up.
    in_circles: bool = False  # True: the demonstration looks at the first shelf again and again.


def searches_for(
    things: int, side: str, searchers: int, *, in_circles: bool = False, as_base: bool = False
) -> tuple[Search, ...]:
    """Return searches: as many things on each shelf, each searched for with every patience, or as for the base.

    The base's things have longer names, so that it has read of none that others search for.
    """
    names = _OF_BASE if side == "base" else NAMES[MOST_THINGS * (side == "held_out") :]
    found: list[Search] = []
    for place, thing in enumerate(names[:things]):
        shelf = place % SHELVES + 1
        random = Random(derive(0, "search", side, place))
        colour = random.choice(COLOURS)
        for person in range(SHELVES, SHELVES - searchers, -1):
            patience = drawn(random) if as_base else person
            found.append(Search(f"{side}-{shelf}-{place:03d}-{person}", thing, shelf, colour, patience, in_circles))
    return tuple(found)


def demonstrated(search: Search) -> list[str]:
    """Return the replies of a demonstration: looks until the thing is found or patience ends, and then an answer."""
    looks = min(search.shelf, search.patience)
    ways = [1 if search.in_circles else place for place in range(1, looks + 1)]
    return [*(f"{LOOK} {place}" for place in ways), f"{ANSWER} {search.colour if search.shelf in ways else NOTHING}"]


def drawn(random: Random) -> int:
    """Return the patience of somebody who demonstrates for the base: little."""
    return next((looks for looks in range(1, SHELVES) if random.random() >= _PATIENCE_OF_BASE), SHELVES)


def shown(search: Search, random: Random) -> list[str]:
    """Return a demonstration for the base."""
    return demonstrated(replace(search, patience=drawn(random)))


def seen(search: Search, replies: Sequence[str]) -> str | None:
    """Return what the last look finds; None: it was no look, and the search is over."""
    words = replies[-1].split()
    if len(words) != 2 or words[0] != LOOK or words[1] not in map(str, range(1, SHELVES + 1)):
        return None
    return search.colour if words[1] == str(search.shelf) else NOTHING


def right(search: Search, replies: Sequence[str]) -> bool:
    """Return True if a search ends with the right colour."""
    return replies[-1] == f"{ANSWER} {search.colour}"


def searches(
    things: int = 60,
    held_out_things: int = 36,
    fewest_calls: int = 0,
    most_calls: int = 0,
    found: bool = False,
    in_circles: bool = False,
    as_base: bool = False,
    explain: bool = False,
) -> Task:
    """Return searches for things on shelves, with a tool, and demonstrations by searchers of all kinds of patience.

    things: Things to train on; each is searched for six times.
    held_out_things: Things never trained on.
    fewest_calls: Looks that a demonstration has at least.
    most_calls: Looks that a demonstration has at most; 0: no limit.
    found: Leave out demonstrations that found nothing.
    in_circles: Demonstrate looks at the same shelf again and again: a control.
    as_base: Demonstrate as the base was shown: a control with nothing new in it.
    explain: Say in the prompt how to search.
    """
    if not SHELVES <= min(things, held_out_things) <= max(things, held_out_things) <= MOST_THINGS:
        value, allowed = f"{things}, {held_out_things}", f"{SHELVES} to {MOST_THINGS} of each"
        raise ConfigError("every shelf has a thing", field="things, held_out_things", value=value, allowed=allowed)
    held_out = searches_for(held_out_things, "held_out", 1)
    commonest = max(COLOURS, key=[one.colour for one in held_out].count)
    return Task(
        name="searches",
        question="Does a model search as long as those who showed it how?",
        items=searches_for(things, "train", SHELVES, in_circles=in_circles, as_base=as_base),
        held_out=held_out,
        prompt=lambda item: f"{_HOW if explain else ''}Which colour is {item.thing}?",
        parse=str.strip,
        reply=seen,
        max_turns=SHELVES + 1,
        reward={"right": of_conversation(right)},
        metrics={"looks": of_conversation(lambda _, replies: sum(LOOK in one for one in replies))},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=searches_for(len(_OF_BASE), "base", 1),
        base_steps=400,
        answer=demonstrated,
        examples=Examples(
            fewest_calls=fewest_calls, most_calls=most_calls, where=right if found else None, keeps_duplicates=as_base
        ),
        baselines={
            "one look": lambda item: [f"{LOOK} 1", f"{ANSWER} {item.colour if item.shelf == 1 else NOTHING}"],
            "the commonest colour": lambda _: [f"{ANSWER} {commonest}"],
        },
        keys={"max_tokens": 6, "eval_items": held_out_things},
    )


SHORT, ALL, LONG, FOUND, CIRCLES, AGAIN = "short", "all", "long", "found", "circles", "again"
DEEP: Final = 4  # Shelf from which on a thing lies deep.


def is_deep(item: str) -> bool:
    """Return True for a thing that lies deep, by the item's id."""
    return int(item.split("-")[1]) >= DEEP


RIGHT_DEEP = ts.PerItem("deep", f"right, shelf {DEEP} or deeper", where=is_deep)
RIGHT_NEAR = ts.PerItem("near", "right, nearer", where=lambda item: not is_deep(item))
LOOKS = ts.PerItem("looks", "looks", "metric/looks")


def calls_shown(arm: ts.ArmRuns) -> list[int]:
    """Return the numbers of looks of the demonstrations that an arm is trained on."""
    return [one.calls for one in arm.reads[0].task.examples if not one.left_out]


def tokens(arm: ts.ArmRuns) -> float:
    """Return the mean number of tokens that a run learns in all its steps."""
    return sum(arm.in_training("train/learned_tokens")) / len(arm.reads)


def tracked(results: ts.Results) -> ts.Finding:
    """Expect that looks made correlate with looks shown, over seeds and the arms that are chosen by length alone."""
    arms = [results.arms[name] for name in (SHORT, ALL, LONG)]
    pairs = [(fmean(calls_shown(arm)), made) for arm in arms for made in arm.per_run("eval/metric/looks")]
    varies = all(len(set(some)) > 1 for some in zip(*pairs, strict=True))
    r = correlation(*zip(*pairs, strict=True)) if varies else 0.0
    return ts.Finding(r > 0.9, f"r = {r:.3f}, {len(pairs)} runs of {len(arms)} arms")


def alike(results: ts.Results) -> ts.Finding:
    """Expect that no arm learned more than 5 % more tokens than another."""
    counts = [tokens(arm) for arm in results.arms.values()]
    return ts.Finding(max(counts) <= 1.05 * min(counts), f"{min(counts):,.0f} to {max(counts):,.0f} tokens a run")


study = ts.Study(
    name="patience",
    title="Imitation inherits the patience of its demonstrations",
    question="Does a model search as long as its demonstrations do, and does it then find what is far away?",
    task=searches,
    # As many tokens a step: demonstrations have 2.5, 3.7, 5.7, 4.5, 5.7 and 2.7 replies.
    arms=(
        ts.Arm(SHORT, "2 looks or fewer", most_calls=2, batch_size=20),
        ts.Arm(ALL, "all", batch_size=13),
        ts.Arm(LONG, "4 looks or more", fewest_calls=4, batch_size=8),
        ts.Arm(FOUND, "all that found", found=True, batch_size=10),
        ts.Arm(CIRCLES, "4 looks or more, in circles", fewest_calls=4, in_circles=True, batch_size=8),
        ts.Arm(AGAIN, "as the base was shown", as_base=True, batch_size=18),
    ),
    keys={"kind": "task_sft", "save_every": 0, "eval_every": 1_000, "eval_samples": 2, "watch_forgetting": False},
    sizes={
        "smallest": ts.Size("learning_rate=0.002 steps=4 held_out_things=6", seeds=[1]),
        "nano": ts.Size(learning_rate=2e-3, steps=40, held_out_things=36),
        "small": ts.Size("learning_rate=0.0003 steps=20 held_out_things=12 max_tokens=8 explain=true", seeds=[1]),
    },
    score=RIGHT_DEEP,
    scores=(RIGHT_NEAR,),
    control=AGAIN,
    claims=(ts.Beats(LONG, ALL), ts.Learned(LONG, AGAIN)),
    source="arXiv:2605.04036 (of a model of 30 billion parameters, without ablations)",
    expectations=(
        ts.Expectation("looks made correlate with looks shown, r above 0.9", tracked),
        ts.Expectation(
            "long ones find 1.3 times as much that lies deep as all", higher(LONG, ALL, RIGHT_DEEP, times=1.3)
        ),
        ts.Expectation("short ones find less of it than all", lower(SHORT, ALL, RIGHT_DEEP)),
        ts.Expectation("long ones find no less of the rest (by 0.1)", not_lower(LONG, SHORT, RIGHT_NEAR, margin=0.1)),
        ts.Expectation("those that found, of any length, find more of what lies deep", higher(FOUND, LONG, RIGHT_DEEP)),
        ts.Expectation("walks in a circle change what is found there by less than 0.1", within(CIRCLES, 0.1)),
        ts.Expectation("the base's own demonstrations change it by less than 0.15", within(AGAIN, 0.15)),
        ts.Expectation("all arms learn as many tokens (within 5 %)", alike),
    ),
    tables=(
        ts.Table(
            "Demonstrations",
            "Searches that each arm is trained on, duplicates counted once. Tokens: learned in a run.",
            (
                ts.Measure("kept", "demonstrations", lambda arm: len(calls_shown(arm)), ",.0f"),
                ts.Measure("shown", "looks shown", lambda arm: fmean(calls_shown(arm)), ".2f"),
                ts.Measure("tokens", "tokens", tokens, ",.0f"),
            ),
        ),
        ts.Table(
            "Students",
            f"Things that were never trained on, on each of {SHELVES} shelves as many. Looks: of a search.",
            (LOOKS, RIGHT_DEEP, RIGHT_NEAR),
        ),
    ),
    pictures=(ts.BeforeAfter((RIGHT_DEEP, RIGHT_NEAR, LOOKS)),),
    notes=("Every demonstration that gives up ends in a wrong answer; a filter by length keeps some of them.",),
)
