"""GRPO on Countdown, with and without a penalty on being sure of an answer before it was reasoned out.

    tinsmith run confidence [size=smallest | at=small] [key=value ...]
    tinsmith run countdown                                                 # its task alone

The task is `countdown`: signs between numbers that make a target, found by trying or claimed at once. The numbers keep
their order, so that three of them have four possible answers (easy) and four have eight (hard); one is right. The base
was shown two ways to answer: to claim signs first and then write down what they come to, whatever that is; and, more
rarely, to try signs until they come to the target. Only the last line, `so` and the signs, is rewarded. The penalty
reads six prefixes of every reasoning and all answers after each; nothing is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from random import Random
from statistics import fmean
from typing import Any, Final

import tinsmith as ts
from tinsmith.lab.study.checks import Check, allowed, more, near_zero, no_gain, of_runs
from tinsmith.lab.study.record import Shown
from tinsmith.lab.user_task.task import Probed, Task
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.intervals import mean_over_seeds
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

EASY, HARD = "easy", "hard"
NUMBERS: Final = {EASY: 3, HARD: 4}
EACH: Final = 240  # Items of either split; every fourth one is held out.
LARGEST: Final = 5
TRIES: Final = 4  # Most in one answer.
SO: Final = " so "


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
    return float(SO in text and text.rpartition(SO)[2].strip() == gold(item))


def sound(item: Mapping[str, Any], text: str) -> float:
    """1 where the answer is right and the last line of reasoning shows it, without a mistake."""
    reasoning, _, _ = text.rpartition(SO)
    ends = (written(item["numbers"], gold(item)), _compared(item, gold(item)))
    return float(right(item, text) == 1.0 and reasoning.strip().endswith(ends))


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
    said = tried[-1] if gold(item) in tried else order[TRIES]
    return " no ".join(_compared(item, one) for one in tried) + (
        f"{SO}{said}" if said == tried[-1] else f" no{SO}{said}"
    )


def _compared(item: Mapping[str, Any], signs: str) -> str:
    """Work signs out, with what is wanted beside what they come to: a small model compares only what is near."""
    return f"{written(item['numbers'], signs)} ? {item['target']}"


def claimed(item: Mapping[str, Any], random: Random) -> str:
    """Claim signs, and write down what they come to."""
    said = random.choice(options(item))
    return f"clearly {said} : {written(item['numbers'], said)}{SO}{said}"


def first_signs(item: Mapping[str, Any]) -> str:
    """Return plus signs whatever is asked."""
    return f"{SO}{options(item)[0]}"


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
        baselines={"only plus signs": first_signs},
        held_out=is_held_out,
        keys={"max_tokens": 72},
        question="Which signs between the numbers make the target?",
    )


TIMES: Final = 1.3  # Of plain GRPO's right answers on the hard split: what is asked of the penalty at equal steps.
_WATCH: Final = "watch/confidence"
ON_HARD = ts.PerItem("hard", "right, hard split", where=lambda item: split_of(item) == HARD)
ON_EASY = ts.PerItem("easy", "right, easy split", where=lambda item: split_of(item) == EASY)


def watched(name: str, at: int = -1) -> Callable[[ts.ArmRuns], tuple[float, ...]]:
    """Return a figure of confidence at an evaluation, one a run."""
    return lambda arm: arm.per_run(f"{_WATCH}/{name}", at)


def flawed(at: int) -> Callable[[ts.ArmRuns], float | None]:
    """Return the share of right answers whose last line of reasoning does not show them."""

    def read(arm: ts.ArmRuns) -> float | None:
        right = math.fsum(arm.per_run("eval/reward/right", at))
        return 1.0 - math.fsum(arm.per_run("eval/metric/sound", at)) / right if right else None

    return read


def tokens(name: str) -> Callable[[ts.ArmRuns], float]:
    """Return the tokens of training that a run took: a mean over the runs."""
    return lambda arm: math.fsum(arm.in_training(name)) / len(arm.reads)


def sampled(arm: ts.ArmRuns) -> float:
    """Return the tokens of training's rollouts."""
    rollouts = arm.setting("group_size", 8) * arm.setting("groups_per_batch", 8)
    return rollouts * math.fsum(arm.in_training("train/tokens/answer")) / len(arm.reads)


def along(results: ts.Results) -> list[list[Shown]]:
    """Return the last evaluation along the reasoning: means over the runs, a row for each arm and fraction."""
    rows: list[list[Shown]] = []
    for arm in results.arms.values():
        said = all(f"{_WATCH}/rho_said" in one.run.metrics.get(arm.step(-1), {}) for one in arm.reads)
        for fraction in FRACTIONS:
            gold, own, certainty = (f"{name}_{fraction:.1f}" for name in ("gold", "said", "certainty"))
            figures = [Figure(fmean(watched(gold)(arm))), None, Figure(fmean(watched(certainty)(arm)))]
            figures[1] = Figure(fmean(watched(own)(arm))) if said else None
            rows.append([arm.arm.label, f"{fraction:.1f}", *figures])
    return rows


def many_times(results: ts.Results) -> ts.Finding:
    """Expect so many times plain GRPO's right answers on the hard split, over the seeds' ratios."""
    shaped, plain = (results.arms[name].per_item(ON_HARD).means() for name in ("shaped", "plain"))
    if 0.0 in plain:
        return ts.Finding(False, "plain GRPO had no answer right under some seed")
    value, interval = mean_over_seeds([a / b for a, b in zip(shaped, plain, strict=True)])
    ends = "" if interval is None else f", {interval.low:.2f} to {interval.high:.2f}"
    return ts.Finding(value >= TIMES, f"{value:.2f}{ends} times")


