"""What a study is made of: arms x learning rates x seeds, and which run lies where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.experiment.key_text import truth
from tinsmith.lab.study.cluster_keys import AskedCluster, asked_cluster
from tinsmith.lab.study.keys import StudyKeys, seeds_apart

CELLS: Final = "cells"
"""The folder of a study's runs, in the study's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What `tinsmith run` opens a task by, as experiments that are made of tasks are not registered."""

    found_at: str
    keys: Mapping[str, str]
    """Of the task's source; the experiment has their values already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    experiment: Experiment
    overrides: Mapping[str, str]
    folder: Path
    opened: Opened | None = None
    """Of a task; None: the experiment is registered, and found by its name."""

    @property
    def command(self) -> list[str]:
        """What stands after `tinsmith run`, but for where and how fast."""
        named = self.experiment.name if self.opened is None else self.opened.found_at
        own = {} if self.opened is None else self.opened.keys
        return [named, *(f"{key}={value}" for key, value in {**own, **self.overrides}.items())]


@dataclass(frozen=True, slots=True)
class StudyArm:
    """What is trained in one way; its runs differ by learning rate and seed alone."""

    name: str
    """In the names of folders."""
    words: str
    """On the page."""
    experiment: Experiment
    rates: tuple[float, ...] = ()
    """Ascending. Several are tried, one is taken as it is; none: nothing is trained."""
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the arm has of its own."""
    opened: Opened | None = None
    """Of a task; see Cell."""
    by_seed: Mapping[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]])
    """Keys of single runs."""
    tuned_as: StudyArm | None = None
    """What is run in its place to choose a rate, where that is not the arm itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Arms, of which each is run with every seed, and what all runs have in common."""

    name: str
    question: str
    arms: tuple[StudyArm, ...]
    shared: Mapping[str, str]
    """Keys of every run."""
    out: Path = Path()
    seeds: tuple[int, ...] = ()
    tuning_seed: int = 0
    """Of the runs by which rates are chosen; none of those that are reported."""
    dry_run: bool = False
    """Whether only to say what it would take."""
    cluster: AskedCluster | None = None
    """Where its runs run; None: here."""

    def asked(self, keys: StudyKeys, given: Mapping[str, str], *, fewest_seeds: int = 1) -> Study:
        """Return it with the folder, the seeds, the `dry_run` and the cluster that were asked for."""
        seeds, tuning_seed = seeds_apart(
            keys.value(given, "seeds"), keys.value(given, "tuning_seed"), least=fewest_seeds
        )
        return replace(
            self,
            shared={**self.shared, "quiet": "true"},
            out=Path(keys.value(given, "out")),
            seeds=seeds,
            tuning_seed=tuning_seed,
            dry_run=truth("dry_run", keys.value(given, "dry_run")),
            cluster=asked_cluster(given),
        )

    def cell(self, arm: StudyArm, rate: float | None, seed: int) -> Cell:
        """Return an arm's run with a rate (None: nothing is trained) and a seed."""
        rated = {} if rate is None else {"learning_rate": repr(rate)}
        shown = "".join(f"-rate={value}" for value in rated.values())
        return Cell(
            experiment=arm.experiment,
            overrides={**self.shared, **arm.keys, **arm.by_seed.get(seed, {}), **rated, "seed": str(seed)},
            folder=self.out / CELLS / f"{arm.name}{shown}-seed={seed}",
            opened=arm.opened,
        )

    def tuning(self, arm: StudyArm) -> dict[float, Cell]:
        """Return the runs by which an arm's rate is chosen; none where there is only one to choose."""
        if len(arm.rates) < 2:
            return {}
        return {rate: self.cell(arm.tuned_as or arm, rate, self.tuning_seed) for rate in arm.rates}

    def reported(self, arm: StudyArm, rate: float | None) -> list[Cell]:
        """Return an arm's runs at its rate, one a seed."""
        return [self.cell(arm, rate, seed) for seed in self.seeds]
