"""Training at a few uncertain tokens of rollouts that are drawn once, beside GRPO.

    tinsmith run sparse_select [size=smallest | at=small] [task=FILE.py] [key=value ...]

As many rollouts as GRPO draws, a tenth of them, and as many of which the good ones alone are trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from tinsmith.lab.runs.files import ROLLOUTS, Kind
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import Split
from tinsmith.lab.settings import Pushed, RlSettings
from tinsmith.lab.study.checks import lower
from tinsmith.lab.study.keys import GENERATOR, SUMS, StudyKey, count, learning_rates
from tinsmith.lab.study.measures import AFTER, BEFORE, ArmRuns, Results
from tinsmith.lab.study.record import Shown, apart
from tinsmith.lab.study.sizes import Request
from tinsmith.lab.study.study import UNTRAINED, Arm, Beats, Expectation, Finding, Listing, PerItem, Size, Study
from tinsmith.lab.user_task.entry import TASK_KINDS
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate, signed
from tinsmith.stats.mean_runs import mean_difference

GRPO, SPARSE, TENTH, GOOD = "grpo", "sparse", "sparse_tenth", "sparse_good"
REWARD: Final = PerItem("reward", "reward")
_ROLLOUTS: Final = 20  # Of each item, as in the paper, where there are items enough.
_RL = TASK_KINDS[Kind.TASK].known
_DRAWN: Final = frozenset(["asked_items", "base_rollouts", "pushed"])
_PASSES: Final = (_RL | TASK_KINDS[Kind.TASK_SPARSE].known) - _DRAWN
_SET: Final = frozenset(
    ["kind", "seed", "sft_steps", "base_url", "log_path", "stop_after", "behavior_if_log_dir_exists", "quiet", *_DRAWN]
)


def drawn_keys(budget: int, items: int) -> dict[str, int]:
    """Return how many items are asked, and how often: as many rollouts as there are in the budget, and no more."""
    num_items = max(1, budget // _ROLLOUTS)
    if items and num_items > items:
        return {"asked_items": items, "base_rollouts": max(2, budget // items)}
    return {"asked_items": num_items, "base_rollouts": min(_ROLLOUTS, max(2, budget // num_items))}


def with_arms(study: Study, request: Request) -> Study:
    """Return the study with its arms, whose rollouts hang on what GRPO draws."""
    rate = {} if request.rate is None else {"learning_rate": float(str(request.rate))}
    settings = request.plan(rate).settings
    assert isinstance(settings, RlSettings)
    assert request.source is not None, "the study is of a task"
    total = settings.steps * settings.groups_per_batch * settings.group_size
    budget = {GRPO: total, SPARSE: total, TENTH: total // 10, GOOD: total}
    key = next((one for one in request.source.keys if one.name == "items"), None)
    items = 0 if key is None else int(key.read(request.shared.get("items")))
    rates = learning_rates("sparse_rates", request.own["sparse_rates"])
    steps = count("sparse_steps", request.own["sparse_steps"], 1)

    def sparse(name: str, label: str, pushed: Pushed) -> Arm:
        keys = {"kind": Kind.TASK_SPARSE.value, "steps": steps, "learning_rate": rates, "pushed": pushed.value}
        return Arm(name, label, {**keys, **drawn_keys(budget[name], items)})

    def effort(arm: ArmRuns) -> int:
        return budget[arm.arm.name]

    return replace(
        study,
        arms=(
            Arm(GRPO, "GRPO", kind=Kind.TASK.value, learning_rate=settings.learning_rate),
            sparse(SPARSE, "sparse selection", Pushed.BOTH),
            sparse(TENTH, "sparse selection, a tenth of the rollouts", Pushed.BOTH),
            sparse(GOOD, "sparse selection, good answers alone", Pushed.GOOD),
        ),
        effort=effort,
    )


class _Line(msgspec.Struct, frozen=True):
    split: str
    tokens: tuple[int, ...] = ()


def drawn(arm: ArmRuns) -> tuple[float, float]:
    """Return how many rollouts a run drew to train on, and their tokens, a mean over seeds."""
    runs = [list(json_lines(one.run.folder / ROLLOUTS, _Line, [])) for one in arm.reads]
    lengths = [[len(line.tokens) for line in lines if line.split == Split.TRAIN] for lines in runs]
    return float(np.mean([len(one) for one in lengths])), float(np.mean([sum(one) for one in lengths]))


def behind(results: Results, arm: str) -> tuple[Figure, float]:
    """Return how far an arm ends above GRPO, and the standard error of that over items and seeds."""
    mine, other = (results.arms[name].per_item(REWARD) for name in (arm, GRPO))
    gap = mean_difference(mine, other, results.draws.claims)
    return from_estimate(gap), float(np.std(gap.draws, ddof=1))


def as_good_as_grpo(arm: str) -> Callable[[Results], Finding]:
    """Expect that an arm ends at GRPO's reward or above, but for one standard error."""

    def check(results: Results) -> Finding:
        gap, error = behind(results, arm)
        return Finding(gap.value >= -error, f"{signed(gap.value)} from GRPO, standard error {error:.3f}")

    return check


