"""The claim gate: two kinds of claim, each with checks of its own, neither of which waits for the other.

*A beats B* is a paired difference after the same training. *A learned something* is that nothing simpler explains A's
score. A check without its evidence refuses as a failed one does. That all checks must pass makes a claim an
intersection of tests, whose p is the largest of theirs (Berger 1982); Holm corrects over all claims of one kind that
are made together.

Labels (`Runs`) are held against what needs no paper: a constant answer, chance, metadata. A task of no particular kind
has means over items (`MeanRuns`): what is simpler than learning is the model as it was before training, the task's own
baselines, and the same training with answers that belong to other items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tinsmith.stats.estimates import Bootstrap, Difference, Runs, difference, estimate
from tinsmith.stats.gate.claim import (
    Check,
    CheckName,
    Claim,
    ClaimKind,
    Rival,
    Training,
    above,
    above_zero,
    checked,
    one_model,
    same_items,
    same_training,
)
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric, best_constant
from tinsmith.stats.significance import holm
from tinsmith.types.errors import ConfigError

RECALL_KEPT = 0.8  # Share of the other system's smallest recall that must be kept.
_RISING = (Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.BALANCED_ACCURACY, Metric.MIN_CLASS_RECALL, Metric.G_MEAN)

System = TypeVar("System", Runs, MeanRuns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats(Generic[System]):
    """The claim "first beats second on metric" and the evidence for it; None where there is none."""

    first: System
    second: System
    metric: str = Metric.MACRO_F1
    same_models: bool = False  # True if they are the same runs on a task, before and after training.
    training: tuple[Training, Training] | None = None  # Of the first and of the second.
    parity: ParityRecord | None = None  # Sampler against trainer over the training steps of `first`.

    def __post_init__(self) -> None:
        if isinstance(self.first, Runs):
            _require_rising(Metric(self.metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The claim "system learned something that nothing simpler explains" and the evidence for it."""

    system: Runs
    metric: Metric = Metric.MACRO_F1
    metadata: Runs | None = None  # The baseline that sees year, citations and field alone.
    control: Runs | None = None  # `system` trained in the same way on shuffled labels.
    parity: ParityRecord | None = None  # Sampler against trainer over its training steps.

    def __post_init__(self) -> None:
        _require_rising(self.metric)

    def shared(self) -> tuple[list[Runs], float]:
        """Return all systems on the items of all, and the share left out."""
        return _shared([one for one in (self.system, self.metadata, self.control) if one is not None])

    def rivals(self, systems: Sequence[Runs], bootstrap: Bootstrap) -> list[Rival]:
        """Hold the system, which is the first, against all that could explain its score."""
        system, *others = systems
        label = best_constant(system.labels, [system.labels[code] for code in system.golds], self.metric)
        blind = Runs.constant(system, label)
        named = (
            (CheckName.METADATA, "the metadata-only baseline", self.metadata),
            (CheckName.CONTROL, "the same method trained on shuffled labels", self.control),
        )
        given = [(check, name) for check, name, one in named if one is not None]
        against = [
            (CheckName.CONSTANT, f"always {label}", self.metric, blind),
            # Any constant's balanced accuracy is chance, in every resample.
            (CheckName.CHANCE, "chance", Metric.BALANCED_ACCURACY, blind),
            *((check, name, self.metric, other) for (check, name), other in zip(given, others, strict=True)),
        ]
        return [Rival(check, name, by, difference(system, other, by, bootstrap)) for check, name, by, other in against]

    def checks(self, found: Sequence[Check], systems: Sequence[Runs], bootstrap: Bootstrap) -> tuple[Check, ...]:
        """Return the checks of the rivals, and those whose evidence is missing."""
        by_name = {check.name: check for check in found}
        no_metadata = checked(CheckName.METADATA, None, "no metadata-only baseline was scored on these items")
        return (
            by_name[CheckName.CONSTANT],
            by_name.get(CheckName.METADATA, no_metadata),
            by_name[CheckName.CHANCE],
            _nothing_leaks(None if self.control is None else systems[-1], by_name.get(CheckName.CONTROL), bootstrap),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLearned:
    """The same claim about means over items."""

    system: MeanRuns
    metric: str
    before: MeanRuns  # The same runs before their training.
    baselines: tuple[MeanRuns, ...] = ()  # The task's own: answers without a model.
    control: MeanRuns | None = None  # Trained in the same way, each item with another one's answer.
    control_words: str = "the same method trained on shuffled labels"  # Name of the control.
    parity: ParityRecord | None = None

    def shared(self) -> tuple[list[MeanRuns], float]:
        """Return all systems on the items of all, and the share left out."""
        control = () if self.control is None else (self.control,)
        return _shared([self.system, self.before, *self.baselines, *control])

    def rivals(self, systems: Sequence[MeanRuns], bootstrap: Bootstrap) -> list[Rival]:
        """Hold the system, which is the first, against all that could explain its score."""
        system, before, *others = systems
        named = [
            *((CheckName.BASELINE, f"the baseline {one.name}") for one in self.baselines),
            (CheckName.CONTROL, self.control_words),
        ]
        own = mean_difference(system, before, bootstrap, paired=True)
        return [
            Rival(CheckName.BEFORE, "the model before training", self.metric, own),
            *(
                Rival(check, name, self.metric, mean_difference(system, other, bootstrap))
                for (check, name), other in zip(named, others, strict=False)
            ),
        ]

    def checks(self, found: Sequence[Check], systems: Sequence[MeanRuns], bootstrap: Bootstrap) -> tuple[Check, ...]:
        """Return the checks of the rivals, and those whose evidence is missing."""
        del systems, bootstrap
        no_baseline = checked(CheckName.BASELINE, None, "the task names no baseline that needs no model")
        no_control = checked(CheckName.CONTROL, None, "no run on shuffled labels was trained in this way")
        return (*found, *(() if self.baselines else (no_baseline,)), *((no_control,) if self.control is None else ()))


def _require_rising(metric: Metric) -> None:
    if metric not in _RISING:
        what = "a claim needs a score that is better when higher"
        raise ConfigError(what, field="metric", value=metric.value, allowed=", ".join(_RISING))


def judge_beats(family: Sequence[Beats[Any]], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that one system beats another: Holm's correction runs over all of `family`.

    Items that one of the two did not answer are left out; more than a twentieth of them refuses the claim.
    """
    found = [_beaten(one, bootstrap) for one in family]
    corrected = _corrected([gap for _, _, gap, _, _ in found], bootstrap)
    return tuple(
        Claim(
            kind=ClaimKind.BEATS,
            first=one.first.name,
            second=one.second.name,
            metric=one.metric,
            value=gap.value,
            interval=gap.at(level),
            p_value=gap.p_value,
            p_holm=p_holm,
            seeds=seeds,
            num_items=items,
            checks=(
                same_items(items, left_out),
                same_training(one.training),
                above_zero(one.first.name, gap, gap.at(level), p_holm, bootstrap),
                *more,
                one_model(one.parity),
            ),
        )
        for one, (items, left_out, gap, seeds, more), (p_holm, level) in zip(family, found, corrected, strict=True)
    )


def _beaten(one: Beats[Any], bootstrap: Bootstrap) -> tuple[int, float, Difference, tuple[int, ...], tuple[Check, ...]]:
    """Return shared items, the share left out, the difference, seeds a side, and checks of labels alone."""
    sides = (one.first.num_seeds, one.second.num_seeds)
    (first, second), left_out = _shared([one.first, one.second])
    if isinstance(first, Runs):
        gap = difference(first, second, Metric(one.metric), bootstrap)
        return first.num_items, left_out, gap, sides, (_recall_kept(first, second),)
    gap = mean_difference(first, second, bootstrap, paired=one.same_models)
    # What was not trained takes nothing from what seeds can say.
    untrained = one.training is not None and one.training[1].examples == 0
    return first.num_items, left_out, gap, sides[:1] if untrained or one.same_models else sides, ()


class _Evidence(Protocol[System]):
    """Either kind of claim to have learned: `Learned` or `MeanLearned`."""

    @property
    def metric(self) -> str: ...
    @property
    def parity(self) -> ParityRecord | None: ...
    def shared(self) -> tuple[list[System], float]: ...
    def rivals(self, systems: Sequence[System], bootstrap: Bootstrap) -> list[Rival]: ...
    def checks(self, found: Sequence[Check], systems: Sequence[System], bootstrap: Bootstrap) -> tuple[Check, ...]: ...


def judge_learned(family: Sequence[_Evidence[System]], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that a system learned something: Holm's correction runs over all of `family`.

    The p of one is the largest of its tests'; all its intervals are at the level that the correction leaves to it.
    """
    shared = [one.shared() for one in family]
    found = [one.rivals(systems, bootstrap) for one, (systems, _) in zip(family, shared, strict=True)]
    # The explanation that comes nearest: of the largest p, and of these the smallest difference.
    nearest = [max(rivals, key=lambda rival: (rival.gap.p_value, -rival.gap.value)) for rivals in found]
    corrected = _corrected([rival.gap for rival in nearest], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), rivals, near, (p_holm, level) in zip(
        family, shared, found, nearest, corrected, strict=True
    ):
        system = systems[0]
        ps = [p_holm if rival is near else rival.gap.p_value for rival in rivals]
        held = [above(rival, p, level, bootstrap) for rival, p in zip(rivals, ps, strict=True)]
        claims.append(
            Claim(
                kind=ClaimKind.LEARNED,
                first=system.name,
                second=near.name,
                metric=one.metric,
                value=near.gap.value,
                interval=near.gap.at(level),
                p_value=near.gap.p_value,
                p_holm=p_holm,
                seeds=(system.num_seeds,),
                num_items=system.num_items,
                checks=(
                    same_items(system.num_items, left_out),
                    *one.checks(held, systems, bootstrap),
                    one_model(one.parity),
                ),
            )
        )
    return tuple(claims)


def _corrected(gaps: Sequence[Difference], bootstrap: Bootstrap) -> list[tuple[float, float]]:
    """Return each claim's p after Holm's correction, and the level it leaves to the claim's intervals."""
    p_values = [gap.p_value for gap in gaps]
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = {place: 1.0 - (1.0 - bootstrap.level) / (len(p_values) - rank) for rank, place in enumerate(by_size)}
    return [(p_holm, levels[place]) for place, p_holm in enumerate(holm(p_values))]


def _shared(systems: Sequence[System]) -> tuple[list[System], float]:
    """Return the systems on the items that all of them answered, and the share left out."""
    everything = set[str]().union(*(system.items for system in systems))
    shared = everything.intersection(*(system.items for system in systems))
    items = [item for item in systems[0].items if item in shared]
    return [system.on(items) for system in systems], 1.0 - len(items) / len(everything)


def _recall_kept(first: Runs, second: Runs) -> Check:
    mine, theirs = first.score(Metric.MIN_CLASS_RECALL), second.score(Metric.MIN_CLASS_RECALL)
    needed = RECALL_KEPT * theirs
    sentence = f"smallest recall {mine:.3f} against {theirs:.3f} (at least {needed:.3f} is needed)"
    return checked(CheckName.RECALL, mine >= needed, sentence)


def _nothing_leaks(control: Runs | None, beaten: Check | None, bootstrap: Bootstrap) -> Check:
    """The control must have learned nothing, and the system must be above it."""
    if control is None or beaten is None:
        return checked(CheckName.CONTROL, None, "no run on shuffled labels was scored on these items")
    chance = 1.0 / len({int(code) for code in control.golds})
    found = estimate(control, Metric.BALANCED_ACCURACY, bootstrap)
    if found.interval is not None and not found.interval.above(chance):
        return beaten
    sentence = (
        f"trained on shuffled labels the same method scores {found} balanced accuracy, above "
        f"chance ({chance:.3f}): labels leak, or something else is wrong"
    )
    return checked(CheckName.CONTROL, False, sentence)
