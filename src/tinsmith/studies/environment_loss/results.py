"""What a study of the loss on the environment's answers has found, as values: speed, foresight, boredom, claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.lab.study.signs import Sign
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, MeanLearned, judge_mean_beats, judge_mean_learned
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.stats.sign_flips import sign_flip_p
from tinsmith.studies.environment_loss.reading import Course
from tinsmith.studies.environment_loss.settings import ADVISED, ARMS, CONTROL, HIGH, NONE
from tinsmith.types.errors import DataError

RIGHT: Final = "metric/right"
FASTER: Final = 1.5
"""How many times fewer steps to one half the published weight is to need."""
WORDS: Final = {arm.name: arm.words for arm in ARMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One arm."""

    arm: str
    before: Measure
    after: Measure
    """Success on held-out errands, sampled."""
    to_half: tuple[int | None, ...]
    """Steps until half of the conversations succeed, one a seed; None: never within the run."""
    steps: int
    """Of a run: what `never` is counted as."""
    nll_first: tuple[float, ...]
    nll_last: tuple[float, ...]
    """Nats a token of what the environment answers in the model's own conversations, one a seed."""
    entropy_first: float | None
    entropy_last: float | None
    different_first: float | None
    different_last: float | None
    """Means over seeds; None: too few steps."""
    alarms: tuple[int | None, ...]
    """The step of the boredom alarm, one a seed."""

    @property
    def steps_needed(self) -> tuple[int, ...]:
        """Steps to one half; what never came to it has at least those of the run."""
        return tuple(self.steps if one is None else one for one in self.to_half)

    @property
    def reached(self) -> int:
        """Seeds that came to one half."""
        return sum(one is not None for one in self.to_half)

    @property
    def nll_fell(self) -> float:
        """How many nats a token less there are at the end, a mean over seeds."""
        gaps = [first - last for first, last in zip(self.nll_first, self.nll_last, strict=True)]
        return _mean(gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFound(StudyValues):
    """What the study has found."""

    arms: tuple[Weighed, ...]
    signs: tuple[Sign, ...]
    control_flat: bool
    """Whether the control foresees no more at its end, and is no faster than no weight at all."""
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]

    def arm(self, name: str) -> Weighed:
        """Return an arm by its name."""
        return next(one for one in self.arms if one.arm == name)


def speed(slow: Weighed, fast: Weighed) -> tuple[float, float]:
    """Return how many times fewer steps the second needs, of the sums over seeds, and p of flips over the seeds."""
    pairs = list(zip(slow.steps_needed, fast.steps_needed, strict=True))
    ratio = sum(one for one, _ in pairs) / sum(other for _, other in pairs)
    return ratio, sign_flip_p([one - other for one, other in pairs])


def weighed(name: str, read: ArmRead, runs: Sequence[Course], draws: Draws) -> Weighed:
    """Return one arm.

    Raises:
        DataError: it was not evaluated before and after.
    """
    bored = [one.bored for one in runs if one.bored is not None]
    return Weighed(
        arm=name,
        before=from_estimate(_at(read, read.steps[0]).estimate(draws.tables)),
        after=from_estimate(_at(read, read.steps[-1]).estimate(draws.tables)),
        to_half=tuple(one.to_half for one in runs),
        steps=len(runs[0].success),
        nll_first=tuple(one.nll_first for one in runs),
        nll_last=tuple(one.nll_last for one in runs),
        entropy_first=_mean_of([one.entropy_first for one in bored]),
        entropy_last=_mean_of([one.entropy_last for one in bored]),
        different_first=_mean_of([one.different_first for one in bored]),
        different_last=_mean_of([one.different_last for one in bored]),
        alarms=tuple(None if one.bored is None else one.bored.alarm for one in runs),
    )


