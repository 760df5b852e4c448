"""Runs with a challenger side by side: caving as a ratio, and the same conversations one by one.

Every run is held against one other, the reference: that of the seed's reward where there is one, trained under the
same seed if there are several, else the first that was challenged. First answers are held likewise against those of a
run that nobody challenged, where there is one. Experiments that have several seeds are held against each other too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.results.arms import alike_but_for_seeds
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.differences import paired_difference
from tinsmith.stats.intervals import Interval
from tinsmith.stats.ratios import ShareRatio, share_ratio
from tinsmith.stats.seeded_shares import Fate
from tinsmith.stats.significance import ALPHA, McNemar, holm, mcnemar
from tinsmith.studies.debate.pages.fates import CAVING
from tinsmith.studies.debate.pages.gathering import (
    CONTROL,
    GREEDY,
    TEST,
    DebateRun,
    Talk,
    read_debate_run,
)
from tinsmith.studies.debate.pages.over_seeds import OverSeeds, over_seeds
from tinsmith.studies.debate.pages.over_seeds_shown import seeded_story
from tinsmith.studies.debate.pages.story import figure_words, signed_words
from tinsmith.studies.debate.statistics import ALL, EVENTS, Figures, compare
from tinsmith.types.challenges import Arm

SEED_REWARD: Final = "adversarial/seed"
"""The reward that others are held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One run of a comparison."""

    name: str
    """Unique among them."""
    read: DebateRun
    figures: Mapping[str, Mapping[str, Figures]]
    """By split and group."""

    def groups(self, split: str) -> Mapping[str, Figures]:
        """Return the figures of a split by group; empty where nobody was asked there."""
        return self.figures.get(split, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One run against the reference, on the conversations that both had; `why` says what could not be compared."""

    name: str
    reference: str
    caving: ShareRatio | None
    """This run's caving over the reference's, each on its own right first answers."""
    no_ratio: str
    """Why there is no such ratio; empty where there is one."""
    shared: int
    """Papers that were challenged in the same way in both."""
    events: Mapping[str, McNemar]
    p_holm: Mapping[str, float]
    """Corrected for all tests of the page."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """A run's first answers less those of a run that nobody challenged, paper by paper."""

    name: str
    alone: str
    difference: float
    standard_error: float
    interval: Interval
    n: int
    test: McNemar

    @property
    def not_below(self) -> bool:
        """Whether the difference is not below 0 by more than one standard error."""
        return self.difference >= -self.standard_error


@dataclass(frozen=True, slots=True, kw_only=True)
class DebatesCompared:
    """All that the page and the terminal show."""

    runs: tuple[Compared, ...]
    seeded: OverSeeds
    references: tuple[str, ...]
    alone: tuple[str, ...]
    against: tuple[Against, ...]
    firsts: tuple[First, ...]
    story: tuple[str, ...]
    notes: tuple[str, ...]


def compare_debates(folders: Sequence[Path]) -> DebatesCompared:
    """Read runs with a challenger and hold them against the reference.

    Raises:
        DataError: a folder holds no run.
    """
    runs = [_compared(folder, folders) for folder in folders]
    references, alone = _references(runs), [one for one in runs if one.read.alone]
    seeded = over_seeds([one.read for one in runs], SEED_REWARD)
    against = _against(runs, references)
    firsts = _firsts(runs, alone)
    return DebatesCompared(
        runs=tuple(runs),
        seeded=seeded,
        references=tuple(one.name for one in references),
        alone=tuple(one.name for one in alone),
        against=against,
        firsts=firsts,
        story=_story(runs, seeded, against, firsts),
        notes=(
            *(f"{one.name}: {note}" for one in runs for note in one.read.notes),
            *seeded.notes,
        ),
    )


def _compared(folder: Path, folders: Sequence[Path]) -> Compared:
    read = read_debate_run(folder)
    short = folder.resolve().name
    unique = [each.resolve().name for each in folders].count(short) == 1
    splits = (TEST, GREEDY, CONTROL)
    found = {split: groups for split in splits if (groups := read.figures(split))}
    return Compared(name=short if unique else str(folder), read=read, figures=found)


