"""GRPO on rewards that were written behind a barrier, or with the construction of the tasks in sight.

    tinsmith run barrier [size=smallest] [key=value ...]
    tinsmith run rooms barrier=open tests=two                                  # one way to make tasks, alone

The task is `rooms`. All messages to the writers of rewards lie in `audit`, beside the runs.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean
from typing import Final

from tinsmith.lab.study.checks import allowed, higher, rises, within
from tinsmith.lab.study.files import made_once
from tinsmith.lab.study.measures import ArmRuns, Results
from tinsmith.lab.study.study import Arm, Beats, Expectation, Finding, Learned, Measure, PerItem, Size, Study, Table
from tinsmith.lab.user_task.functions import reached_sha256
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.barrier.rooms import MUTANTS, ROOMS, Audit, pays, rooms, wrong_mutants

AUDIT: Final = "audit"
STAMPED = PerItem("stamped", "stamped", "metric/stamped")


def audit(arm: ArmRuns) -> Audit:
    """Return the audit of an arm's rewards: a file beside the study's runs, which is written where there is none."""
    ways = str(arm.arm.keys["barrier"]), str(arm.arm.keys["tests"])
    file = arm.runs[0].folder.parents[1] / AUDIT / f"{'-'.join(ways)}.json"
    return made_once(file, (*ways, reached_sha256(rooms)), Audit, lambda: Audit.of(*ways))


def paid_wrongly(arm: ArmRuns) -> MeanRuns:
    """Return the share of fresh wrong mutants that are paid, by room."""
    tried = [(one["id"], reward, wrong_mutants(one, MUTANTS, 1)) for one, reward in audit(arm).rewarded]
    shares = {name: Fraction(sum(pays(reward, one) for one in some), len(some)) for name, reward, some in tried}
    return MeanRuns.of(arm.arm.label, [shares])


def few_mutants(results: Results) -> Finding:
    """Expect that at most 1 % of fresh mutants are paid, with the whole interval, behind the barrier by four tests."""
    return Finding(((found := results.figure("closed", "mutants")).high or 0.0) <= 0.01, str(found))


def more_mutants(results: Results) -> Finding:
    """Expect that more mutants are paid with the barrier open, by two tests, with intervals apart."""
    mine, other = results.figure("open", "mutants"), results.figure("closed_two", "mutants")
    return Finding((mine.low or 0.0) > (other.high or 1.0), f"{mine}, with it closed {other}")


def nothing_leaks(results: Results) -> Finding:
    """Expect that no message to a writer behind the barrier holds a construction, and all do with it open."""
    parts = tuple(results.figure(name, "told").value for name in ("closed", "closed_two", "open"))
    return Finding(parts == (0, 0, 1), "closed {:g}, closed with two tests {:g}, open {:g}".format(*parts))


study = Study(
    name="barrier",
    question="Does it matter that the writer of a reward cannot see how its tasks were made?",
    task=rooms,
    arms=(
        Arm("closed", "closed, four tests", "barrier=closed tests=four"),
        Arm("closed_two", "closed, two tests", barrier="closed", tests="two"),
        Arm("open", "open, two tests", barrier="open", tests="two"),
        Arm("open_four", "open, four tests", barrier="open", tests="four"),
        Arm("shuffled", "closed, four tests, shuffled labels", "barrier=closed tests=four shuffle_labels=true"),
    ),
    keys={"save_every": 0, "groups_per_batch": 4},
    sizes={
        "smallest": Size("learning_rate=0.002 base_steps=120 steps=4 eval_items=16", seeds=[1], without=["open_four"]),
        "nano": Size(learning_rate=1e-3, steps=40, eval_every=40, eval_items=64, eval_samples=2),
    },
    score=PerItem("right", "right answers", "metric/right"),
    control="shuffled",
    claims=(
        *(Beats("closed", other) for other in ("closed_two", "open", "open_four")),
        *(Learned(one, "shuffled") for one in ("closed", "open")),
    ),
    source="arXiv:2605.25624",
    expectations=(
        Expectation("behind the barrier at most 1 % of wrong mutants are paid, by four tests", few_mutants),
        Expectation("with the barrier open more of them are, by two tests", more_mutants),
        Expectation("nothing of a construction passes the barrier", nothing_leaks),
        Expectation("RL teaches what is asked behind the barrier", rises("closed")),
        Expectation("it ends above the open barrier", allowed("closed", over="open")),
        Expectation("with the barrier open RL teaches the stamp", higher("open", "closed", STAMPED, times=1.5)),
        Expectation("shuffled labels change it by less than 0.1", within("shuffled", 0.1)),
    ),
    tables=(
        Table(
            "Rewards that were accepted",
            "Accepted: of all rooms; empty: of these, requests for what is so already. Written: times that rewards "
            "were. Unpaid: right answers without the stamp. Mutants: fresh wrong ones that are paid, interval "
            "over rooms. Told: messages to the writer that held a construction. Stamped: of held-out answers.",
            (
                Measure("accepted", "accepted", lambda arm: len(audit(arm).accepted) / ROOMS),
                Measure("empty", "empty", lambda arm: audit(arm).mean(lambda one, _: one["start"] == one["golden"])),
                Measure("written", "written|times", lambda arm: len(audit(arm).sent_to_writer()), "d"),
                Measure(
                    "unpaid",
                    "right|unpaid",
                    lambda arm: audit(arm).mean(lambda one, reward: not pays(reward, one["golden"])),
                ),
                Measure("mutants", "mutants|paid", paid_wrongly),
                Measure("told", "told", lambda arm: fmean(audit(arm).sent_to_writer())),
                STAMPED,
            ),
        ),
    ),
    notes=(
        "By four tests the share of wrong mutants that are paid follows from the rule of acceptance, and measures no "
        "writer: whoever is accepted pays none of 16 of them. What is accepted behind the barrier names every field's "
        "golden value, which is the truth itself, and with it open one exact text.",
        "Told is counted from the messages in `audit`, beside the runs: one to a writer behind the barrier counts as "
        "soon as it holds anything but requests as they were drawn, and the number of the attempt.",
    ),
)
