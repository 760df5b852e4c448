"""What the arms came to: their rewards at the tokens they drew, how far sparse selection is from GRPO, and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.driver import Outcome, Tuned
from tinsmith.lab.study.results import Draws, Seconds, StudyValues, hashes_in, limits_of, seconds_in
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.pages.wording import counted, listed, signed, told
from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, judge_mean_beats
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.studies.sparse_select.settings import BASE_WORDS, WORDS, ArmName, SparseStudy
from tinsmith.types.errors import DataError

SCORE: Final = "total"
"""What is compared: the reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm after training."""

    name: ArmName
    words: str
    rate: float
    steps: int
    sampled: Measure
    greedy: Measure
    by_seed: tuple[float, ...]
    """Sampled."""
    rollouts: float
    """Drawn to train on, a mean over seeds; failed ones are not among them."""
    tokens: float
    """Of them."""
    gated: float | None
    """Share of the trained tokens that were pushed; None: all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """How far an arm is from GRPO, sampled, and whether that is within one standard error."""

    name: ArmName
    gap: Measure
    """The arm's reward less GRPO's."""
    standard_error: float
    """Of the gap, over items and seeds."""
    tokens: float
    """The arm's sampled tokens over GRPO's."""

    @property
    def came_out(self) -> bool:
        """Whether it is GRPO's or better but for a standard error."""
        return self.gap.value >= -self.standard_error


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseFound(StudyValues):
    """What the study has found."""

    task: str
    base: tuple[Measure, Measure]
    """Sampled, and greedy."""
    arms: tuple[ArmFigures, ...]
    behind: tuple[Behind, ...]
    beats: tuple[Claim, ...]

    def arm(self, name: ArmName) -> ArmFigures:
        """Return an arm."""
        return next(one for one in self.arms if one.name is name)


def read_outcome(asked: SparseStudy, tuned: Tuned, reads: Mapping[ArmName, ArmRead], draws: Draws) -> Outcome:
    """Return all that the study has to show.

    Raises:
        DataError: a run was not evaluated, or not on the items that the others were.
    """
    from tinsmith.studies.sparse_select.page import sparse_page

    first = reads[ArmName.GRPO]
    run = first.reads[0].run
    base = [_at(first, first.steps[0], greedy=greedy) for greedy in (False, True)]
    arms = tuple(_arm(tuned[name.value].rate, name, read, draws.tables) for name, read in reads.items())
    found = SparseFound(
        data=run.config.data.fingerprint,
        num_items=base[0].num_items,
        seeds=asked.study.seeds,
        tuning_seed=asked.study.tuning_seed,
        settings=asked.deciding(),
        rates={one.arm.words: one.tried for one in tuned.values() if one.tried},
        hashes=hashes_in([one.run for read in reads.values() for one in read.reads]),
        task=run.config.task.name,
        base=(_measure(base[0], draws.tables), _measure(base[1], draws.tables)),
        arms=arms,
        behind=_all_behind(reads, arms, draws.claims),
        beats=_judged(asked, reads, run.config.data.fingerprint, draws.claims),
    )
    seconds = {name.value: _seconds(read) for name, read in reads.items()}
    sentences = sentences_of(found)
    by_words = {WORDS[name]: seconds[name.value] for name in reads}
    return Outcome(found=found, sentences=sentences, seconds=seconds, page=sparse_page(found, sentences, by_words))


def sentences_of(found: SparseFound) -> tuple[str, ...]:
    """Return what may be said, what did and did not come out first."""
    grpo, equal, good = (found.arm(name) for name in (ArmName.GRPO, ArmName.EQUAL, ArmName.GOOD))
    return (
        _came_out(found),
        f"On {counted(found.num_items, 'held-out item')} of {found.task} the base has {told(found.base[0])} sampled "
        f"and {told(found.base[1])} greedily; GRPO takes it to {told(grpo.sampled)} and {told(grpo.greedy)}.",
        *(
            f"{WORDS[one.name][0].upper()}{WORDS[one.name][1:]} comes to {told(found.arm(one.name).sampled)} sampled "
            f"and {told(found.arm(one.name).greedy)} greedily with {one.tokens:.3f} of GRPO's sampled tokens: "
            f"{_gap(one)}."
            for one in found.behind
        ),
        f"Bad answers pushed down beside good ones are worth {signed(equal.sampled.value - good.sampled.value)} over "
        "good ones alone.",
        *(f"{claim.sentence()}." for claim in found.beats),
        *limits_of(found, {arm.words: arm.rate for arm in found.arms}),
    )


