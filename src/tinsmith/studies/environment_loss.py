"""GRPO in a small shell with a loss on what it answers, at four weights, and a control whose answers tell nothing.

    tinsmith run environment_loss [size=smallest | at=small] [key=value ...]
    tinsmith run shell                                                     # its task alone

The task is `shell`: files in places, and four commands, of which one answers alike every time.

    ls PLACE        the two files that are there
    history         a command that found some file before, as it was typed: `get FILE PLACE`
    pwd             always the same
    get FILE PLACE  the end where the file is there, else no

Where files are is the same in every conversation of a world: what the shell answers can be learned, and what is learned
from it finds files that nobody was paid for yet. The loss is on what it answers and not on the template around it,
weighed as the mean of its tokens against the mean of the model's own, in one forward pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random
from statistics import fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.study.checks import difference, higher
from tinsmith.lab.user_task.task import Task, of_conversation
from tinsmith.pages.measures import over_seeds
from tinsmith.stats.diversity import WINDOW, Boredom, Heard, boredom
from tinsmith.stats.significance import sign_flip_p
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

PLACES: Final = (
    *("attic", "barn", "cellar", "den", "field", "garage"),
    *("hall", "kitchen", "loft", "office", "porch", "shed"),
)
FILES: Final = (
    *("anchor", "basket", "candle", "drum", "engine", "feather"),
    *("glove", "hammer", "ink", "jacket", "kettle", "lamp"),
    *("mirror", "needle", "orange", "pencil", "quilt", "rope"),
    *("saddle", "ticket", "umbrella", "violin", "whistle", "yarn"),
)
USERS: Final = ("ann", "ben", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "jane")
LS: Final = "ls"
HISTORY: Final = "history"
PWD: Final = "pwd"
GET: Final = "get"
HOME: Final = "home"
NO: Final = "no"
MOST_REPLIES: Final = 4


class Facts(StrEnum):
    """Facts that `history` and `ls` show."""

    TRUE = "true"
    SCRAMBLED = "scrambled"  # Another world's at every look: a control, from which nothing can be learned.


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One item: a file that somebody wants."""

    id: str
    file: str
    user: str
    world: int
    facts: Facts

    @property
    def place(self) -> str:
        """Place of the file."""
        return places_of(self.world)[self.file]