def found_of(values: StudyValues, arms: Sequence[Weighed]) -> LossFound:
    """Return the values with the four signs of arXiv:2605.24517 and the control; claims are judged from them."""
    shared = {name: getattr(values, name) for name in values.__dataclass_fields__}
    by_name = {one.arm: one for one in arms}
    none, advised, control = by_name[NONE], by_name[ADVISED], by_name[CONTROL]
    ratio, p_value = speed(none, control)
    return LossFound(
        **shared,
        arms=tuple(arms),
        signs=(_faster(none, advised), _higher(none, advised), _foresees(none, advised), _bores(none, by_name[HIGH])),
        control_flat=control.nll_fell <= max(0.0, none.nll_fell) and not (ratio > 1.0 and p_value < 0.05),
        beats=(),
        learned=(),
    )


def _faster(none: Weighed, advised: Weighed) -> Sign:
    ratio, p_value = speed(none, advised)
    seeds = len(none.to_half)
    return Sign(
        expected=f"lambda = 0.05 comes to one half in {FASTER} times fewer steps than 0",
        came_out=ratio >= FASTER and advised.reached > 0,
        told=f"{ratio:.2f} times, p = {p_value:.2g}; {none.reached} and {advised.reached} of {seeds} came to it",
    )


def _higher(none: Weighed, advised: Weighed) -> Sign:
    return Sign(
        expected="lambda = 0.05 ends with more success than 0",
        came_out=advised.after.value > none.after.value,
        told=f"{advised.after.value:.3f} beside {none.after.value:.3f}",
    )


def _foresees(none: Weighed, advised: Weighed) -> Sign:
    return Sign(
        expected="lambda = 0.05 foresees what the environment answers better at its end, and 0 less so",
        came_out=advised.nll_fell > max(0.0, none.nll_fell),
        told=f"{advised.nll_fell:+.2f} nats a token less, {none.nll_fell:+.2f} at 0",
    )


def _bores(none: Weighed, high: Weighed) -> Sign:
    """Return whether the loss bores; what bores without it too is not its doing."""
    raised, beside = (sum(step is not None for step in one.alarms) for one in (high, none))
    told = f"alarms in {raised} of {len(high.alarms)} runs, in {beside} at 0"
    if None not in (high.entropy_first, high.entropy_last, none.entropy_last):
        told += (
            f"; entropy of answers {high.entropy_first:.2f} to {high.entropy_last:.2f}, {none.entropy_last:.2f} at 0"
        )
    return Sign(
        expected="lambda = 0.2 bores: the alarm is raised in more runs than at 0", came_out=raised > beside, told=told
    )


def with_claims(found: LossFound, reads: Mapping[str, ArmRead], seen: int, draws: Draws) -> LossFound:
    """Return the values with what the gate says of success on held-out errands."""
    trained = Training(found.data, seen)
    ends = {name: replace(_at(read, read.steps[-1]), name=WORDS[name]) for name, read in reads.items()}
    parity = parity_of(reads.values())
    # The control's errands are those of the others in another shell: its training is on other data.
    data = {name: read.reads[0].run.config.data.fingerprint for name, read in reads.items()}
    beats = [
        MeanBeats(
            first=ends[name],
            second=ends[NONE],
            metric="success",
            training=(Training(data[name], seen), trained),
            parity=parity,
        )
        for name in reads
        if name not in (NONE, CONTROL)
    ]
    read = reads[ADVISED]
    baselines = [read.baseline(one.name, RIGHT) for one in read.reads[0].task.baselines]
    learned = MeanLearned(
        system=ends[ADVISED],
        metric="success",
        before=_at(read, read.steps[0]),
        baselines=tuple(one for one in baselines if one is not None),
        control=ends[CONTROL],
        control_words="the same method in a shell whose answers are scrambled",
        parity=parity,
    )
    return replace(
        found, beats=judge_mean_beats(beats, draws.claims), learned=judge_mean_learned([learned], draws.claims)
    )


def _at(read: ArmRead, step: int) -> MeanRuns:
    values = read.at(step, RIGHT)
    if values is None:
        raise DataError("a run has no success", field="cells", value=read.words)
    return values


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean_of(values: Sequence[float]) -> float | None:
    return _mean(values) if values else None
