"""Experiments under challenge over their seeds: means, caving as a ratio of two, first answers against unchallenged.

One run is one trained model; what is said here is said of an experiment, over the seeds and papers that its runs have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from tinsmith.lab.results.arms import alike_but_for_seeds
from tinsmith.stats.estimates import Bootstrap, Estimate
from tinsmith.stats.seeded_shares import Fate, MeanDifference, SeededShares, difference_of_means, ratio_of_means
from tinsmith.studies.debate.pages.gathering import CONTROL, TEST, DebateRun
from tinsmith.studies.debate.statistics import ALL, CAVING, FIRST, GROUPS, LAST, PUT_RIGHT, Debated, J, Share

DRAWN: Final = Bootstrap()

F = TypeVar("F", bound=Estimate | MeanDifference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A figure that is shown over seeds, of one group of conversations."""

    words: str
    under: str = ""
    share: Share
    group: str = ALL
    split: str = TEST
    within: bool = False
    """Compared among papers that leave as much room for doubt."""
    less: str = ""
    """The group whose figure is taken from this one."""

    @property
    def signed(self) -> bool:
        """Whether it may be below 0."""
        return self.share.less is not None

    def fate(self, one: Debated) -> Fate:
        """Return what a conversation adds to it."""
        return self.share.fate(one) if GROUPS[self.group](one) else Fate.UNCOUNTED


SHOWN_FIRST: Final = Shown(words="first right", share=FIRST)
SHOWN_CAVING: Final = Shown(words="caving", under="right, then wrong", share=CAVING)
SHOWN_PUT_RIGHT: Final = Shown(words="put right", under="told the truth", share=PUT_RIGHT, group="truthful")
BARE: Final = Shown(words="J", under="bare label", share=J, group="no_evidence", split=CONTROL)
BEYOND: Final = replace(BARE, words="J beyond", less="null")
SHOWN: Final = (
    SHOWN_FIRST,
    Shown(words="last right", share=LAST),
    SHOWN_CAVING,
    SHOWN_PUT_RIGHT,
    Shown(words="J", under="with words", share=J, group="evidence"),
    BARE,
    replace(BARE, words="J within", within=True),
    BEYOND,
)


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

    def figure(self, shown: Shown) -> SeededFigure:
        """Return one of the figures."""
        return self.figures[SHOWN.index(shown)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Generic[F]):
    """One experiment held against another, over some of their seeds and papers; without `found`, `why` says why."""

    first: str
    second: str
    first_seeds: tuple[int, ...]
    second_seeds: tuple[int, ...]
    """The same, where both have two or more seeds in common; they are then drawn together."""
    num_items: int
    found: F | None
    why: str = ""

    @property
    def paired(self) -> bool:
        """Whether both were trained under the same seeds."""
        return self.first_seeds == self.second_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSeeds:
    """All that is said of experiments; empty where none has several seeds."""

    experiments: tuple[Seeded, ...]
    caving: tuple[Held[Estimate], ...]
    """Caving as a ratio of two means over seeds."""
    firsts: tuple[Held[MeanDifference], ...]
    """First answers less those where nobody challenged, as a difference of means over seeds."""
    notes: tuple[str, ...]
    """Runs that are left out, and why."""

    def folders(self, names: Iterable[str] | None = None) -> frozenset[Path]:
        """Return the folders of the runs of some experiments, of all that are spoken of by default."""
        chosen = [one for one in self.experiments if names is None or one.name in names]
        return frozenset(run.run.folder for one in chosen for run in one.by_seed.values())


