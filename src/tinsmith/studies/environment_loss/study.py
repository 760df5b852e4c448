"""GRPO in a small shell with a loss on what it answers, at four weights, and a control whose answers tell nothing.

    tinsmith run environment_loss [size=smallest | at=small] [key=value ...]

The task is `shell`. The loss is on what the shell answers and not on the template around it, weighed as the mean of its
tokens against the mean of the model's own, in one forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.study.checks import difference, higher
from tinsmith.pages.measures import over_seeds
from tinsmith.stats.diversity import WINDOW
from tinsmith.stats.significance import sign_flip_p
from tinsmith.studies.environment_loss.shell import Facts, bored, heard, of_boredom, shell, to_half

NONE, ADVISED, HIGH, CONTROL = "lambda-0", "lambda-0.05", "lambda-0.2", "scrambled"
WEIGHTS: Final = (0.0, 0.02, 0.05, 0.2)
FASTER: Final = 1.5  # How many times fewer steps to one half the published weight is to need.
_NLL: Final = "watch/env_nll"
RIGHT = ts.PerItem("success", "success", "metric/right")


def steps_to_half(arm: ts.ArmRuns) -> list[int | None]:
    """Return the steps to one half, one a run."""
    return [to_half([step.solved for step in heard(run)]) for run in arm.trained_on()]


def success(arm: ts.ArmRuns) -> dict[int, float]:
    """Return the share of conversations that succeed in training, by step: a mean over the runs."""
    runs = [[step.solved for step in heard(run)] for run in arm.trained_on()]
    return {at: sum(run[at] for run in runs) / len(runs) for at in range(min(map(len, runs)))}


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
