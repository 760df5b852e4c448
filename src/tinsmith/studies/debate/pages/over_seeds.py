"""Experiments under challenge over their seeds: means, caving as a ratio of two, first answers against unchallenged.

One run is one trained model; what is said here is said of an experiment, over the seeds and papers that its runs have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tinsmith.lab.results.arms import alike_but_for_seeds
from tinsmith.stats.estimates import Bootstrap, Estimate
from tinsmith.stats.seeded_shares import (
    MeanDifference,
    SeededShares,
    difference_of_means,
    ratio_of_means,
)
from tinsmith.studies.debate.pages.fates import CAVING, FIRST, SHOWN, Shown
from tinsmith.studies.debate.pages.gathering import TEST, DebateRun

DRAWN: Final = Bootstrap()
_TRAINING_ONLY: Final = frozenset({"forks"})
"""Of what is told of a challenger, what no test depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededFigure:
    """A figure under each seed and its mean, on the papers that all of them answered; None: nothing to count."""

    shown: Shown
    by_seed: tuple[float | None, ...]
    mean: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """Tested runs of one experiment that differ by their seed alone."""

    name: str
    by_seed: Mapping[int, DebateRun]
    """Ascending; two or more."""
    num_items: int
    """Papers that all of them answered in the test."""
    figures: tuple[SeededFigure, ...]
    """In the order of `SHOWN`."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its runs."""
        return tuple(self.by_seed)

    @property
    def first(self) -> DebateRun:
        """The run with the smallest seed."""
        return self.by_seed[self.seeds[0]]

    @property
    def reward(self) -> str:
        """The name of what its conversations earn."""
        return self.first.run.config.reward_name

    @property
    def unchallenged(self) -> bool:
        """Whether nobody challenged."""
        return self.first.alone

    def figure(self, shown: Shown) -> SeededFigure:
        """Return one of the figures."""
        return self.figures[SHOWN.index(shown)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Two experiments, and which of their runs and papers are held against each other."""

    first: str
    second: str
    first_seeds: tuple[int, ...]
    second_seeds: tuple[int, ...]
    """The same, where both have two or more seeds in common; they are then drawn together."""
    num_items: int

    @property
    def paired(self) -> bool:
        """Whether both were trained under the same seeds."""
        return self.first_seeds == self.second_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class CavingHeld:
    """Caving as a ratio of two means over seeds; `why` says what there is none for."""

    sides: Sides
    ratio: Estimate | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstHeld:
    """First answers less those where nobody challenged, as a difference of means over seeds."""

    sides: Sides
    difference: MeanDifference | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSeeds:
    """All that is said of experiments; empty where none has several seeds."""

    experiments: tuple[Seeded, ...]
    caving: tuple[CavingHeld, ...]
    firsts: tuple[FirstHeld, ...]
    notes: tuple[str, ...]
    """Runs that are left out, and why."""

    def folders(self) -> frozenset[Path]:
        """Return the folders of the runs that are spoken of."""
        return _folders(self.experiments)

    def held(self) -> frozenset[Path]:
        """Return the folders of the runs whose experiment's caving is held against another's."""
        names = {one.sides.first for one in self.caving if not one.why}
        return _folders([one for one in self.experiments if one.name in names])


def _folders(experiments: Iterable[Seeded]) -> frozenset[Path]:
    return frozenset(run.run.folder for one in experiments for run in one.by_seed.values())


def over_seeds(reads: Sequence[DebateRun], reference_reward: str) -> OverSeeds:
    """Put runs that differ by their seed alone together, and hold experiments against that of `reference_reward`."""
    experiments, notes = _experiments(reads)
    challenged = [one for one in experiments if not one.unchallenged]
    reference = next((one for one in challenged if one.reward == reference_reward), None)
    alone = next((one for one in experiments if one.unchallenged), None)
    return OverSeeds(
        experiments=experiments,
        caving=tuple(
            _caving_held(one, reference)
            for one in challenged
            if reference is not None and one is not reference
        ),
        firsts=tuple(_first_held(one, alone) for one in challenged if alone is not None),
        notes=notes,
    )


def _experiments(reads: Sequence[DebateRun]) -> tuple[tuple[Seeded, ...], tuple[str, ...]]:
    by_folder = {one.run.folder: one for one in reads}
    found: list[Seeded] = []
    notes: list[str] = []
    for name, alike in alike_but_for_seeds(one.run for one in reads):
        by_seed: dict[int, DebateRun] = {}
        left_out: list[str] = []
        for run in alike:
            read, seed = by_folder[run.folder], run.config.seed
            if seed is None or not read.talks.get(TEST):
                why = "its seed is not known" if seed is None else "it has no test"
            elif seed in by_seed:
                why = f"seed {seed} is there already, and the same seed is no new evidence"
            else:
                by_seed[seed] = read
                continue
            left_out.append(f"{run.folder.name} is left out of what is said over seeds: {why}.")
        notes += left_out if len(alike) > 1 else ()
        items = _items(by_seed.values()) if len(by_seed) > 1 else []
        if items and _one_gold_each(by_seed.values(), items):
            figures = tuple(_figure(by_seed.values(), shown) for shown in SHOWN)
            found.append(Seeded(name=name, by_seed=by_seed, num_items=len(items), figures=figures))
        elif len(by_seed) > 1:
            notes.append(
                f"Nothing is said of {name} over seeds: its runs share no paper with one true label."
            )
    return tuple(found), tuple(notes)


def _figure(reads: Iterable[DebateRun], shown: Shown) -> SeededFigure:
    runs = list(reads)
    items = _items(runs, shown.split)
    # Nobody revises who was not challenged: that is no finding.
    told = bool(items) and (shown is FIRST or not runs[0].alone)
    if not told or (shown.within and not _room_known(runs[0], shown.split)):
        return SeededFigure(shown=shown, by_seed=(None,) * len(runs), mean=None)
    shares = _shares(runs, items, shown)
    less = None if shown.less is None else _shares(runs, items, replace(shown, fate=shown.less))
    values = shares.by_seed() - (0.0 if less is None else less.by_seed())
    by_seed = tuple(None if math.isnan(value) else value for value in values.tolist())
    if None in by_seed:
        mean = None
    elif less is None:
        mean = shares.estimate(DRAWN)
    else:
        held = difference_of_means(shares, less, DRAWN, paired=True)
        mean = Estimate(held.value, held.interval)
    return SeededFigure(shown=shown, by_seed=by_seed, mean=mean)


def _sides(one: Seeded, other: Seeded) -> tuple[Sides, list[DebateRun], list[DebateRun], list[str]]:
    """Return what of two experiments is compared: seeds that both have, where these are several; else all."""
    common = tuple(seed for seed in one.seeds if seed in other.by_seed)
    seeds = (common, common) if len(common) > 1 else (one.seeds, other.seeds)
    runs = [[each.by_seed[s] for s in own] for each, own in zip((one, other), seeds, strict=True)]
    items = _items([*runs[0], *runs[1]])
    sides = Sides(
        first=one.name,
        second=other.name,
        first_seeds=seeds[0],
        second_seeds=seeds[1],
        num_items=len(items),
    )
    return sides, runs[0], runs[1], items


def _unlike(first: Sequence[DebateRun], second: Sequence[DebateRun], items: Sequence[str]) -> str:
    """Say why two experiments cannot be compared; empty where they can."""
    if len({run.run.config.data.fingerprint for run in (*first, *second)}) > 1:
        return "another slice"
    if not items:
        return "no paper in common"
    if not _one_gold_each([*first, *second], items):
        return "different true labels for the same papers"
    return ""


def _caving_held(one: Seeded, other: Seeded) -> CavingHeld:
    sides, first, second, items = _sides(one, other)
    why = _unlike(first, second, items)
    if not why and _challenge(first[0]) != _challenge(second[0]):
        why = "they were challenged in different ways"
    if why:
        return CavingHeld(sides=sides, ratio=None, why=why)
    mine, theirs = _shares(first, items, CAVING), _shares(second, items, CAVING)
    if math.isnan(mine.mean()) or math.isnan(theirs.mean()):
        return CavingHeld(sides=sides, ratio=None, why="under one seed no first answer is right")
    ratio = ratio_of_means(mine, theirs, DRAWN, paired=sides.paired)
    return CavingHeld(sides=sides, ratio=ratio, why="" if ratio else f"{other.name} never caves")


def _first_held(one: Seeded, alone: Seeded) -> FirstHeld:
    sides, first, second, items = _sides(one, alone)
    if why := _unlike(first, second, items):
        return FirstHeld(sides=sides, difference=None, why=why)
    mine, theirs = _shares(first, items, FIRST), _shares(second, items, FIRST)
    found = difference_of_means(mine, theirs, DRAWN, paired=sides.paired)
    return FirstHeld(sides=sides, difference=found)


def _challenge(one: DebateRun) -> dict[str, object]:
    told = one.run.config.challenge
    return {key: value for key, value in told.items() if key not in _TRAINING_ONLY}


def _items(reads: Iterable[DebateRun], split: str = TEST) -> list[str]:
    """Return the papers that all of them answered, in the order of their names."""
    asked = [{each.item for each in one.debated(split)} for one in reads]
    return sorted(set[str].intersection(*asked))


def _one_gold_each(reads: Iterable[DebateRun], items: Sequence[str]) -> bool:
    golds = [{each.item: each.gold for each in one.debated(TEST)} for one in reads]
    return all(len({each[item] for each in golds}) == 1 for item in items)


def _room_known(one: DebateRun, split: str) -> bool:
    return all(each.speaks_for is not None for each in one.debated(split))


def _shares(reads: Sequence[DebateRun], items: Sequence[str], shown: Shown) -> SeededShares:
    by_seed = [{each.item: each for each in one.debated(shown.split)} for one in reads]
    first = [by_seed[0][item] for item in items]
    golds = sorted({one.gold for one in first})
    return SeededShares.of(
        [golds.index(one.gold) for one in first],
        [[shown.fate(each[item]) for item in items] for each in by_seed],
        held_against=shown.signed,
        rooms=[one.speaks_for or 0 for one in first] if shown.within else None,
    )