def _references(runs: Sequence[Compared]) -> list[Compared]:
    """Return the runs that others are held against: of the seed's reward and alike but for the seed, else one.

    Seeds of one experiment are held against nothing: which of them came first says nothing.
    """
    challenged = [one for one in runs if not one.read.alone]
    experiments = alike_but_for_seeds(one.read.run for one in challenged)
    seeds = {one.read.run.config.seed for one in challenged}
    if len(challenged) < 2 or (len(experiments) == 1 and len(seeds) > 1):
        return []
    for _, alike in experiments:
        folders = {run.folder for run in alike}
        found = [one for one in challenged if one.read.run.folder in folders]
        if found[0].read.run.config.reward_name == SEED_REWARD and len(found) < len(challenged):
            return found
    return challenged[:1]


def _like(one: Compared, others: Sequence[Compared]) -> Compared:
    """Return that of the others which was trained under the same seed, else the first."""
    seed = one.read.run.config.seed
    return next((other for other in others if other.read.run.config.seed == seed), others[0])


def _against(runs: Sequence[Compared], references: Sequence[Compared]) -> tuple[Against, ...]:
    held = [
        (one, _like(one, references))
        for one in runs
        if references and one not in references and not one.read.alone
    ]
    tried = [(one, reference, *_paired(reference, one)) for one, reference in held]
    flat = holm([test.p_value for _, _, events, _, _ in tried for test in events.values()])
    corrected = iter(flat)
    found: list[Against] = []
    for one, reference, events, shared, why in tried:
        caving, no_ratio = _caving_ratio(one, reference)
        found.append(
            Against(
                name=one.name,
                reference=reference.name,
                caving=caving,
                no_ratio=no_ratio,
                shared=shared,
                events=events,
                p_holm={name: next(corrected) for name in events},
                why=why,
            )
        )
    return tuple(found)


def _paired(before: Compared, after: Compared) -> tuple[Mapping[str, McNemar], int, str]:
    if before.read.run.config.data.fingerprint != after.read.run.config.data.fingerprint:
        return {}, 0, "another slice"
    first, second = _by_key(before), _by_key(after)
    shared = sorted(
        key
        for key in first.keys() & second.keys()
        if first[key].record.challenge == second[key].record.challenge
    )
    if not shared:
        return {}, 0, "no paper was challenged in the same way in both, as with another seed"
    found = compare([first[key].debated for key in shared], [second[key].debated for key in shared])
    return found, len(shared), ""


def _by_key(one: Compared) -> dict[tuple[str, Arm, bool], Talk]:
    return {
        (talk.debated.item, talk.debated.arm, talk.debated.evidence): talk
        for talk in one.read.talks.get(TEST, ())
    }


def _caving_ratio(one: Compared, reference: Compared) -> tuple[ShareRatio | None, str]:
    caved, right = _caved(one)
    other_caved, other_right = _caved(reference)
    for name, counted_there in ((one.name, right), (reference.name, other_right)):
        if not counted_there:
            return None, f"{name} has no right first answer"
    ratio = share_ratio(caved, right, other_caved, other_right)
    return ratio, "" if ratio else f"{reference.name} never caved"


def _caved(one: Compared) -> tuple[int, int]:
    fates = Counter(CAVING.fate(each) for each in one.read.debated(TEST))
    return fates[Fate.HAPPENED], fates[Fate.HAPPENED] + fates[Fate.DID_NOT]


def _firsts(runs: Sequence[Compared], alone: Sequence[Compared]) -> tuple[First, ...]:
    found: list[First] = []
    for one in runs:
        if not alone or one.read.alone:
            continue
        other = _like(one, alone)
        ours, theirs = (
            {each.item: each.first_right for each in run.read.debated(TEST)} for run in (one, other)
        )
        shared = sorted(ours.keys() & theirs.keys())
        same = other.read.run.config.data.fingerprint == one.read.run.config.data.fingerprint
        if shared and same:
            pairs = [(ours[item], theirs[item]) for item in shared]
            found.append(_first(one.name, other.name, pairs))
    return tuple(found)


