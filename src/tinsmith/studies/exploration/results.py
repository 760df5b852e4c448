"""What a study of interleaved exploration has found, as values: coverage, success, recovery, overhead, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.study.arm_gains import Arms, as_measure
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.driver import Tuned
from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.lab.study.signs import Sign
from tinsmith.lab.study.task_arms import ArmRead, parity_of, read_runs
from tinsmith.lab.study.task_values import items_seen, values_of
from tinsmith.lab.user_task.records import TaskRollout
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, MeanLearned, judge_mean_beats, judge_mean_learned
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.studies.exploration.settings import ADVISED, ARMS, CONTROL, NONE, RATIOS
from tinsmith.studies.exploration.source import kind_of
from tinsmith.studies.exploration.world import Kind
from tinsmith.types.errors import DataError

FURTHER: Final = 1.3
"""How many times the coverage of the task alone the published ratio is to reach."""
MARGIN: Final = 0.05
"""What success may lose at most, with its whole interval, to count as not lower."""
WORDS: Final = {arm.name: arm.words for arm in ARMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measure of one arm, on held-out items, sampled: means over seeds and items."""

    before: Measure
    after: Measure
    gap: Measure
    """After training, less that of the task alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """One arm."""

    arm: str
    aside: int
    rollouts: int
    """In training, and how many of them explored, counted over all seeds."""
    coverage: Figure
    """Share of checkpoints that a visit without an errand reaches."""
    success: Figure
    """Errands that end with what is wanted."""
    recovery: Figure
    """The same of errands that begin with a failed action."""
    repeated: Figure
    """Share of actions of a visit without an errand that were done in it before."""

    @property
    def overhead(self) -> float:
        """The share of the rollouts of training that explored."""
        return self.aside / self.rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationFound(StudyValues):
    """What the study has found."""

    arms: tuple[Explored, ...]
    signs: tuple[Sign, ...]
    control_flat: bool
    """Whether exploration that is paid by chance is not shown to cover more than the task alone."""
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]

    def arm(self, name: str) -> Explored:
        """Return an arm by its name."""
        return next(one for one in self.arms if one.arm == name)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A measure: of which items, and under which name."""

    kind: Kind
    name: str


_COVERAGE: Final = _Measured(Kind.EXPLORE, "metric/coverage")
_SUCCESS: Final = _Measured(Kind.ERRAND, "metric/right")
_RECOVERY: Final = _Measured(Kind.RECOVER, "metric/right")
_REPEATED: Final = _Measured(Kind.EXPLORE, "metric/repeated")


def read_found(study: Study, tuned: Tuned, draws: Draws) -> tuple[ExplorationFound, Arms]:
    """Read the finished runs.

    Raises:
        DataError: a run was not evaluated, or not on the items that the others were.
    """
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    arms = [_explored(name, read, reads[NONE], draws) for name, read in reads.items()]
    found = found_of(values_of(study, reads), arms)
    return _with_claims(found, reads, draws), Arms(reads, lambda item: item)


def found_of(values: StudyValues, arms: Sequence[Explored]) -> ExplorationFound:
    """Return the values with the signs of arXiv:2605.16143 and the control; claims are judged from the runs."""
    shared = {name: getattr(values, name) for name in values.__dataclass_fields__}
    by_name = {one.arm: one for one in arms}
    none, advised = by_name[NONE], by_name[ADVISED]
    low = by_name[CONTROL].coverage.gap.low
    return ExplorationFound(
        **shared,
        arms=tuple(arms),
        signs=(
            _further(none, advised),
            _no_lower(advised),
            _recovers(none, advised),
            _costs(advised),
            _repeats(none, advised),
        ),
        control_flat=low is not None and low <= 0.0,
        beats=(),
        learned=(),
    )


def _further(none: Explored, advised: Explored) -> Sign:
    mine, other = advised.coverage.after.value, none.coverage.after.value
    return Sign(
        expected=f"5:1 covers {FURTHER} times as many checkpoints as the task alone",
        came_out=mine >= FURTHER * other and _above(advised.coverage.gap),
        told=f"{mine:.3f} beside {other:.3f}" + (f", {mine / other:.2f} times" if other else ""),
    )


def _no_lower(advised: Explored) -> Sign:
    gap = advised.success.gap
    return Sign(
        expected=f"at 5:1 success at the task is not lower (by {MARGIN} or more)",
        came_out=gap.low is not None and gap.low > -MARGIN,
        told=_gap(gap),
    )