@cache
def places_of(world: int) -> dict[str, str]:
    """Return where every file of a world is; two are in each place."""
    files = list(FILES)
    Random(derive(0, "shell", world)).shuffle(files)
    return {name: PLACES[place // 2] for place, name in enumerate(files)}


def answer(errand: Errand, said: Sequence[str]) -> str | None:
    """Return what the shell answers to the last command; None: the conversation is over."""
    words = said[-1].split()
    seed = derive(0, "answer", errand.id, len(said))
    true = errand.facts is Facts.TRUE
    where = places_of(errand.world if true else -1 - seed % 2**31)
    match words:
        case ["ls", place] if place in PLACES:
            return " ".join(sorted(name for name in FILES if where[name] == place))
        case ["history"]:
            name = Random(seed).choice(FILES)
            return f"{GET} {name} {where[name]}"
        case ["pwd"]:
            return HOME
        case ["get", name, _] if not found(errand, said) and name in FILES:
            return NO
        case _:
            return None


def found(errand: Errand, said: Sequence[str]) -> bool:
    """Return true if the last command gets the file that is wanted."""
    return said[-1] == f"{GET} {errand.file} {errand.place}"


def errands(world: int, facts: Facts, *, held_out: bool) -> tuple[Errand, ...]:
    """Return who wants what: every file is wanted by eight users in training, and by the other two beside it."""
    return tuple(
        Errand(id=f"{name}-{user}", file=name, user=user, world=world, facts=facts)
        for at, name in enumerate(FILES)
        for place, user in enumerate(USERS)
        if ((place + at) % 5 == 0) is held_out
    )


def other_worlds(count: int) -> tuple[Errand, ...]:
    """Return errands of which each is in a world of its own: what a small base reads, so that it knows no place."""
    drawn = Random(derive(0, "other worlds"))
    return tuple(
        Errand(
            id=f"other-{number}",
            file=drawn.choice(FILES),
            user=drawn.choice(USERS),
            world=1_000 + number,
            facts=Facts.TRUE,
        )
        for number in range(count)
    )


def shown(errand: Errand, random: Random) -> list[str]:
    """Return the commands of one demonstration: at random, but what was told of the file is used every other time."""
    said, known = list[str](), ""
    for _ in range(MOST_REPLIES):
        if known and random.random() < 0.5:
            said.append(f"{GET} {errand.file} {known}")
        else:
            command = random.choices((LS, HISTORY, PWD, GET), (0.35, 0.25, 0.15, 0.25))[0]
            place = random.choice(PLACES)
            said.append({LS: f"{LS} {place}", GET: f"{GET} {errand.file} {place}"}.get(command, command))
        heard = answer(errand, said)
        if heard is None:
            break
        told = heard.split()
        if said[-1].startswith(LS) and errand.file in told:
            known = said[-1].split()[1]
        elif said[-1] == HISTORY and told[1] == errand.file:
            known = told[2]
    return said


_READ_BY_BASE: Final = 4_000
_HOW: Final = (
    f"You are in a shell. Reply with one command and nothing else: 'ls PLACE', 'history', 'pwd' or '{GET} FILE PLACE'. "
    f"Places: {' '.join(PLACES)}. You have {MOST_REPLIES} commands.\n\n"
)


def shell(world: int = 0, facts: str = "true", explain: bool = False, base_steps: int = 600) -> Task:
    """Return files that somebody wants, in a small shell.

    world: Draws which files are where.
    facts: What the shell tells: true, or scrambled (a control: another world's at every look).
    explain: Put the commands into the prompt.
    base_steps: Steps that the small base is trained.
    """
    if facts not in list(Facts):
        raise ConfigError("a shell cannot tell this", field="facts", value=facts, allowed=", ".join(Facts))
    if not 0 <= world < 1_000:
        raise ConfigError("there is no such world", field="world", value=world, allowed="0 to 999")
    return Task(
        name="shell",
        question="Does the model learn where files are, from what a shell answers?",
        items=errands(world, Facts(facts), held_out=False),
        held_out=errands(world, Facts(facts), held_out=True),
        prompt=lambda item: f"{_HOW if explain else ''}{item.user} wants the {item.file}.",
        parse=str.strip,
        reply=answer,
        max_turns=MOST_REPLIES,
        reward={"found": of_conversation(found)},
        metrics={"right": of_conversation(found), "commands": of_conversation(lambda _, said: len(said))},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=other_worlds(_READ_BY_BASE),
        base_steps=base_steps,
        baselines={"always the first place": lambda item: f"{GET} {item.file} {PLACES[0]}"},
        keys={"max_tokens": 8, "eval_items": 48},
    )


NONE, ADVISED, HIGH, CONTROL = "lambda-0", "lambda-0.05", "lambda-0.2", "scrambled"
WEIGHTS: Final = (0.0, 0.02, 0.05, 0.2)
HALF: Final = 0.5
FASTER: Final = 1.5  # How many times fewer steps to one half the published weight is to need.
_NLL: Final = "watch/env_nll"
RIGHT = ts.PerItem("success", "success", "metric/right")


def heard(run: tuple[TaskRollout, ...]) -> list[Heard]:
    """Return what was said and answered in each step of a run's training."""
    steps: defaultdict[int, list[TaskRollout]] = defaultdict(list)
    for one in run:
        steps[one.step].append(one)
    return [
        Heard(
            commands=tuple(turn.text for line in lines for turn in line.turns if turn.role == "assistant"),
            answers=tuple(turn.text for line in lines for turn in line.turns if turn.role == "user"),
            solved=sum(line.metrics["right"] for line in lines) / len(lines),
        )
        for _, lines in sorted(steps.items())
    ]


def to_half(success: list[float]) -> int | None:
    """Return the step after which half of the conversations of the last steps succeeded; None: never."""
    ends = range(WINDOW, len(success) + 1)
    return next((end for end in ends if sum(success[end - WINDOW : end]) / WINDOW >= HALF), None)


def steps_to_half(arm: ts.ArmRuns) -> list[int | None]:
    """Return the steps to one half, one a run."""
    return [to_half([step.solved for step in heard(run)]) for run in arm.trained_on()]


def success(arm: ts.ArmRuns) -> dict[int, float]:
    """Return the share of conversations that succeed in training, by step: a mean over the runs."""
    runs = [[step.solved for step in heard(run)] for run in arm.trained_on()]
    return {at: sum(run[at] for run in runs) / len(runs) for at in range(min(map(len, runs)))}


def bored(arm: ts.ArmRuns) -> list[Boredom]:
    """Return what the first and last steps of the runs were like; a run of too few steps is left out."""
    return [found for run in arm.trained_on() if (found := boredom(heard(run))) is not None]


def of_boredom(read: Callable[[Boredom], float]) -> Callable[[ts.ArmRuns], float | None]:
    """Return a figure of the first or last steps: a mean over the runs."""

    def mean(arm: ts.ArmRuns) -> float | None:
        found = [read(one) for one in bored(arm)]
        return fmean(found) if found else None

    return mean


def fell(arm: ts.ArmRuns) -> list[float]:
    """Return how many nats a token fewer there are at the end, one a run."""
    return [first - last for first, last in zip(arm.per_run(_NLL, ts.BEFORE), arm.per_run(_NLL), strict=True)]


def mean_nll(at: int) -> Callable[[ts.ArmRuns], float]:
    """Return the nats a token of what the shell answers: a mean over the runs."""
    return lambda arm: fmean(arm.per_run(_NLL, at))


def each(values: list[int | None]) -> str:
    """Return a value for every run, in words."""
    return ", ".join("never" if one is None else str(one) for one in values)


def speed(slow: list[int | None], fast: list[int | None], steps: int) -> tuple[float, float]:
    """Return how many times fewer steps the second needs, of the sums over seeds, and p of flips over the seeds."""
    pairs = [(steps if a is None else a, steps if b is None else b) for a, b in zip(slow, fast, strict=True)]
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs), sign_flip_p([a - b for a, b in pairs])


def faster(arm: str) -> Callable[[ts.Results], ts.Finding]:
    """Expect that an arm comes to one half in so many times fewer steps than without the loss."""

    def check(results: ts.Results) -> ts.Finding:
        none, other = (steps_to_half(results.arms[name]) for name in (NONE, arm))
        ratio, p_value = speed(none, other, results.arms[NONE].setting("steps"))
        reached = [sum(one is not None for one in some) for some in (none, other)]
        shown = f"{ratio:.2f} times, p = {p_value:.2g}; {reached[0]} and {reached[1]} of {len(none)} came to it"
        return ts.Finding(ratio >= FASTER and reached[1] > 0, shown)

    return check


def foresees(results: ts.Results) -> ts.Finding:
    """Expect that the published weight foresees more at its end, and more so than without the loss, by intervals."""
    advised, none = fell(results.arms[ADVISED]), fell(results.arms[NONE])
    gap = over_seeds([a - b for a, b in zip(advised, none, strict=True)])
    own = results.figure(ADVISED, "fell")
    return ts.Finding(
        gap.above(0.0) and own.above(0.0), f"{own.value:+.2f} nats a token less; beside lambda = 0 {difference(gap)}"
    )


def bores(results: ts.Results) -> ts.Finding:
    """Expect the alarm in at least half of the runs more than without the loss."""
    raised, beside = (sum(one.alarm is not None for one in bored(results.arms[name])) for name in (HIGH, NONE))
    runs = len(results.arms[HIGH].reads)
    return ts.Finding(2 * (raised - beside) >= runs, f"alarms in {raised} of {runs} runs, in {beside} at 0")


def control_is_flat(results: ts.Results) -> ts.Finding:
    """Expect that the control is not shown to foresee more at its end, nor to be faster."""
    one = results.figure(CONTROL, "fell")
    none, other = (steps_to_half(results.arms[name]) for name in (NONE, CONTROL))
    ratio, p_value = speed(none, other, results.arms[NONE].setting("steps"))
    flat = not one.above(0.0) and not (ratio > 1.0 and p_value < 0.05)
    return ts.Finding(flat, f"{difference(one)} nats a token less, {ratio:.2f} times fewer steps")


study = ts.Study(
    name="environment_loss",
    title="A loss on what the environment answers",
    question="Does a loss on the environment's replies make RL faster, and at which weight does exploration stop?",
    task=shell,
    arms=(
        *(ts.Arm(f"lambda-{weight:g}", f"lambda = {weight:g}", env_loss_coef=weight) for weight in WEIGHTS),
        ts.Arm(CONTROL, "0.05, scrambled", env_loss_coef=0.05, facts=Facts.SCRAMBLED.value),
    ),
    keys={"save_every": 0, "watch": "environment", "group_size": 8},
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.0006 steps=10 groups_per_batch=4 eval_every=10 eval_items=24 eval_samples=2 "
            "base_steps=300",
            seeds=[1],
        ),
        "nano": ts.Size(learning_rate=6e-4, steps=50, groups_per_batch=8, eval_every=50, eval_items=48, eval_samples=4),
        "small": ts.Size(
            "learning_rate=0.0003 steps=20 groups_per_batch=4 eval_every=20 eval_items=24 eval_samples=2 "
            "max_tokens=12 explain=true watch_forgetting=false",
            seeds=[1],
        ),
    },
    score=RIGHT,
    control=CONTROL,
    control_label="the same method in a shell whose answers are scrambled",
    claims=(*(ts.Beats(f"lambda-{weight:g}", NONE) for weight in WEIGHTS[1:]), ts.Learned(ADVISED, CONTROL)),
    source="arXiv:2605.24517 (of models of 8 and 14 billion parameters)",
    expectations=(
        ts.Expectation(f"lambda = 0.05 comes to one half in {FASTER} times fewer steps than 0", faster(ADVISED)),
        ts.Expectation("lambda = 0.05 ends with more success than 0", higher(ADVISED, NONE, RIGHT)),
        ts.Expectation(
            "lambda = 0.05 foresees what the environment answers better at its end, and 0 less so", foresees
        ),
        ts.Expectation("lambda = 0.2 bores: the alarm is raised in half of the runs more than at 0", bores),
        ts.Expectation("nothing is learned of a shell that answers with another world's facts", control_is_flat),
    ),
    tables=(
        ts.Table(
            "Speed",
            f"After which step half of the conversations of the last {WINDOW} steps succeeded, one a seed.",
            (ts.Measure("to_half", "Steps to one half", lambda arm: each(steps_to_half(arm))),),
        ),
        ts.Table(
            "Foresight",
            "Nats a token of what the shell answers in the model's own evaluated conversations. The conversations "
            "differ, as the policy does.",
            (
                ts.Measure("nll_before", "before", mean_nll(ts.BEFORE)),
                ts.Measure("nll_after", "after", mean_nll(-1)),
                ts.Measure("fell", "less by", fell),
            ),
        ),
        ts.Table(
            "Boredom",
            f"First and last {WINDOW} steps of training, means over seeds. Alarm: the entropy of answers is below half "
            "of the first steps' while fewer than half of the conversations succeed; its step, one a seed.",
            (
                ts.Measure("entropy_first", "entropy of answers|first", of_boredom(lambda one: one.entropy_first)),
                ts.Measure("entropy_last", "entropy of answers|last", of_boredom(lambda one: one.entropy_last)),
                ts.Measure("different_first", "different commands|first", of_boredom(lambda one: one.different_first)),
                ts.Measure("different_last", "different commands|last", of_boredom(lambda one: one.different_last)),
                ts.Measure("alarm", "Alarm", lambda arm: each([one.alarm for one in bored(arm)])),
            ),
        ),
    ),
    pictures=(
        ts.BeforeAfter(),
        ts.Curve(name="success", label="success in training", read=success, shares=True, is_listed=False),
    ),
    notes=("The loss is also on conversations that teach nothing else.",),
)