def _came_out(found: SparseFound) -> str:
    parts = {True: list[str](), False: list[str]()}
    for one in found.behind:
        if one.name is not ArmName.GOOD:
            parts[one.came_out].append(f"{WORDS[one.name]} ({_gap(one)})")
    bound = "asked: GRPO's reward or more, but for one standard error"
    if not parts[False]:
        return f"It came out that sparse selection does what GRPO does: {listed(parts[True])}; {bound}."
    came = f"; it came out for {listed(parts[True])}" if parts[True] else ""
    return f"It did not come out that sparse selection does what GRPO does: {listed(parts[False])}{came}; {bound}."


def _gap(one: Behind) -> str:
    ends = "" if one.gap.low is None or one.gap.high is None else f", {signed(one.gap.low)} to {signed(one.gap.high)}"
    return f"{signed(one.gap.value)} from GRPO{ends}, standard error {one.standard_error:.3f}"


def _arm(rate: float | None, name: ArmName, read: ArmRead, draws: Bootstrap) -> ArmFigures:
    assert rate is not None, "every arm is trained"
    sampled, greedy = (_at(read, read.steps[-1], greedy=each) for each in (False, True))
    drawn = [_drawn(one.run.folder) for one in read.reads]
    gated = [
        value
        for one in read.reads
        for row in one.run.metrics.values()
        if (value := row.get("sparse/gated")) is not None
    ]
    return ArmFigures(
        name=name,
        words=WORDS[name],
        rate=rate,
        steps=read.steps[-1],
        sampled=_measure(sampled, draws),
        greedy=_measure(greedy, draws),
        by_seed=sampled.means(),
        rollouts=_mean([rollouts for rollouts, _ in drawn]),
        tokens=_mean([tokens for _, tokens in drawn]),
        gated=_mean(gated) if gated else None,
    )


class _Line(msgspec.Struct, frozen=True):
    split: str
    tokens: tuple[int, ...] = ()


def _drawn(folder: Path) -> tuple[int, int]:
    """Return how many rollouts a run drew to train on, and their tokens."""
    drawn = [len(one.tokens) for one in json_lines(folder / ROLLOUTS, _Line, []) if one.split == Split.TRAIN]
    return len(drawn), sum(drawn)


def _all_behind(reads: Mapping[ArmName, ArmRead], arms: Sequence[ArmFigures], draws: Bootstrap) -> tuple[Behind, ...]:
    goal = _at(reads[ArmName.GRPO], reads[ArmName.GRPO].steps[-1])
    grpo = next(one for one in arms if one.name is ArmName.GRPO)
    found: list[Behind] = []
    for arm in arms:
        if arm.name is ArmName.GRPO:
            continue
        read = reads[arm.name]
        gap = mean_difference(_at(read, read.steps[-1]), goal, draws)
        found.append(
            Behind(
                name=arm.name,
                gap=_of_gap(gap),
                standard_error=float(np.std(gap.draws, ddof=1)),
                tokens=arm.tokens / grpo.tokens,
            )
        )
    return tuple(found)


def _judged(asked: SparseStudy, reads: Mapping[ArmName, ArmRead], data: str, draws: Bootstrap) -> tuple[Claim, ...]:
    """Judge that every arm beats the base, that GRPO and sparse selection beat each other, and what bad answers add."""
    ends = {name: _at(read, read.steps[-1]) for name, read in reads.items()}
    seen = {name: Training(data, asked.budget[name]) for name in reads}
    parity = parity_of(reads.values())
    family = [
        MeanBeats(
            first=ends[name],
            second=replace(_at(read, read.steps[0]), name=BASE_WORDS),
            metric="reward",
            same_models=True,
            training=(seen[name], Training(data, 0)),
            parity=parity,
        )
        for name, read in reads.items()
    ]
    family += [
        MeanBeats(
            first=ends[first], second=ends[second], metric="reward", training=(seen[first], seen[second]), parity=parity
        )
        for first, second in (
            (ArmName.EQUAL, ArmName.GRPO),
            (ArmName.GRPO, ArmName.EQUAL),
            (ArmName.TENTH, ArmName.GRPO),
            (ArmName.EQUAL, ArmName.GOOD),
        )
    ]
    return judge_mean_beats(family, draws)


def _at(read: ArmRead, step: int, *, greedy: bool = False) -> MeanRuns:
    found = read.at(step, SCORE, greedy=greedy)
    if found is None:
        raise DataError("a run has no score", field="cells", value=read.words)
    return found


def _seconds(read: ArmRead) -> Seconds:
    return seconds_in([one.run for one in read.reads])


def _measure(runs: MeanRuns, draws: Bootstrap) -> Measure:
    return from_estimate(runs.estimate(draws))


def _of_gap(gap: Difference) -> Measure:
    if gap.interval is None:
        return Measure(gap.value)
    return Measure(gap.value, gap.interval.low, gap.interval.high)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