def _recovers(none: Explored, advised: Explored) -> Sign:
    mine, other = advised.recovery, none.recovery
    return Sign(
        expected="at 5:1 more errands recover from a failed action than after the task alone",
        came_out=_above(mine.gap),
        told=f"{mine.after.value:.3f} beside {other.after.value:.3f}, {_gap(mine.gap)}",
    )


def _costs(advised: Explored) -> Sign:
    return Sign(
        expected="exploration at 5:1 is one in six rollouts",
        came_out=6 * advised.aside == advised.rollouts,
        told=f"{advised.aside:,} of {advised.rollouts:,}, {advised.overhead:.1%}",
    )


def _repeats(none: Explored, advised: Explored) -> Sign:
    mine, other = advised.repeated, none.repeated
    return Sign(
        expected="at 5:1 fewer actions are done again than after the task alone",
        came_out=mine.gap.high is not None and mine.gap.high < 0.0,
        told=f"{mine.after.value:.3f} beside {other.after.value:.3f}",
    )


def _above(gap: Measure) -> bool:
    return gap.low is not None and gap.low > 0.0


def _gap(gap: Measure) -> str:
    if gap.low is None or gap.high is None:
        return f"{gap.value:+.3f}, without an interval"
    return f"{gap.value:+.3f}, {gap.low:+.3f} to {gap.high:+.3f}"


def _explored(name: str, read: ArmRead, none: ArmRead, draws: Draws) -> Explored:
    kinds = [
        kind_of(line.prompt_id)
        for one in read.reads
        for line in json_lines(one.run.folder / ROLLOUTS, TaskRollout, [])
        if line.split == "train"
    ]

    def figure(measure: _Measured) -> Figure:
        after = _at(read, -1, measure)
        gap = mean_difference(after, _at(none, -1, measure), draws.tables)
        return Figure(
            before=from_estimate(_at(read, 0, measure).estimate(draws.tables)),
            after=from_estimate(after.estimate(draws.tables)),
            gap=Measure(0.0) if read is none else as_measure(gap),
        )

    return Explored(
        arm=name,
        aside=kinds.count(Kind.EXPLORE),
        rollouts=len(kinds),
        coverage=figure(_COVERAGE),
        success=figure(_SUCCESS),
        recovery=figure(_RECOVERY),
        repeated=figure(_REPEATED),
    )


def _with_claims(found: ExplorationFound, reads: Mapping[str, ArmRead], draws: Draws) -> ExplorationFound:
    parity = parity_of(reads.values())
    trained = {name: Training(found.data, items_seen(read)) for name, read in reads.items()}

    def beats(name: str, measure: _Measured, words: str) -> MeanBeats:
        return MeanBeats(
            first=replace(_at(reads[name], -1, measure), name=WORDS[name]),
            second=replace(_at(reads[NONE], -1, measure), name=WORDS[NONE]),
            metric=words,
            training=(trained[name], trained[NONE]),
            parity=parity,
        )

    advised = reads[ADVISED]
    baselines = [
        values.on(_items(values, Kind.EXPLORE))
        for one in advised.reads[0].task.baselines
        if (values := advised.baseline(one.name, _COVERAGE.name)) is not None
    ]
    learned = MeanLearned(
        system=replace(_at(advised, -1, _COVERAGE), name=WORDS[ADVISED]),
        metric="coverage",
        before=_at(advised, 0, _COVERAGE),
        baselines=tuple(baselines),
        control=_at(reads[CONTROL], -1, _COVERAGE),
        control_words="the same method with exploration paid by chance",
        parity=parity,
    )
    return replace(
        found,
        beats=judge_mean_beats(
            [
                *(beats(name, _COVERAGE, "coverage") for name in RATIOS),
                *(beats(name, _RECOVERY, "recovery") for name in RATIOS),
            ],
            draws.claims,
        ),
        learned=judge_mean_learned([learned], draws.claims),
    )


def _at(read: ArmRead, place: int, measure: _Measured) -> MeanRuns:
    values = read.at(read.steps[place], measure.name)
    if values is None:
        raise DataError("a run has no such measure", field="cells", value=measure.name)
    return values.on(_items(values, measure.kind))


def _items(values: MeanRuns, kind: Kind) -> list[str]:
    return [item for item in values.items if kind_of(item) is kind]