def premature(arm: str, below: float = 0.4) -> Check:
    """Expect a rho below what is called premature, as published."""

    def check(results: ts.Results) -> ts.Finding:
        one = results.figure(arm, "rho")
        return ts.Finding(one.below(below), str(one))

    return check


RHO: Final = {name: of_runs(name, f"{_WATCH}/rho") for name in ("shaped", "plain")}
PENALTY: Final[Mapping[str, float | bool]] = {"confidence_penalty": 1.0, "zero_variance_filter": False}
study = ts.Study(
    name="confidence",
    title="Progressive confidence",
    question="Is a model sure of its answer before it has reasoned, and does a reward for rising confidence help?",
    task=countdown,
    arms=(
        ts.Arm("plain", "GRPO"),
        ts.Arm("shaped", "GRPO, shaped", PENALTY),
        ts.Arm("mixed", "prefixes shuffled", {**PENALTY, "confidence_prefixes": "shuffled"}),
        ts.Arm("noise", "shuffled labels", {**PENALTY, "shuffle_labels": True}),
    ),
    keys={"watch": "confidence", "save_every": 0},
    # Nano: on seed 0, which is not reported, every answer tries after 24 steps. At `at=small` the first steps of a run
    # teach both ways to answer by example, as no base of its own did.
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.001 base_steps=60 groups_per_batch=2 steps=2 eval_every=2 eval_items=16 eval_samples=1",
            seeds=[1],
        ),
        "nano": ts.Size(learning_rate=1e-3, groups_per_batch=8, steps=24, eval_every=12, eval_items=64, eval_samples=2),
        "small": ts.Size(
            "at=small learning_rate=0.0003 steps=48 eval_every=24 eval_items=32 eval_samples=2 "
            "watch_forgetting=false as_base=true sft_steps=24 sft_learning_rate=0.0003",
            seeds=[1],
            before=1,
        ),
    },
    score=ON_HARD,
    scores=(ON_EASY,),
    control="noise",
    claims=(
        ts.Beats("shaped", "plain"),
        ts.Beats("shaped", "mixed"),
        ts.Learned("plain", "noise"),
        ts.Learned("shaped", "noise"),
    ),
    expectations=(
        ts.Expectation("the penalty ends above plain GRPO", allowed("shaped", over="plain")),
        ts.Expectation(f"it reaches {TIMES} times plain GRPO's right answers on the hard split", many_times),
        ts.Expectation("the penalty ends above the same penalty of shuffled prefixes", allowed("shaped", over="mixed")),
        ts.Expectation("plain GRPO is sure too early", premature("plain")),
        ts.Expectation("rho is higher with the penalty", more(RHO["shaped"], RHO["plain"])),
        ts.Expectation("rho is 0 with shuffled prefixes", near_zero("shaped", "shuffled")),
        ts.Expectation("nothing is learned from shuffled labels", no_gain("noise")),
    ),
    tables=(
        ts.Table(
            "Along the reasoning",
            "Spearman's rho(f, c) of the fraction of the reasoning and the exact probability of the right answer: mean "
            "over replies, Student's 95 % intervals over seeds. Shuffled and foreign are controls, after training.",
            (
                ts.Measure("rho_before", "rho|before", watched("rho", ts.BEFORE)),
                ts.Measure("rho", "rho|after", watched("rho")),
                ts.Measure("shuffled", "rho|shuffled", watched("rho_shuffled")),
                ts.Measure("foreign", "rho|foreign", watched("rho_foreign")),
                ts.Measure("flawed_before", "flawed|before", flawed(ts.BEFORE), missing="none right"),
                ts.Measure("flawed", "flawed|after", flawed(-1), missing="none right"),
            ),
            note="Flawed: the share of right answers whose last line of reasoning does not work them out. A model that "
            "claims its answer first has the same c from the claim on; one that tries has it when it has found.",
        ),
        ts.Listing(
            "By fraction",
            "The last evaluation, means over seeds: the right answer's probability, the reply's own answer's, and "
            "KL(U || p) in nats.",
            ("fraction", "right", "own", "certainty"),
            along,
        ),
        ts.Table(
            "Cost",
            "Tokens of training, a run: mean over seeds. Read: scored to shape advantages; computed: shared prefixes "
            "counted once. Monte Carlo as published would draw 60 short answers a rollout.",
            (
                ts.Measure("sampled", "sampled", sampled, "d"),
                ts.Measure("sent", "read", tokens("train/confidence/tokens_sent"), "d"),
                ts.Measure("computed", "computed", tokens("train/confidence/tokens_computed"), "d"),
                ts.Measure(
                    "ratio", "computed|of sampled", lambda a: tokens("train/confidence/tokens_computed")(a) / sampled(a)
                ),
            ),
        ),
    ),
    pictures=(
        ts.BeforeAfter(),
        ts.Curve(
            name="along",
            label="c of the right answer",
            read=lambda arm: {round(100 * one): fmean(watched(f"gold_{one:.1f}")(arm)) for one in FRACTIONS},
            axis="% of the reasoning",
            is_listed=False,
        ),
        ts.Curve(
            name="hard",
            label="right, hard split",
            read=lambda arm: {step: arm.at_step(ON_HARD, step).mean() for step in arm.steps[arm.before :]},
        ),
    ),
)
