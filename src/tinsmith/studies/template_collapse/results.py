"""What the runs of `template_collapse` came to: information and entropy over the steps, updates, success, claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.arm_gains import Arms, ArmsFound
from tinsmith.lab.study.driver import Tuned
from tinsmith.lab.study.results import Draws, hashes_in
from tinsmith.lab.study.task_arms import ArmRead, read_runs
from tinsmith.lab.study.task_study import Size
from tinsmith.pages.measures import Measure
from tinsmith.stats.diagnostics.over_seeds import mean_over_seeds
from tinsmith.studies.template_collapse.settings import BONUS, FILTERED, PLAIN, SHUFFLED, STOPPED, CollapseSettings
from tinsmith.types.errors import DataError

RIGHT: Final = "right"
INFORMATION: Final = "watch/mutual_information"
GIVEN: Final = "watch/entropy_given_prompt"
RETRIEVAL: Final = "watch/retrieval_accuracy"
_LEFT_OUT: Final = "train/groups/left_out"
_STOPPED_AT: Final = "train/stopped_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What one evaluation says of an arm: means over seeds."""

    step: int
    information: float
    """I(X; Z), nats an answer."""
    given: float
    """H(Z | X)."""
    retrieval: float
    reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """How information and entropy moved in an arm: the last evaluation less the first, with intervals over seeds."""

    information: Measure
    given: Measure
    trace: tuple[Traced, ...]
    updates: float
    """Groups that were trained on, a run."""
    stopped_at: float | None
    """The mean step of those that stopped before their end; None: none did."""
    num_stopped: int

    @property
    def collapsed(self) -> bool:
        """Whether information fell, by its interval, and entropy did not fall by as much as it."""
        fell = self.information.high is not None and self.information.high < 0.0
        return fell and self.given.value > self.information.value


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseFound(ArmsFound):
    """What the study has found."""

    collapse: Mapping[str, Collapse]
    """By the name of the arm."""
    cap: float
    """The most that I can be: the log of how many prompts are scored."""


def first_word(item: str) -> str:
    """Return what an item is learned with: its first word.

    >>> first_word("anchor-quiet-early")
    'anchor'
    """
    return item.split("-")[0]


def read_found(settings: CollapseSettings, tuned: Tuned, draws: Draws) -> tuple[CollapseFound, Arms]:
    """Read the finished runs.

    Raises:
        DataError: a run was not evaluated, or did not watch.
    """
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    arms = Arms(reads, first_word, 1 if settings.size is Size.SMALL else 0)
    first = next(iter(reads.values())).reads[0]
    seen = dict.fromkeys(reads, int(first.run.config.steps or 0))
    num_items = arms.at(PLAIN, 0).num_items
    found = CollapseFound(
        data=first.run.config.data.fingerprint,
        num_items=num_items,
        seeds=settings.study.seeds,
        tuning_seed=settings.study.tuning_seed,
        settings={key: value for key, value in settings.study.shared.items() if key != "quiet"},
        rates={},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
        task=first.run.config.task.name,
        gains=arms.gains(draws.tables),
        beats=arms.beats([(FILTERED, BONUS), (STOPPED, BONUS), (PLAIN, BONUS)], seen, RIGHT, draws),
        learned=arms.learned(dict.fromkeys((PLAIN, BONUS, FILTERED, STOPPED), SHUFFLED), RIGHT, draws),
        collapse={name: _collapse(read, arms.first, settings.groups_per_batch) for name, read in reads.items()},
        cap=math.log(min(64, num_items)),
    )
    return found, arms


def _collapse(read: ArmRead, first: int, groups_per_batch: int) -> Collapse:
    runs = [one.run for one in read.reads]
    steps = read.steps[first:]
    ends = [step for step in (_stopped_at(run) for run in runs) if step is not None]
    return Collapse(
        information=_moved(runs, INFORMATION, steps),
        given=_moved(runs, GIVEN, steps),
        trace=tuple(
            Traced(
                step=step,
                information=_mean([_at(run, step, INFORMATION) for run in runs]),
                given=_mean([_at(run, step, GIVEN) for run in runs]),
                retrieval=_mean([_at(run, step, RETRIEVAL) for run in runs]),
                reward=_mean([_at(run, step, "eval/reward/total") for run in runs]),
            )
            for step in steps
        ),
        updates=_mean([_updates(run, groups_per_batch) for run in runs]),
        stopped_at=_mean(ends) if ends else None,
        num_stopped=len(ends),
    )


def _moved(runs: Sequence[Run], name: str, steps: Sequence[int]) -> Measure:
    mean, interval = mean_over_seeds([_at(run, steps[-1], name) - _at(run, steps[0], name) for run in runs])
    return Measure(mean) if interval is None else Measure(mean, interval.low, interval.high)


def _at(run: Run, step: int, name: str) -> float:
    found = run.metrics.get(step, {}).get(name)
    if found is None:
        raise DataError("a run did not watch its information", field=name, value=str(run.folder))
    return found


def _updates(run: Run, groups_per_batch: int) -> float:
    rows = run.metrics.values()
    left_out = [value for row in rows if (value := row.get(_LEFT_OUT)) is not None]
    return groups_per_batch * len(left_out) - math.fsum(left_out)


def _stopped_at(run: Run) -> float | None:
    return next((value for row in run.metrics.values() if (value := row.get(_STOPPED_AT)) is not None), None)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
