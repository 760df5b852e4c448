"""The claim gate: two kinds of claim, each with checks of its own, neither of which waits for the other.

*A beats B* is a paired difference after the same training. *A learned something* is that nothing simpler explains A's
score. A check without its evidence refuses as a failed one does. That all checks must pass makes a claim an
intersection of tests, whose p is the largest of theirs (Berger 1982); Holm corrects over all claims of one kind that
are made together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.stats.confusion import best_constant
from tinsmith.stats.estimates import Bootstrap, difference, estimate
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
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import ConfigError

RECALL_KEPT = 0.8
"""Share of the other system's smallest recall that must be kept."""
_RISING = (Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.BALANCED_ACCURACY, Metric.MIN_CLASS_RECALL, Metric.G_MEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """The claim "first beats second on metric" and the evidence for it; None where there is none."""

    first: Runs
    second: Runs
    metric: Metric = Metric.MACRO_F1
    training: tuple[Training, Training] | None = None
    """Of the first and of the second."""
    parity: ParityRecord | None = None
    """Sampler against trainer over the training steps of `first`."""

    def __post_init__(self) -> None:
        _require_rising(self.metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The claim "system learned something that nothing simpler explains" and the evidence for it."""

    system: Runs
    metric: Metric = Metric.MACRO_F1
    metadata: Runs | None = None
    """The baseline that sees year, citations and field alone."""
    control: Runs | None = None
    """`system` trained in the same way on shuffled labels."""
    parity: ParityRecord | None = None
    """Sampler against trainer over its training steps."""

    def __post_init__(self) -> None:
        _require_rising(self.metric)


def _require_rising(metric: Metric) -> None:
    if metric not in _RISING:
        raise ConfigError(
            "a claim needs a score that is better when higher",
            field="metric",
            value=metric.value,
            allowed=", ".join(_RISING),
        )


def judge_beats(family: Sequence[Beats], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that one system beats another: Holm's correction runs over all of `family`.

    Items that one of the two did not answer are left out; more than a twentieth of them refuses the claim.
    """
    shared = [_shared([one.first, one.second]) for one in family]
    found = [
        difference(systems[0], systems[1], one.metric, bootstrap)
        for one, (systems, _) in zip(family, shared, strict=True)
    ]
    corrected = corrected_levels([each.p_value for each in found], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), gap, (p_holm, level) in zip(family, shared, found, corrected, strict=True):
        first, second = systems
        checks = (
            same_items(first.num_items, left_out),
            same_training(one.training),
            above_zero(first.name, gap, gap.at(level), p_holm, bootstrap),
            _recall_kept(first, second),
            one_model(one.parity),
        )
        seeds = (first.num_seeds, second.num_seeds)
        names = (first.name, second.name)
        claims.append(ruled(names, one.metric, gap, (p_holm, level), seeds, first.num_items, checks))
    return tuple(claims)


def judge_learned(family: Sequence[Learned], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that a system learned something: Holm's correction runs over all of `family`.

    The p of one is the largest of its tests'; all its intervals are at the level that the correction leaves to it.
    """
    shared = [_shared([one.system, one.metadata, one.control]) for one in family]
    found = [
        _simpler(one.metric, systems, _evidence(one), bootstrap)
        for one, (systems, _) in zip(family, shared, strict=True)
    ]
    nearest = [nearest_of(rivals) for rivals in found]
    corrected = corrected_levels([rival.gap.p_value for rival in nearest], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), rivals, near, (p_holm, level) in zip(
        family, shared, found, nearest, corrected, strict=True
    ):
        system = systems[0]
        by_name = {
            rival.check: above(rival, p_holm if rival is near else rival.gap.p_value, level, bootstrap)
            for rival in rivals
        }
        control = systems[-1] if one.control is not None else None
        checks = (
            same_items(system.num_items, left_out),
            by_name[CheckName.CONSTANT],
            by_name.get(CheckName.METADATA)
            or Check(CheckName.METADATA, Finding.MISSING, "no metadata-only baseline was scored on these items"),
            by_name[CheckName.CHANCE],
            _nothing_leaks(control, by_name.get(CheckName.CONTROL), bootstrap),
            one_model(one.parity),
        )
        claims.append(
            ruled_learned(system.name, one.metric, near, (p_holm, level), system.num_seeds, system.num_items, checks)
        )
    return tuple(claims)


def _evidence(one: Learned) -> list[CheckName]:
    """Name the systems that stand beside the first."""
    given = ((CheckName.METADATA, one.metadata), (CheckName.CONTROL, one.control))
    return [name for name, system in given if system is not None]


def _shared(given: Sequence[Runs | None]) -> tuple[list[Runs], float]:
    """Return the systems on the items that all of them answered, and the share left out."""
    systems = [system for system in given if system is not None]
    everything, shared = set(systems[0].items), set(systems[0].items)
    for system in systems[1:]:
        everything |= set(system.items)
        shared &= set(system.items)
    items = [item for item in systems[0].items if item in shared]
    return [system.on(items) for system in systems], 1.0 - len(items) / len(everything)


def _recall_kept(first: Runs, second: Runs) -> Check:
    mine, theirs = first.score(Metric.MIN_CLASS_RECALL), second.score(Metric.MIN_CLASS_RECALL)
    needed = RECALL_KEPT * theirs
    sentence = f"smallest recall {mine:.3f} against {theirs:.3f} (at least {needed:.3f} is needed)"
    passed = mine >= needed
    return Check(CheckName.RECALL, Finding.PASSED if passed else Finding.FAILED, sentence)


def _simpler(
    metric: Metric, systems: Sequence[Runs], evidence: Sequence[CheckName], bootstrap: Bootstrap
) -> list[Rival]:
    """Hold the system, which is the first, against all that could explain its score."""
    system = systems[0]
    golds = [system.labels[code] for code in system.golds]
    label = best_constant(system.labels, golds, metric)
    blind = Runs.constant(system, label)
    names = {
        CheckName.METADATA: "the metadata-only baseline",
        CheckName.CONTROL: "the same method trained on shuffled labels",
    }
    against = [
        (CheckName.CONSTANT, f"always {label}", metric, blind),
        # Any constant's balanced accuracy is chance, in every resample.
        (CheckName.CHANCE, "chance", Metric.BALANCED_ACCURACY, blind),
        *((check, names[check], metric, other) for check, other in zip(evidence, systems[1:], strict=True)),
    ]
    return [Rival(check, name, by, difference(system, other, by, bootstrap)) for check, name, by, other in against]


def _nothing_leaks(control: Runs | None, beaten: Check | None, bootstrap: Bootstrap) -> Check:
    """The control must have learned nothing, and the system must be above it."""
    if control is None or beaten is None:
        sentence = "no run on shuffled labels was scored on these items"
        return Check(CheckName.CONTROL, Finding.MISSING, sentence)
    chance = 1.0 / len({int(code) for code in control.golds})
    found = estimate(control, Metric.BALANCED_ACCURACY, bootstrap)
    if found.interval is None or found.interval.above(chance):
        sentence = (
            f"trained on shuffled labels the same method scores {found} balanced accuracy, above "
            f"chance ({chance:.3f}): labels leak, or something else is wrong"
        )
        return Check(CheckName.CONTROL, Finding.FAILED, sentence)
    return beaten
