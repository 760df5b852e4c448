"""GRPO on errands in small houses, between whose batches visits without an errand are interleaved, at five ratios.

    tinsmith run exploration [size=smallest | at=small] [key=value ...]

The task is `house`: errands (a key is wanted), recoveries (an errand that begins with an action that has failed), and
visits in which nothing is wanted, which are set aside and make batches of their own.
"""

from __future__ import annotations

from typing import Final

import tinsmith as ts
from tinsmith.lab.study.checks import higher, lower, not_higher, not_lower
from tinsmith.studies.exploration.house import house, kind

RATIOS: Final = ("10:1", "5:1", "2:1", "1:1")
ALONE, ADVISED, CHANCE = "none", "5-1", "chance"
MARGIN: Final = 0.05
COVERED = ts.PerItem("covered", "coverage", "metric/coverage", where=kind("explore"))
REPEATED = ts.PerItem("repeated", "actions done again", "metric/repeated", where=kind("explore"))
DONE = ts.PerItem("done", "errands done", "metric/right", where=kind("errand"))
RECOVERED = ts.PerItem("recovered", "recovery", "metric/right", where=kind("recover"))


def explored(arm: ts.ArmRuns) -> tuple[int, int]:
    """Return how many rollouts of training explored, and how many there were."""
    trained = [kind("explore")(one.prompt_id) for run in arm.trained_on() for one in run]
    return sum(trained), len(trained)


def one_in_six(results: ts.Results) -> ts.Finding:
    """Expect that at 5:1 exactly one rollout in six explores."""
    aside, rollouts = explored(results.arms[ADVISED])
    return ts.Finding(6 * aside == rollouts, f"{aside:,} of {rollouts:,}, {aside / rollouts:.1%}")


study = ts.Study(
    name="exploration",
    title="Exploration between the batches of a task",
    question="Does exploration between batches of a task teach an agent its environment, at no cost to the task?",
    task=house,
    arms=(
        ts.Arm(ALONE, "task alone", interleave="none", pays="coverage"),
        *(ts.Arm(one.replace(":", "-"), f"explores {one}", interleave=one, pays="coverage") for one in RATIOS),
        ts.Arm(CHANCE, "5:1, paid by chance", interleave="5:1", pays="chance"),
    ),
    # Coverage differs less within a group than success does: advantages in deviations weigh both kinds of batch alike.
    keys={"save_every": 0, "advantage": "std", "eval_items": 96},
    # 66 steps hold whole rounds of every ratio, 12 of all but 10:1; all arms take as many.
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.0006 eval_items=24 steps=12 group_size=4 groups_per_batch=2 eval_every=12 "
            "eval_samples=1 base_steps=200",
            seeds=[1],
        ),
        "nano": ts.Size(learning_rate=6e-4, steps=66, group_size=8, groups_per_batch=4, eval_every=66, eval_samples=2),
        "small": ts.Size(
            "learning_rate=0.0003 steps=22 group_size=8 groups_per_batch=4 eval_every=22 eval_samples=1 "
            "max_tokens=12 explain=true watch_forgetting=false",
            seeds=[1],
        ),
    },
    score=COVERED,
    against=ALONE,
    claims=(
        *(ts.Beats(one.replace(":", "-"), ALONE, on) for on in (COVERED, RECOVERED) for one in RATIOS),
        ts.Learned(ADVISED, CHANCE),
    ),
    source="arXiv:2605.16143",
    expectations=(
        ts.Expectation(
            "5:1 covers 1.3 times as many checkpoints as the task alone", higher(ADVISED, ALONE, COVERED, times=1.3)
        ),
        ts.Expectation(
            f"at 5:1 success at the task is not lower (by {MARGIN} or more)",
            not_lower(ADVISED, ALONE, DONE, margin=MARGIN),
        ),
        ts.Expectation("at 5:1 more errands recover from a failed action", higher(ADVISED, ALONE, RECOVERED)),
        ts.Expectation("exploration at 5:1 is one in six rollouts", one_in_six),
        ts.Expectation("at 5:1 fewer actions are done again", lower(ADVISED, ALONE, REPEATED)),
        ts.Expectation(
            "exploration paid by chance is not shown to cover more than the task alone",
            not_higher(CHANCE, ALONE, COVERED),
        ),
    ),
    tables=(
        ts.Table(
            "Without an errand",
            "Held-out houses in which nothing is wanted. Covered: the share of what can be opened that is. Overhead: "
            "rollouts of training that explore.",
            (
                ts.Measure("overhead", "overhead", lambda arm: explored(arm)[0] / explored(arm)[1], ".1%"),
                COVERED,
                REPEATED,
            ),
        ),
        ts.Table(
            "Errands",
            "Held-out errands that end with what is wanted; recovery: those that begin with a failed action, in the "
            "model's own place.",
            (DONE, RECOVERED),
        ),
    ),
    pictures=(ts.BeforeAfter((COVERED, DONE, RECOVERED)),),
    notes=("Every arm takes as many steps, so that what explores has fewer of the task.",),
)
