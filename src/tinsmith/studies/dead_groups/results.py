"""What the runs of `dead_groups` came to: how mixed their groups were beside the closed form, gains and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tinsmith.lab.study.arm_gains import Arms, ArmsFound
from tinsmith.lab.study.driver import Tuned
from tinsmith.lab.study.results import Draws, hashes_in
from tinsmith.lab.study.task_arms import ArmRead, read_runs
from tinsmith.lab.study.task_study import Size
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.stats.diagnostics.dead_groups import group_census
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.stats.monitors.alarms import AlarmKind
from tinsmith.studies.dead_groups.settings import ALWAYS, CHANCE, REMEDIES, SHUFFLED, DeadSettings

RIGHT: Final = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """The groups of answers to held-out items before training, and those of training."""

    right: float
    """Share of right answers."""
    observed: Measure
    """Share of groups with right and wrong answers, with its interval over seeds and signs."""
    expected: float
    """The same if answers were independent draws: 1 - p^G - (1 - p)^G."""
    index: float | None
    """1 - observed / expected; None: no mixed group is expected."""
    trained_on: float | None
    """Share of groups with rewards that differ, over all steps of RL; None: there was none."""
    alarms: int
    """Runs with the alarm that failure is fixed."""

    @property
    def foreseen(self) -> bool:
        """Whether the closed form lies within the interval of what was observed."""
        low, high = self.observed.low, self.observed.high
        return low is not None and high is not None and low <= self.expected <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFound(ArmsFound):
    """What the study has found."""

    mixed: Mapping[str, Mixed]
    """By the name of the arm."""
    group_size: int


def sign_of(item: str) -> str:
    """Return what an item is learned with: its sign.

    >>> sign_of("anchor-quiet-early")
    'anchor'
    """
    return item.split("-")[0]


def read_found(settings: DeadSettings, tuned: Tuned, draws: Draws) -> tuple[DeadFound, Arms]:
    """Read the finished runs.

    Raises:
        DataError: a run was not evaluated, or not on the items that the others were.
    """
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    locked_first = 1 if settings.size is Size.SMALL else 0
    arms = Arms(reads, sign_of, locked_first)
    first = next(iter(reads.values())).reads[0]
    steps = int(first.run.config.steps or 0)
    seen = dict.fromkeys(reads, steps)
    pairs = [(name, ALWAYS) for name in (CHANCE, *REMEDIES) if name in reads]
    found = DeadFound(
        data=first.run.config.data.fingerprint,
        num_items=arms.at(ALWAYS, 0).num_items,
        seeds=settings.study.seeds,
        tuning_seed=settings.study.tuning_seed,
        settings={key: value for key, value in settings.study.shared.items() if key != "quiet"},
        rates={},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
        task=first.run.config.task.name,
        gains=arms.gains(draws.tables),
        beats=arms.beats(pairs, seen, RIGHT, draws),
        learned=arms.learned(
            {name: SHUFFLED for name in (ALWAYS, CHANCE, *REMEDIES) if name in reads and SHUFFLED in reads},
            RIGHT,
            draws,
        ),
        mixed={name: _mixed(arms, read, draws) for name, read in reads.items()},
        group_size=settings.group_size,
    )
    return found, arms


def _mixed(arms: Arms, read: ArmRead, draws: Draws) -> Mixed:
    """Count the groups before RL; those of every seed, as each drew its own."""
    step = read.steps[arms.first]
    by_seed = [next(exam for exam in one.sampled if exam.step == step).rewards["total"] for one in read.reads]
    census = group_census([_floats(group) for found in by_seed for group in found.values()])
    mixed = MeanRuns.of(
        read.words, [{item: Fraction(int(len(set(group)) > 1)) for item, group in found.items()} for found in by_seed]
    )
    rewards = [value for found in by_seed for group in found.values() for value in group]
    lines = [
        value
        for one in read.reads
        for row in one.run.metrics.values()
        if (value := row.get("train/groups/informative")) is not None
    ]
    alarmed = [
        one for one in read.reads if any(f"alarm/{AlarmKind.DETERMINISM}" in row for row in one.run.metrics.values())
    ]
    return Mixed(
        right=math.fsum(_floats(rewards)) / len(rewards),
        observed=from_estimate(arms.clustered(mixed).estimate(draws.tables)),
        expected=census.expected,
        index=census.determinism if census.expected > 0.0 else None,
        trained_on=math.fsum(lines) / len(lines) if lines else None,
        alarms=len(alarmed),
    )


def _floats(values: Sequence[Fraction]) -> list[float]:
    return [float(value) for value in values]
