"""Runs on rubrics beside each other: what each gained, and pairs of them prompt by prompt where that can be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from tinsmith.lab.judge.pages.gains import BOOTSTRAP, Gains, best_constant, gain_words, gains_of, span
from tinsmith.lab.judge.pages.gathering import RubricRun, read_rubric_run
from tinsmith.lab.results.arms import alike_but_for_seeds
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.paired_means import PairedMeans, paired_means
from tinsmith.stats.significance import ALPHA, holm

_TOLD = 6
"""Most pairs that get a sentence; the table has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One run of a comparison."""

    name: str
    """Unique among them."""
    read: RubricRun
    gains: Gains


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs on the same prompts; `found` is None where they are not compared, and `why` says the reason."""

    first: str
    second: str
    found: PairedMeans | None
    """The last examinations, sampled: the second's mean minus the first's."""
    p_holm: float
    """Corrected for all pairs of the page."""
    why: str = ""

    @property
    def name(self) -> str:
        """What is subtracted from what."""
        return f"{self.second} minus {self.first}"

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0 and the corrected test refuses 0."""
        return self.found is not None and self.found.apart and self.p_holm <= ALPHA


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricsCompared:
    """All that the page and the terminal show."""

    runs: tuple[Compared, ...]
    pairs: tuple[Pair, ...]
    story: tuple[str, ...]
    notes: tuple[str, ...]


def compare_rubrics(folders: Sequence[Path]) -> RubricsCompared:
    """Read runs on rubrics and compare them in pairs."""
    short = [folder.resolve().name for folder in folders]
    runs: list[Compared] = []
    for folder, name in zip(folders, short, strict=True):
        read = read_rubric_run(folder)
        unique = str(folder) if short.count(name) > 1 else name
        runs.append(Compared(name=unique, read=read, gains=gains_of(read, best_constant(read))))
    pairs = _pairs(runs)
    return RubricsCompared(
        runs=tuple(runs),
        pairs=pairs,
        story=_story(runs, pairs),
        notes=tuple(f"{one.name}: {note}" for one in runs for note in one.read.notes),
    )


def _pairs(runs: Sequence[Compared]) -> tuple[Pair, ...]:
    tried = [(one, two, *_compare(one.read, two.read)) for one, two in combinations(runs, 2)]
    corrected = iter(holm([found.p_value for _, _, found, _ in tried if found is not None]))
    return tuple(
        Pair(first=one.name, second=two.name, found=found, p_holm=1.0 if found is None else next(corrected), why=why)
        for one, two, found, why in tried
    )


def _compare(one: RubricRun, two: RubricRun) -> tuple[PairedMeans | None, str]:
    if one.judge != two.judge:
        return None, "another judge measured each: the difference would be the judges' too"
    if not (one.held_out and two.held_out):
        return None, "the examined prompts of one of them are trained on"
    if not one.sampled or not two.sampled:
        return None, "one of them has no examination"
    shared = _shared(one, two)
    if not shared:
        return None, "they have no held-out prompt in common"
    first, second = (
        {prompt: rate for prompt, rate in run.sampled[-1].by_prompt.items() if prompt in shared} for run in (one, two)
    )
    return paired_means(first, second, BOOTSTRAP), ""


def _shared(one: RubricRun, two: RubricRun) -> set[str]:
    """Return the prompts that both were examined on: the same text and the same criteria, not the same name alone."""
    both = one.sampled[-1].rates.keys() & two.sampled[-1].rates.keys()
    fingerprint = one.run.config.data.fingerprint
    if fingerprint and fingerprint == two.run.config.data.fingerprint:
        return both
    asked = ({(task.task_id, task.prompt, task.criteria) for task in run.tasks.values()} for run in (one, two))
    return both & {prompt for prompt, _, _ in set[tuple[str, str, tuple[str, ...]]].intersection(*asked)}


def _story(runs: Sequence[Compared], pairs: Sequence[Pair]) -> tuple[str, ...]:
    told = [_alone(one) for one in runs] if len(runs) <= _TOLD else []
    told += _seeds(runs)
    told += [_pair(pair) for pair in pairs[:_TOLD] if pair.found is not None]
    if any(pair.found is not None for pair in pairs):
        told.append(
            "A difference is one between trained models on these prompts; whether it is one between recipes takes "
            "several seeds of each."
        )
    else:
        reasons = sorted({pair.why for pair in pairs})
        told.append(f"No pair is compared prompt by prompt: {'; '.join(reasons)}.")
    return tuple(told)


def _alone(one: Compared) -> str:
    found = one.gains.sampled
    if found is None:
        return f"{one.name}: nothing can be said about a gain, which takes two examinations."
    finding = "" if found.told_apart else "; these prompts do not show whether training changed anything"
    prompts = counted(found.n, "held-out prompt" if one.read.held_out else "prompt")
    return f"{one.name}: {found.first:.3f} to {found.second:.3f} on {prompts}, gain {gain_words(found)}{finding}."


def _pair(pair: Pair) -> str:
    found = pair.found
    assert found is not None
    finding = (
        f"{pair.second if found.gain > 0 else pair.first} passes more"
        if pair.told_apart
        else "they cannot be distinguished"
    )
    interval = f"95 % interval {span(found.interval)}, " if found.interval else ""
    return (
        f"{pair.name}, on the same {counted(found.n, 'prompt')}: {signed(found.gain)} "
        f"({interval}Holm's {p_words(pair.p_holm)}): {finding}."
    )


def _seeds(runs: Sequence[Compared]) -> list[str]:
    """Say how the gain varies over the seeds of one experiment."""
    found = {one.read.run.folder: one.gains.sampled for one in runs}
    told: list[str] = []
    judges = dict.fromkeys(one.read.judge for one in runs)
    by_judge = ([one.read.run for one in runs if one.read.judge == judge] for judge in judges)
    for _, group in (group for alike in by_judge for group in alike_but_for_seeds(alike)):
        gains = [gain.gain for run in group if (gain := found[run.folder]) is not None]
        if len(gains) > 1:
            told.append(
                f"Over {len(gains)} seeds of {group[0].config.title} alike in all else the gain is "
                f"{signed(sum(gains) / len(gains))} on average, from {signed(min(gains))} to {signed(max(gains))}."
            )
    return told