def arms(results: Results) -> list[list[Shown]]:
    """Return the base and every arm after its training, with what it drew."""
    tables = results.draws.tables
    base = [
        from_estimate(results.arms[GRPO].per_item(REWARD, BEFORE, greedy=one).estimate(tables)) for one in (False, True)
    ]
    rows: list[list[Shown]] = [["the base", *base, *["not trained"] * 4]]
    for arm in results.arms.values():
        sampled, greedy = (arm.per_item(REWARD, AFTER, greedy=one) for one in (False, True))
        seeds, gated = sampled.means(), arm.in_training("sparse/gated")
        rows.append(
            [
                f"{arm.arm.label}|{arm.step(AFTER)} steps, {len(seeds)} seeds",
                from_estimate(sampled.estimate(tables)),
                from_estimate(greedy.estimate(tables)),
                f"{min(seeds):.3f}\u2013{max(seeds):.3f}",
                *(f"{round(one):,}" for one in drawn(arm)),
                Figure(float(np.mean(gated))) if gated else "all",
            ]
        )
    return rows


def gaps(results: Results) -> list[list[Shown]]:
    """Return how far every other arm is from GRPO."""
    rows: list[list[Shown]] = []
    for name, arm in results.arms.items():
        if name != GRPO:
            gap, error = behind(results, name)
            share = drawn(arm)[1] / drawn(results.arms[GRPO])[1]
            met = "yes" if gap.value >= -error else "no"
            rows.append([arm.arm.label, gap, Figure(error), Figure(share), met])
    return rows


study = Study(
    name="sparse_select",
    question="Does offline training on a few uncertain tokens of the base's own rollouts do what GRPO does?",
    task="crossroads",
    arms=(),
    complete=with_arms,
    own=(
        StudyKey("task", "crossroads", "Task to train on: a packaged one, or FILE.py."),
        GENERATOR,
        StudyKey(
            "sparse_rates",
            "1e-4,3e-4,1e-3,3e-3",
            "Learning rates of sparse selection; several: each arm's is chosen on a validation part.",
        ),
        StudyKey("sparse_steps", "60", "Optimizer steps of sparse selection; steps and learning_rate are GRPO's."),
    ),
    passes=_PASSES - _SET,
    fixed=_SET,
    keys={"split_seed": 0},
    sizes={
        "smallest": Size(seeds=[1], steps=20, sparse_steps=20, sparse_rates="1e-3", held_out_items=24, practice=200),
        "nano": Size(practice=400),
        # A small pretrained model has read no demonstrations of crossroads: sums, as for the microscope.
        "small": Size(
            f"{SUMS} steps=24 groups_per_batch=8 learning_rate=0.0003 sparse_steps=24 sparse_rates=1e-4 eval_items=60",
            seeds=[1],
        ),
    },
    score=REWARD,
    claims=(
        *(Beats(name, UNTRAINED) for name in (GRPO, SPARSE, TENTH, GOOD)),
        *(Beats(*pair) for pair in ((SPARSE, GRPO), (GRPO, SPARSE), (TENTH, GRPO), (SPARSE, GOOD))),
    ),
    expectations=(
        Expectation("sparse selection does what GRPO does, but for one standard error", as_good_as_grpo(SPARSE)),
        Expectation("so it does with a tenth of the rollouts", as_good_as_grpo(TENTH)),
        Expectation("good answers alone teach less than good and bad ones", lower(GOOD, SPARSE, REWARD)),
    ),
    tables=(
        Listing(
            "Arms",
            "Held-out items after the last step: means over seeds, 95 % intervals over seeds and items. Rollouts and "
            "tokens are those drawn to train on. Pushed: the share of the trained answers' tokens whose base entropy "
            "is above the threshold.",
            (
                *("reward|sampled", "reward|greedy", "lowest and highest seed|sampled"),
                *("rollouts", "tokens|sampled", "pushed|share"),
            ),
            arms,
        ),
        Listing(
            "Beside GRPO",
            "Sampled reward less GRPO's, on the same items; the standard error is of the gap, over items and seeds.",
            (apart("gap"), "standard error", "tokens|of GRPO's", "within one standard error"),
            gaps,
        ),
    ),
    notes=("In a claim the first may draw no more rollouts to train on than the second.",),
)
