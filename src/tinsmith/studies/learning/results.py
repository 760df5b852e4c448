"""What a study of learning has found, as values: each arm before and after, its gains, what it forgot, and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, MeanLearned, judge_mean_beats, judge_mean_learned
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.significance import holm
from tinsmith.studies.learning.keys import CONTROLS, TRAINED, WORDS, ArmName
from tinsmith.studies.learning.settings import Effort, LearningSettings

TOTAL: Final = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One measure of an arm on held-out items, before and after training: means over seeds and items."""

    name: str
    """`total`, a term of the reward, or `metric/NAME`."""
    greedy: bool
    before: Measure
    after: Measure
    gain: Measure
    """After less before, on the same items and of the same runs."""
    p_value: float
    p_holm: float
    """Corrected over the arms where it is the score, sampled; else over all other measures of all arms."""
    num_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The score of an arm at one evaluation."""

    step: int
    items_seen: int
    value: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """How much less an arm foresees general texts: nats a token, after less before; a mean over texts and seeds."""

    change: Measure
    num_texts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedArm:
    """One arm at its rate."""

    arm: ArmName
    words: str
    rate: float
    sft_rate: float | None
    """Of its supervised steps before RL; None: it has none."""
    effort: Effort
    moved: tuple[Moved, ...]
    looks: tuple[Look, ...]
    forgotten: Forgotten | None
    """None: no general text was read."""
    failures: int
    """Rollouts that failed, of all its runs."""
    rollouts: int

    def of(self, name: str, *, greedy: bool = False) -> Moved | None:
        """Return a measure; None where it has no values."""
        return next((one for one in self.moved if (one.name, one.greedy) == (name, greedy)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineScore:
    """What an answer without a model has; None: it failed."""

    name: str
    score: Measure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """The score of an arm that was trained on so many items."""

    arm: ArmName
    size: int
    value: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningFound(StudyValues):
    """What the study has found."""

    task: str
    question: str
    """The task's."""
    score: str
    """What is claimed on, by its name in `Moved`."""
    terms: tuple[str, ...]
    metrics: tuple[str, ...]
    num_clusters: int
    """Pairs, and items that stand alone: what is resampled."""
    num_train: int | None
    untrained: Measure
    """The score before any training: of the first arm's runs."""
    arms: tuple[LearnedArm, ...]
    baselines: tuple[BaselineScore, ...]
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]
    sized: tuple[Sized, ...]

    def arm(self, name: ArmName) -> LearnedArm | None:
        """Return an arm; None where it is not of the study."""
        return next((one for one in self.arms if one.arm is name), None)


def learned_arm(
    name: ArmName, read: ArmRead, *, rate: float, sft_rate: float | None, effort: Effort, score: str, draws: Bootstrap
) -> LearnedArm:
    """Return what an arm gained and forgot; p is not corrected yet."""
    looks = [(step, read.at(step, score)) for step in read.steps]
    general = read.general()
    forgotten = None
    if general is not None:
        before, after = general
        gap = mean_difference(after, before, draws, same_models=True)
        forgotten = Forgotten(change=_measure(gap), num_texts=after.num_items)
    return LearnedArm(
        arm=name,
        words=WORDS[name],
        rate=rate,
        sft_rate=sft_rate,
        effort=effort,
        moved=tuple(_all_moved(read, draws)),
        looks=tuple(
            Look(step=step, items_seen=effort.seen(step), value=_estimate(values, draws))
            for step, values in looks
            if values is not None
        ),
        forgotten=forgotten,
        failures=sum(sum(one.failures.values()) for one in read.reads),
        rollouts=sum(one.rollouts for one in read.reads),
    )