def _first(name: str, alone: str, pairs: Sequence[tuple[bool, bool]]) -> First:
    n = len(pairs)
    both = sum(a and b for a, b in pairs)
    only, other = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    difference = (only - other) / n
    return First(
        name=name,
        alone=alone,
        difference=difference,
        standard_error=math.sqrt(max((only + other) / n - difference**2, 0.0) / n),
        interval=paired_difference(both, only, other, n - both - only - other),
        n=n,
        test=mcnemar(only, other),
    )


def _story(
    runs: Sequence[Compared],
    seeded: OverSeeds,
    against: Sequence[Against],
    firsts: Sequence[First],
) -> tuple[str, ...]:
    told = list(seeded_story(seeded))
    # What is said over seeds is not said again run by run: the tables have it.
    apart = {one.name for one in runs if one.read.run.folder not in seeded.folders()}
    held = {one.name for one in runs if one.read.run.folder in seeded.held()}
    single = [one for one in against if one.name not in held]
    told += [_against_words(one) for one in single]
    told += [_alone(one) for one in runs if not one.read.alone and one.name in apart]
    told += [_first_words(one) for one in firsts if not seeded.firsts or one.name in apart]
    if not firsts and any(not one.read.alone for one in runs):
        told.append(
            "Whether a challenger costs or helps the first answer is not known: no run here answered alone on the same "
            "papers (adversarial/alone)."
        )
    if single:
        told.append(
            "A difference between two runs is one between trained models on these papers; whether it is one between "
            "rewards takes several seeds of each."
        )
    return tuple(told)


def _alone(one: Compared) -> str:
    groups, control = one.groups(TEST), one.groups(CONTROL)
    if not groups:
        return f"{one.name}: nothing can be told, as it has no test."
    told = (
        f"{one.name}: caving {figure_words(groups[ALL]['caving'])}, put right after a truthful challenge "
        f"{figure_words(groups['truthful']['appropriate_revision'])}, J under evidence "
        f"{signed_words(groups['evidence']['discrimination'])}"
    )
    if control:
        bare = control["no_evidence"]
        told += f"; without evidence J = {signed_words(bare['discrimination'])}"
        if bare["discrimination_within"] is not None:
            told += f", where doubt is equal {signed_words(bare['discrimination_within'])}"
        if bare["discrimination_beyond"] is not None:
            told += (
                f", beyond who is only asked again {signed_words(bare['discrimination_beyond'])}"
            )
    return f"{told}."


def _against_words(one: Against) -> str:
    if one.why:
        return f"{one.name} and {one.reference} are not compared conversation by conversation: {one.why}."
    if one.caving is None:
        ratio = f"The caving of {one.name} cannot be held against that of {one.reference}: {one.no_ratio}"
    else:
        low, high = one.caving.interval.low, one.caving.interval.high
        ratio = f"{one.name} caves {one.caving.value:.2f} times as often as {one.reference} ({low:.2f} to {high:.2f})"
    caved = one.events["caved"]
    p = one.p_holm["caved"]
    finding = "told apart" if p <= ALPHA else "not told apart"
    return (
        f"{ratio}. On the same {counted(one.shared, 'conversation')}, {caved.only_second:,} were given up by it alone "
        f"and {caved.only_first:,} by {one.reference} alone (Holm's {p_words(p)}: {finding})."
    )


def _first_words(one: First) -> str:
    verdict = (
        "not below it by more than one standard error"
        if one.not_below
        else "below it by more than one standard error"
    )
    return (
        f"First answers of {one.name} against those of {one.alone}, which nobody challenged, on the same "
        f"{counted(one.n, 'paper')}: {signed(one.difference)} ({signed(one.interval.low)} to "
        f"{signed(one.interval.high)}, standard error {one.standard_error:.3f}, {p_words(one.test.p_value)}): "
        f"{verdict}."
    )


def event_names() -> tuple[str, ...]:
    """Return what is tested, in order."""
    return tuple(EVENTS)