def over_seeds(reads: Sequence[DebateRun], reference_reward: str) -> OverSeeds:
    """Put runs that differ by their seed alone together, and hold experiments against that of `reference_reward`."""
    experiments, notes = _experiments(reads)
    challenged = [one for one in experiments if not one.first.alone]
    rewarded = [one for one in challenged if one.first.run.config.reward_name == reference_reward]
    return OverSeeds(
        experiments=experiments,
        caving=tuple(
            _held(one, other, SHOWN_CAVING, ratio_of_means)
            for other in rewarded[:1]
            for one in challenged
            if one is not other
        ),
        firsts=tuple(
            _held(one, alone, SHOWN_FIRST, difference_of_means)
            for alone in [one for one in experiments if one.first.alone][:1]
            for one in challenged
        ),
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
        runs = list(by_seed.values())
        items = _items(runs) if len(runs) > 1 else []
        if items and _one_gold_each(runs, items):
            figures = tuple(_figure(runs, shown) for shown in SHOWN)
            found.append(Seeded(name=name, by_seed=by_seed, num_items=len(items), figures=figures))
        elif len(runs) > 1:
            notes.append(f"Nothing is said of {name} over seeds: its runs share no paper with one true label.")
    return tuple(found), tuple(notes)


def _figure(runs: Sequence[DebateRun], shown: Shown) -> SeededFigure:
    items = _items(runs, shown.split)
    # Nobody revises who was not challenged: that is no finding.
    told = bool(items) and (shown is SHOWN_FIRST or not runs[0].alone)
    unknown = any(one.speaks_for is None for one in runs[0].debated(shown.split))
    if not told or (shown.within and unknown):
        return SeededFigure(shown=shown, by_seed=(None,) * len(runs), mean=None)
    shares = _shares(runs, items, shown)
    less = _shares(runs, items, replace(shown, group=shown.less)) if shown.less else None
    values = shares.by_seed() - (0.0 if less is None else less.by_seed())
    by_seed = tuple(None if math.isnan(value) else value for value in values.tolist())
    mean = None
    if None not in by_seed and less is None:
        mean = shares.estimate(DRAWN)
    elif None not in by_seed and less is not None:
        held = difference_of_means(shares, less, DRAWN, paired=True)
        mean = Estimate(held.value, held.interval)
    return SeededFigure(shown=shown, by_seed=by_seed, mean=mean)


def _held(one: Seeded, other: Seeded, shown: Shown, reckon: Callable[..., F | None]) -> Held[F]:
    """Compare seeds that both have, where these are several; else all."""
    common = tuple(seed for seed in one.seeds if seed in other.by_seed)
    seeds = (common, common) if len(common) > 1 else (one.seeds, other.seeds)
    mine, theirs = [one.by_seed[s] for s in seeds[0]], [other.by_seed[s] for s in seeds[1]]
    runs = [*mine, *theirs]
    items = _items(runs)
    found, why = None, ""
    if len({run.run.config.data.fingerprint for run in runs}) > 1:
        why = "another slice"
    elif not items:
        why = "no paper in common"
    elif not _one_gold_each(runs, items):
        why = "different true labels for the same papers"
    elif shown is SHOWN_CAVING and _challenge(mine[0]) != _challenge(theirs[0]):
        why = "they were challenged in different ways"
    else:
        paired = seeds[0] == seeds[1]
        shares = _shares(mine, items, shown), _shares(theirs, items, shown)
        if any(math.isnan(one.mean()) for one in shares):
            why = "under one seed no first answer is right"
        else:
            found = reckon(*shares, DRAWN, paired=paired)
            why = "" if found else f"{other.name} never caves"
    return Held(
        first=one.name,
        second=other.name,
        first_seeds=seeds[0],
        second_seeds=seeds[1],
        num_items=len(items),
        found=found,
        why=why,
    )


def _challenge(one: DebateRun) -> dict[str, object]:
    """Return what is known of the challenger but for `forks`, which no test depends on."""
    return {key: value for key, value in one.challenge.items() if key != "forks"}


def _items(reads: Iterable[DebateRun], split: str = TEST) -> list[str]:
    """Return the papers that all of them answered, in the order of their names."""
    asked = [{each.item for each in one.debated(split)} for one in reads]
    return sorted(set[str].intersection(*asked))


def _one_gold_each(reads: Iterable[DebateRun], items: Sequence[str]) -> bool:
    golds = [{each.item: each.gold for each in one.debated(TEST)} for one in reads]
    return all(len({each[item] for each in golds}) == 1 for item in items)


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
