"""GRPO on Countdown, with and without a penalty on being sure of an answer before it was reasoned out.

    tinsmith run confidence [size=smallest | at=small] [key=value ...]

The task is `countdown`. The penalty reads six prefixes of every reasoning and all answers after each; nothing is
drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.study.checks import allowed, more, near_zero, no_gain, of_runs
from tinsmith.lab.study.record import Shown
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.intervals import mean_over_seeds
from tinsmith.studies.confidence.countdown import ON_EASY, ON_HARD, countdown, flawed

TIMES: Final = 1.3  # Of plain GRPO's right answers on the hard split: what is asked of the penalty at equal steps.
_WATCH: Final = "watch/confidence"


def watched(name: str, at: int = -1) -> Callable[[ts.ArmRuns], tuple[float, ...]]:
    """Return a figure of confidence at an evaluation, one a run."""
    return lambda arm: arm.per_run(f"{_WATCH}/{name}", at)


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


def premature(results: ts.Results) -> ts.Finding:
    """Expect a rho of plain GRPO below what is called premature, as published."""
    one = results.figure("plain", "rho")
    return ts.Finding(one.below(0.4), str(one))


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
        ts.Expectation("plain GRPO is sure too early", premature),
        ts.Expectation("rho is higher with the penalty", more(RHO["shaped"], RHO["plain"])),
        ts.Expectation("rho is not shown to differ from 0 with shuffled prefixes", near_zero("shaped", "shuffled")),
        ts.Expectation("from shuffled labels nothing is shown to be learned", no_gain("noise")),
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
