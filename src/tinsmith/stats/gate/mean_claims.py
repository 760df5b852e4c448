"""The claim gate for means over items, whatever is rewarded: see tinsmith.stats.gate.claims, whose checks these are.

A task of no particular kind has no labels: what is simpler than learning is the model as it was before training, the
task's own baselines, and the same training with answers that belong to other items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Check, CheckName, Claim, Finding, Training
from tinsmith.stats.gate.claim_checks import (
    Rival,
    above,
    above_zero,
    corrected_levels,
    nearest_of,
    one_model,
    ruled,
    ruled_learned,
    same_items,
    same_training,
)
from tinsmith.stats.mean_runs import MeanRuns, mean_difference, shared_items
from tinsmith.stats.parity import ParityRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanBeats:
    """The claim "first beats second on metric" and the evidence for it; None where there is none."""

    first: MeanRuns
    second: MeanRuns
    metric: str
    same_models: bool = False
    """Whether they are the same runs, before and after training."""
    training: tuple[Training, Training] | None = None
    """Of the first and of the second."""
    parity: ParityRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanLearned:
    """The claim "system learned something that nothing simpler explains" and the evidence for it."""

    system: MeanRuns
    metric: str
    before: MeanRuns
    """The same runs before their training."""
    baselines: tuple[MeanRuns, ...] = ()
    """The task's own: answers without a model."""
    control: MeanRuns | None = None
    """Trained in the same way, each item with another one's answer."""
    control_words: str = "the same method trained on shuffled labels"
    """What the control is."""
    parity: ParityRecord | None = None


def judge_mean_beats(family: Sequence[MeanBeats], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that one system beats another: Holm's correction runs over all of `family`."""
    shared = [shared_items([one.first, one.second]) for one in family]
    gaps = [
        mean_difference(systems[0], systems[1], bootstrap, same_models=one.same_models)
        for one, (systems, _) in zip(family, shared, strict=True)
    ]
    corrected = corrected_levels([gap.p_value for gap in gaps], bootstrap)
    claims: list[Claim] = []
    for one, ((first, second), left_out), gap, (p_holm, level) in zip(family, shared, gaps, corrected, strict=True):
        checks = (
            same_items(first.num_items, left_out),
            same_training(one.training),
            above_zero(first.name, gap, gap.at(level), p_holm, bootstrap),
            one_model(one.parity),
        )
        names = (first.name, second.name)
        claims.append(ruled(names, one.metric, gap, (p_holm, level), _seeds(one), first.num_items, checks))
    return tuple(claims)


def _seeds(one: MeanBeats) -> tuple[int, ...]:
    """Return how many trained models a side has; what was not trained takes nothing from what seeds can say."""
    untrained = one.training is not None and one.training[1].examples == 0
    first, second = one.first.num_seeds, one.second.num_seeds
    return (first,) if untrained or one.same_models else (first, second)


def judge_mean_learned(family: Sequence[MeanLearned], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that a system learned something: Holm's correction runs over all of `family`."""
    shared = [shared_items(_systems(one)) for one in family]
    found = [_rivals(one, systems, bootstrap) for one, (systems, _) in zip(family, shared, strict=True)]
    nearest = [nearest_of(rivals) for rivals in found]
    corrected = corrected_levels([rival.gap.p_value for rival in nearest], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), rivals, near, (p_holm, level) in zip(
        family, shared, found, nearest, corrected, strict=True
    ):
        system = systems[0]
        checks = (
            same_items(system.num_items, left_out),
            *(above(rival, p_holm if rival is near else rival.gap.p_value, level, bootstrap) for rival in rivals),
            *_missing(one),
            one_model(one.parity),
        )
        claims.append(
            ruled_learned(system.name, one.metric, near, (p_holm, level), system.num_seeds, system.num_items, checks)
        )
    return tuple(claims)


def _systems(one: MeanLearned) -> list[MeanRuns]:
    control = () if one.control is None else (one.control,)
    return [one.system, one.before, *one.baselines, *control]


def _rivals(one: MeanLearned, systems: Sequence[MeanRuns], bootstrap: Bootstrap) -> list[Rival]:
    system, before, *others = systems
    own = mean_difference(system, before, bootstrap, same_models=True)
    rivals = [Rival(CheckName.BEFORE, "the model before training", one.metric, own)]
    for place, other in enumerate(others):
        if place < len(one.baselines):
            check, name = CheckName.BASELINE, f"the baseline {other.name}"
        else:
            check, name = CheckName.CONTROL, one.control_words
        rivals.append(Rival(check, name, one.metric, mean_difference(system, other, bootstrap)))
    return rivals


def _missing(one: MeanLearned) -> list[Check]:
    found: list[Check] = []
    if not one.baselines:
        sentence = "the task names no baseline that needs no model"
        found.append(Check(CheckName.BASELINE, Finding.MISSING, sentence))
    if one.control is None:
        sentence = "no run on shuffled labels was trained in this way"
        found.append(Check(CheckName.CONTROL, Finding.MISSING, sentence))
    return found