def measures_of(terms: Sequence[str], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all that is measured of a task, the reward first; a term that is a metric too stands once."""
    apart = [name for name in terms if name not in metrics] if len(terms) > 1 else []
    return (TOTAL, *apart, *(f"metric/{name}" for name in metrics))


def _all_moved(read: ArmRead, draws: Bootstrap) -> list[Moved]:
    task, (first, *_, last) = read.reads[0].task, (*read.steps, read.steps[-1])
    found: list[Moved] = []
    for name in measures_of(task.terms, task.metrics):
        for greedy in (False, True):
            before = read.at(first, name, greedy=greedy)
            after = read.at(last, name, greedy=greedy)
            if before is None or after is None:
                continue
            gap = mean_difference(after, before, draws, same_models=True)
            found.append(
                Moved(
                    name=name,
                    greedy=greedy,
                    before=_estimate(before, draws),
                    after=_estimate(after, draws),
                    gain=_measure(gap),
                    p_value=gap.p_value,
                    p_holm=gap.p_value,
                    num_items=after.num_items,
                )
            )
    return found


def corrected_over_arms(arms: Sequence[LearnedArm], score: str) -> tuple[LearnedArm, ...]:
    """Return the arms with p corrected by Holm: the score, sampled, is one family, all else that is measured another.

    The score was named before any run, and takes nothing from how much else is looked at.
    """
    corrected: dict[tuple[ArmName, str, bool], float] = {}
    every = [(arm.arm, one) for arm in arms for one in arm.moved]
    for primary in (True, False):
        family = [each for each in every if _is_primary(each[1], score) is primary]
        p_values = holm([one.p_value for _, one in family]) if family else ()
        for (name, one), p_holm in zip(family, p_values, strict=True):
            corrected[name, one.name, one.greedy] = p_holm
    return tuple(
        replace(arm, moved=tuple(replace(one, p_holm=corrected[arm.arm, one.name, one.greedy]) for one in arm.moved))
        for arm in arms
    )


def _is_primary(one: Moved, score: str) -> bool:
    return one.name == score and not one.greedy


def sized(name: ArmName, size: int, read: ArmRead, score: str, draws: Bootstrap) -> Sized | None:
    """Return the last score of an arm on so many items; None where it has none."""
    values = read.at(read.steps[-1], score)
    return None if values is None else Sized(arm=name, size=size, value=_estimate(values, draws))


def baseline_scores(read: ArmRead, score: str, draws: Bootstrap) -> tuple[BaselineScore, ...]:
    """Return what the task's baselines have, in its order."""
    found = [(one.name, read.baseline(one.name, score)) for one in read.reads[0].task.baselines]
    return tuple(
        BaselineScore(name=name, score=None if values is None else _estimate(values, draws)) for name, values in found
    )


def judged(
    settings: LearningSettings, reads: Mapping[ArmName, ArmRead], draws: Draws
) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Judge what is claimed of the score, sampled: that arms beat each other, and that each learned something."""
    score, claims = settings.score, draws.claims
    trained = [name for name in settings.trained if name in TRAINED]
    ends = {name: _end(reads[name], score) for name in settings.trained}
    starts = {name: _start(reads[name], score) for name in settings.trained}
    data = {name: reads[name].reads[0].run.config.data.fingerprint for name in settings.trained}
    seen = {name: Training(data[name], settings.effort(name).items) for name in settings.trained}
    parity = parity_of(reads.values())
    family: list[MeanBeats] = []
    learned: list[MeanLearned] = []
    for place, name in enumerate(trained):
        end, start = ends[name], starts[name]
        if end is None or start is None:
            continue
        untrained = Training(data[name], 0)
        found = [reads[name].baseline(one.name, score) for one in reads[name].reads[0].task.baselines]
        baselines = tuple(one for one in found if one is not None)
        family.append(
            MeanBeats(
                first=end,
                second=replace(start, name=WORDS[ArmName.ZERO_SHOT]),
                metric=_shown(score),
                same_models=True,
                training=(seen[name], untrained),
                parity=parity,
            )
        )
        family += [
            MeanBeats(
                first=end,
                second=replace(one, name=f"the baseline {one.name}"),
                metric=_shown(score),
                training=(seen[name], untrained),
                parity=parity,
            )
            for one in baselines
        ]
        family += [
            MeanBeats(first=end, second=second, metric=_shown(score), training=(seen[name], seen[other]), parity=parity)
            for other in trained[:place]
            if (second := ends[other]) is not None
        ]
        learned.append(
            MeanLearned(
                system=end,
                metric=_shown(score),
                before=start,
                baselines=baselines,
                control=ends.get(CONTROLS[name]),
                parity=parity,
            )
        )
    return judge_mean_beats(family, claims), judge_mean_learned(learned, claims)


def _shown(score: str) -> str:
    return "reward" if score == TOTAL else score.removeprefix("metric/")


def _end(read: ArmRead, score: str) -> MeanRuns | None:
    return read.at(read.steps[-1], score)


def _start(read: ArmRead, score: str) -> MeanRuns | None:
    return read.at(read.steps[0], score)


def _estimate(values: MeanRuns, draws: Bootstrap) -> Measure:
    return from_estimate(values.estimate(draws))


def _measure(gap: Difference) -> Measure:
    if gap.interval is None:
        return Measure(gap.value)
    return Measure(gap.value, gap.interval.low, gap.interval.high)
