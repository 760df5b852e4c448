"""What the finished runs of a study say, arm by arm, as values: scores with intervals, rates, compute, seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.results.arms import Arm, Member
from tinsmith.lab.results.gathering import gather
from tinsmith.lab.results.judging import BOOTSTRAP as CLAIMS
from tinsmith.lab.results.snapshot import baseline_systems
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run, Split
from tinsmith.lab.study.keys import FEWEST_RATES
from tinsmith.lab.study.tried_rates import Tried, chance_words
from tinsmith.pages.measures import BOOTSTRAP, Measure, from_estimate
from tinsmith.pages.wording import counted, listed
from tinsmith.stats.estimates import Bootstrap, estimate
from tinsmith.stats.evaluation import combine
from tinsmith.stats.gate.claim import ENOUGH_SEEDS
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

_TRAINING: Final = ("sample_s", "score_s", "train_s")
"""What of a step is training; examinations and saving are left out, as in the FLOPs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """How the intervals of a study are drawn."""

    claims: Bootstrap = CLAIMS
    tables: Bootstrap = BOOTSTRAP


DRAWS: Final = Draws()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What training took, but for the seconds: the mean of an arm's seeds."""

    papers: float
    """Labelled papers that a step looked at, again where it came again."""
    updates: float
    tokens_read: float
    """Of prompts, once a group, to sample from."""
    tokens_sampled: float
    tokens_trained: float
    """Positions of all sequences that a gradient was taken over."""
    flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """How long a run of an arm took, as this machine was then: a mean over its seeds."""

    a_step: float | None
    """Of the update in one step; None: nothing was trained."""
    training: float
    """Of sampling, scoring and updates, over all steps."""
    run: float
    """Of all steps with their examinations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Answers of all seeds to the test split, scored: means, with intervals over seeds and papers."""

    label_match: Measure
    macro_f1: Measure
    balanced_accuracy: Measure
    min_class_recall: Measure
    by_seed: tuple[float, ...]
    """Macro-F1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm, or one way to decide with an arm's models."""

    name: str
    seeds: tuple[int, ...]
    rate: float | None
    """None: nothing is trained."""
    steps: int
    selected: Scores
    """Sampled answers of the checkpoint that validation chose; with offsets: decisions."""
    last: Scores | None
    """Sampled answers of the last checkpoint."""
    greedy: Scores | None
    """Greedy answers of the chosen checkpoint."""
    spent: Spent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyValues:
    """What every study has found: all of it but the seconds, which no two runs have in common."""

    data: str
    """Fingerprint of the slice, or of the items."""
    num_items: int
    seeds: tuple[int, ...]
    tuning_seed: int
    settings: Mapping[str, object]
    """What decides the results, but for papers and base."""
    rates: Mapping[str, tuple[Tried, ...]]
    """Learning rates that were tried, by the name of the arm's row."""
    hashes: Mapping[str, Mapping[str, str | None]]
    """Of weights, rollouts, metrics and trace, by the folder of a reported run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFound(StudyValues):
    """What a study on labels has found."""

    labels: tuple[str, ...]
    rows: tuple[ArmRow, ...]
    baselines: tuple[tuple[str, Mapping[str, Measure]], ...]

    def row(self, name: str) -> ArmRow:
        """Return an arm by its name."""
        return next(row for row in self.rows if row.name == name)


def read_arm(name: str, folders: Sequence[Path]) -> Arm:
    """Read the runs of an arm, one a seed.

    Raises:
        DataError: a folder holds no run.
    """
    runs = [read_run(folder) for folder in folders]
    return Arm(name=name, members=tuple(Member(run=run, gathered=gather(run)) for run in runs))


def answers(arm: Arm, *splits: Split) -> Runs:
    """Return every seed's answers on the first of these splits that it has.

    Raises:
        DataError: a run has none, or they are not to the same papers.
    """
    found = [
        next((one for split in splits if (one := member.gathered.last(split)) is not None), None)
        for member in arm.members
    ]
    there = [one for one in found if one is not None]
    if len(there) < len(found):
        raise DataError(f"a run of {arm.name} has no answers to the test split", field="cells")
    return combine(arm.name, there)


def scores(runs: Runs, draws: Bootstrap) -> Scores:
    """Score a system's answers, with intervals."""

    def of(metric: Metric) -> Measure:
        return from_estimate(estimate(runs, metric, draws))

    return Scores(
        label_match=of(Metric.LABEL_MATCH),
        macro_f1=of(Metric.MACRO_F1),
        balanced_accuracy=of(Metric.BALANCED_ACCURACY),
        min_class_recall=of(Metric.MIN_CLASS_RECALL),
        by_seed=tuple(one.score(Metric.MACRO_F1) for one in runs.confusions()),
    )


def baselines_of(run: Run) -> tuple[tuple[str, Mapping[str, Measure]], ...]:
    """Return the scores of a run's slice's baselines, by name; empty where there are none."""
    if run.baselines is None:
        return ()
    return tuple((one.name, dict(one.measures)) for one in baseline_systems(run.baselines))


def hashes_of(arms: Sequence[Arm]) -> dict[str, dict[str, str | None]]:
    """Return what runs have to give again, by their folders' names."""
    return hashes_in([member.run for arm in arms for member in arm.members])


def hashes_in(runs: Sequence[Run]) -> dict[str, dict[str, str | None]]:
    """Return the same of runs."""
    return {run.folder.name: dict(run.manifest.hashes) if run.manifest else {} for run in runs}


def seconds_of(arm: Arm) -> Seconds:
    """Return how long an arm's runs took."""
    return seconds_in([member.run for member in arm.members])


def seconds_in(found: Sequence[Run]) -> Seconds:
    """Return how long runs took, a mean over them."""
    lines = [line for run in found for line in run.timings]
    updates = [value for line in lines if (value := line.get("train_s")) is not None]
    runs = len(found)
    return Seconds(
        a_step=math.fsum(updates) / len(updates) if updates else None,
        training=math.fsum(line.get(name) or 0.0 for line in lines for name in _TRAINING) / runs,
        run=math.fsum(line.get("step_s") or 0.0 for line in lines) / runs,
    )


def limits(study: StudyFound) -> list[str]:
    """Say what a reader must know before anything of a study is repeated elsewhere."""
    return limits_of(study, {name: study.row(name).rate for name in study.rates})


def limits_of(study: StudyValues, chosen: Mapping[str, float | None]) -> list[str]:
    """Say the same of any study, by the rate that was chosen for each name of its `rates`."""
    found: list[str] = []
    if len(study.seeds) < ENOUGH_SEEDS:
        found.append(
            f"{counted(len(study.seeds), 'seed')} an arm {'speaks' if len(study.seeds) == 1 else 'speak'} for these "
            f"models; for the methods it takes {ENOUGH_SEEDS}."
        )
    if min((len(rates) for rates in study.rates.values()), default=0) < FEWEST_RATES:
        found.append(
            f"Fewer than {FEWEST_RATES} learning rates were tried for an arm, so that tuning may explain a difference."
        )
    alike = chance_words(study.rates)
    if alike:
        found.append(alike)
    at_an_end = [
        name
        for name, rates in study.rates.items()
        if len(rates) > 1 and chosen[name] in (rates[0].rate, rates[-1].rate)
    ]
    if at_an_end:
        found.append(
            f"The chosen rate of {listed(at_an_end)} is an end of what was tried; a better one may lie beyond."
        )
    return found
