"""RL with an entropy bonus until answers no longer depend on what was asked, and remedies.

    tinsmith run template_collapse [size=smallest | at=small] [key=value ...]
    tinsmith run reasons                                                      # its task alone

An answer names two of the prompt's words as its reasons, then the letter that is rewarded. Nothing is earned by
reasons: a bonus for entropy pays for other words too, and once the letters are right nothing else acts on the policy.
I(X; Z) is what answers tell of their prompts, H(Z | X) how much they vary beside: a template has little of the first
and much of the second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from random import Random
from statistics import fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.study.checks import mean_in_training, moved, near_zero, not_lower
from tinsmith.lab.user_task.task import Task

LETTERS: Final = ("A", "B", "C", "D")
WORDS: Final = (
    *("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "hammer"),
    *("island", "jacket", "kettle", "ladder", "mirror", "needle", "orchard", "pillow"),
)
ITEMS: Final = 480
_SO: Final = " so "
_PARTS: Final = re.compile(r"(.*)(?<!\S)so\s+(.*)", re.DOTALL)  # A small model writes `so` after a line break too.


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
    return float((parts := _PARTS.fullmatch(text.strip())) is not None and parts[2] == letter_of(item["a"]))


def grounded(item: Mapping[str, str], text: str) -> float:
    """Return which share of the words before the letter stand in the prompt."""
    parts = _PARTS.fullmatch(text.strip())
    said = [word in (item["a"], item["b"], item["c"]) for word in (parts[1].split() if parts else ())]
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


def reasons(base_steps: int = 1000) -> Task:
    """Return prompts of three words, of which the first decides the letter.

    base_steps: How long the base was trained.
    """
    return Task(
        items=items(),
        prompt=prompt_of,
        reward=right,
        metrics={"grounded": grounded},
        demonstrate=demonstrate,
        base_steps=base_steps,
        answer=answer,
        baselines={"one template": template},
        held_out=0.25,
        keys={"max_tokens": 16},
        question="Do the reasons of an answer go on depending on what was asked?",
    )


INFORMATION: Final = "watch/mutual_information"
GIVEN: Final = "watch/entropy_given_prompt"
RETRIEVAL: Final = "watch/retrieval_accuracy"
CHEAP: Final = 0.75  # Of the unfiltered run's groups: what the filter is published to need at most.
LOSS: Final = 0.05  # Right answers that bonus and filter may cost at most.
RIGHT = ts.PerItem("right", "right")


def groups(arm: ts.ArmRuns) -> float:
    """Return how many groups a run trains on."""
    left_out = arm.in_training("train/groups/left_out")
    return (arm.setting("groups_per_batch", 8) * len(left_out) - math.fsum(left_out)) / len(arm.reads)


def collapses(arm: str, *, expected: bool) -> Callable[[ts.Results], ts.Finding]:
    """Expect that information falls, by its interval, and entropy by less than it; or that this is not shown."""

    def check(results: ts.Results) -> ts.Finding:
        information, given = results.figure(arm, "information"), results.figure(arm, "given")
        fell = information.below(0.0) and given.value > information.value
        return ts.Finding(fell is expected, f"I {information.value:+.2f}, H {given.value:+.2f} nats")

    return check


def is_cheap(results: ts.Results) -> ts.Finding:
    """Expect that the filter trains on at most so many of the groups of the run without it."""
    share = results.figure("filtered", "groups").value / results.figure("bonus", "groups").value
    return ts.Finding(share <= CHEAP, f"{share:.2f} of the groups")


def keeps_right(results: ts.Results) -> ts.Finding:
    """Expect that right answers with the bonus are not lower after training than before."""
    one = results.gains["bonus"]
    return ts.Finding(not one.gain.below(0.0), f"{one.before.value:.3f} to {one.after.value:.3f}")


BONUS: Final[Mapping[str, float | bool]] = {"entropy_bonus": 0.2, "zero_variance_filter": False}
TRAINED: Final = ("plain", "bonus", "filtered", "stopped")
study = ts.Study(
    name="template_collapse",
    question="Do answers stop depending on the prompt while they stay varied, and does a filter prevent it?",
    task=reasons,
    arms=(
        ts.Arm("plain", "RL"),
        ts.Arm("bonus", "RL, entropy bonus", BONUS),
        ts.Arm("filtered", "bonus, groups filtered", {**BONUS, "snr_filter": 0.9}),
        ts.Arm("stopped", "bonus, stopped early", {**BONUS, "early_stop": True}),
        ts.Arm("shuffled", "RL, shuffled labels", shuffle_labels=True),
    ),
    keys={"split_seed": 0, "save_every": 0, "watch": "mutual_information"},
    # Nano: on seed 0, which is not reported, a bonus of 0.2 collapses after some twenty steps, one of 0.1 in none of
    # these. At `at=small` the first steps of a run teach the form of an answer, as no base of its own did.
    sizes={
        "smallest": ts.Size(
            seeds=[1], learning_rate=2e-3, base_steps=120, steps=6, eval_every=3, eval_items=16, eval_samples=1
        ),
        "nano": ts.Size(learning_rate=2e-3, steps=40, eval_every=20, eval_items=64, eval_samples=1),
        "small": ts.Size(
            "at=small learning_rate=0.0003 steps=72 eval_every=24 eval_items=32 eval_samples=2 "
            "watch_forgetting=false sft_steps=24 sft_learning_rate=0.0003",
            seeds=[1],
            before=1,
        ),
    },
    score=RIGHT,
    clusters=lambda item: item.split("-")[0],
    control="shuffled",
    claims=(
        *(ts.Beats(name, "bonus") for name in ("filtered", "stopped", "plain")),
        *(ts.Learned(name, "shuffled") for name in TRAINED),
    ),
    expectations=(
        ts.Expectation("answers stop depending on the question with the bonus", collapses("bonus", expected=True)),
        ts.Expectation("with the filter that is not shown", collapses("filtered", expected=False)),
        ts.Expectation("right answers outlast the collapse", keeps_right),
        ts.Expectation(f"the filter ends at most {LOSS} below RL", not_lower("filtered", "plain", RIGHT, margin=LOSS)),
        ts.Expectation(f"the filter trains on at most {CHEAP} of the groups", is_cheap),
        ts.Expectation("on shuffled labels information is not shown to change", near_zero("shuffled", "information")),
    ),
    tables=(
        ts.Table(
            "Information and entropy",
            "The last evaluation less the first, in nats an answer: means over seeds, Student's 95 % intervals over "
            "seeds. Updates: groups that were trained on.",
            (
                ts.Measure("information", "I(X; Z)|change", moved(INFORMATION), "+.3f"),
                ts.Measure("given", "H(Z given X)|change", moved(GIVEN), "+.3f"),
                ts.Measure("retrieval", "retrieval|at the end", lambda arm: fmean(arm.per_run(RETRIEVAL))),
                ts.Measure("groups", "updates|a run", groups, "d"),
                ts.Measure("stopped", "stopped", lambda arm: arm.runs_with("train/stopped_at"), "d"),
                ts.Measure("stopped_at", "stopped at", mean_in_training("train/stopped_at"), "d", "ran to its end"),
            ),
            note="H(Z) = I(X; Z) + H(Z | X). I is at most the log of how many prompts are scored, however much more an "
            "answer tells; retrieval is the share of answers that are likeliest after their own prompt.",
        ),
    ),
    pictures=(
        ts.BeforeAfter(),
        ts.over_steps(INFORMATION, "I(X; Z), nats an answer"),
        ts.over_steps(GIVEN, "H(Z given X), nats an answer"),
        ts.over_steps(RETRIEVAL, "retrieval", is_drawn=False),
        ts.over_steps("eval/reward/total", "right", is_drawn=False),
    ),
)
