"""The claim gate: two kinds of claim, each with checks of its own, neither of which waits for the other.

*A beats B* is a paired difference after the same training. *A learned something* is that nothing simpler explains A's
score. A check without its evidence refuses as a failed one does. That all checks must pass makes a claim an
intersection of tests, whose p is the largest of theirs (Berger 1982); Holm corrects over all claims of one kind that
are made together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tinsmith.stats.confusion import best_constant
from tinsmith.stats.estimates import Bootstrap, Difference, difference, estimate
from tinsmith.stats.intervals import Interval
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.stats.significance import holm
from tinsmith.types.errors import ConfigError

ENOUGH_SEEDS = 5
"""With fewer trained models a side, a claim is about those models and not about the method."""
RECALL_KEPT = 0.8
"""Share of the other system's smallest recall that must be kept."""
_RISING = (
    Metric.LABEL_MATCH,
    Metric.MACRO_F1,
    Metric.BALANCED_ACCURACY,
    Metric.MIN_CLASS_RECALL,
    Metric.G_MEAN,
)


class Verdict(StrEnum):
    """What may be printed."""

    ALLOWED = "allowed"
    REFUSED = "refused"


class ClaimKind(StrEnum):
    """What is claimed."""

    BEATS = "beats"
    """One system scores higher than another, both trained on the same data and as long."""
    LEARNED = "learned"
    """A system knows something that no constant, no metadata, no chance and no leak explains."""


class CheckName(StrEnum):
    """One reason a claim can fail for."""

    ITEMS = "same items"
    TRAINING = "same training"
    DIFFERENCE = "difference"
    BEFORE = "before training"
    BASELINE = "baselines of the task"
    CONSTANT = "constant baseline"
    METADATA = "metadata baseline"
    CHANCE = "chance"
    RECALL = "smallest recall"
    CONTROL = "shuffled labels"
    PARITY = "one model"


class Finding(StrEnum):
    """How a check came out."""

    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one claim, in words."""

    name: CheckName
    finding: Finding
    sentence: str

    @property
    def passed(self) -> bool:
        """Whether it stands in nobody's way."""
        return self.finding is Finding.PASSED


@dataclass(frozen=True, slots=True)
class Training:
    """What a system was trained on, and for how long."""

    data: str
    """Fingerprint of the slice."""
    examples: int | None
    """Papers seen, each as often as it was; None: fitted until more of them change nothing, as a baseline is."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim with its verdict, and every check in words."""

    kind: ClaimKind
    first: str
    second: str
    """What is beaten; of something learned, the simpler explanation that comes nearest."""
    metric: str
    value: float
    """first minus second."""
    interval: Interval | None
    """Of the difference, at the level Holm's correction leaves to this claim."""
    p_value: float
    p_holm: float
    seeds: tuple[int, ...]
    num_items: int
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """Allowed if every check passed."""
        return Verdict.ALLOWED if all(check.passed for check in self.checks) else Verdict.REFUSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is refused; all checks' sentences where it is allowed."""
        refused = tuple(check.sentence for check in self.checks if not check.passed)
        return refused or tuple(check.sentence for check in self.checks)

    @property
    def scope(self) -> str:
        """What the claim is about: the method, or only the models that were trained."""
        seeds = f"{' and '.join(map(str, self.seeds))} seed{'' if self.seeds == (1,) else 's'}"
        if min(self.seeds) >= ENOUGH_SEEDS:
            return f"the method, over {seeds}"
        enough = f"{ENOUGH_SEEDS}{' a side' if len(self.seeds) > 1 else ''} speak for the method"
        return f"these trained models only ({seeds}; {enough})"

    @property
    def words(self) -> str:
        """The claim itself."""
        return claim_words(self.kind, self.first, self.second)

    def sentence(self) -> str:
        """Return the one line to print."""
        figure = f"{self.value:+.3f}{f' {self.interval}' if self.interval else ''}"
        if self.kind is ClaimKind.LEARNED:
            figure = f"{figure} beside {self.second}"
        figure = f"{figure}, n = {self.num_items}"
        if self.verdict is Verdict.ALLOWED:
            return f"{self.words} on {self.metric}: {figure}; {self.scope}"
        return f"not claimed: {self.words} on {self.metric} ({figure}): {'; '.join(self.reasons)}"


def claim_words(kind: ClaimKind, first: str, second: str) -> str:
    """Return what is claimed."""
    if kind is ClaimKind.BEATS:
        return f"{first} beats {second}"
    return f"{first} learned something that nothing simpler explains"


def judge_beats(family: Sequence[Beats], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that one system beats another: Holm's correction runs over all of `family`.

    Items that one of the two did not answer are left out; more than a twentieth of them refuses the claim.

    Raises:
        DataError: systems with other labels or other true labels, or without a common item.
    """
    shared = [_shared([one.first, one.second]) for one in family]
    found = [
        difference(systems[0], systems[1], one.metric, bootstrap)
        for one, (systems, _) in zip(family, shared, strict=True)
    ]
    corrected = corrected_levels([each.p_value for each in found], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), gap, (p_holm, level) in zip(
        family, shared, found, corrected, strict=True
    ):
        first, second = systems
        interval = gap.at(level)
        checks = (
            same_items(first.num_items, left_out),
            same_training(one.training),
            above_zero(first.name, gap, interval, p_holm, bootstrap),
            _recall_kept(first, second),
            one_model(one.parity),
        )
        claims.append(
            Claim(
                kind=ClaimKind.BEATS,
                first=first.name,
                second=second.name,
                metric=one.metric,
                value=gap.value,
                interval=interval,
                p_value=gap.p_value,
                p_holm=p_holm,
                seeds=(first.num_seeds, second.num_seeds),
                num_items=first.num_items,
                checks=checks,
            )
        )
    return tuple(claims)


def judge_learned(family: Sequence[Learned], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that a system learned something: Holm's correction runs over all of `family`.

    The p of one is the largest of its tests'; all its intervals are at the level that the correction leaves to it.

    Raises:
        DataError: systems with other labels or other true labels, or without a common item.
    """
    shared = [_shared([one.system, one.metadata, one.control]) for one in family]
    found = [
        _simpler(one.metric, systems, _evidence(one), bootstrap)
        for one, (systems, _) in zip(family, shared, strict=True)
    ]
    nearest = [
        max(rivals, key=lambda rival: (rival.gap.p_value, -rival.gap.value)) for rivals in found
    ]
    corrected = corrected_levels([rival.gap.p_value for rival in nearest], bootstrap)
    claims: list[Claim] = []
    for one, (systems, left_out), rivals, near, (p_holm, level) in zip(
        family, shared, found, nearest, corrected, strict=True
    ):
        system = systems[0]
        by_name = {
            rival.check: _above(
                rival, p_holm if rival is near else rival.gap.p_value, level, bootstrap
            )
            for rival in rivals
        }
        control = systems[-1] if one.control is not None else None
        checks = (
            same_items(system.num_items, left_out),
            by_name[CheckName.CONSTANT],
            by_name.get(CheckName.METADATA)
            or Check(
                CheckName.METADATA,
                Finding.MISSING,
                "no metadata-only baseline was scored on these items",
            ),
            by_name[CheckName.CHANCE],
            _nothing_leaks(control, by_name.get(CheckName.CONTROL), bootstrap),
            one_model(one.parity),
        )
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
                checks=checks,
            )
        )
    return tuple(claims)


def _evidence(one: Learned) -> list[CheckName]:
    """Name the systems that stand beside the first."""
    given = ((CheckName.METADATA, one.metadata), (CheckName.CONTROL, one.control))
    return [name for name, system in given if system is not None]


def corrected_levels(p_values: Sequence[float], bootstrap: Bootstrap) -> list[tuple[float, float]]:
    """Return each claim's p after Holm's correction, and the level it leaves to the claim's intervals."""
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = {
        place: 1.0 - (1.0 - bootstrap.level) / (len(p_values) - rank)
        for rank, place in enumerate(by_size)
    }
    return [(p_holm, levels[place]) for place, p_holm in enumerate(holm(list(p_values)))]


def _shared(given: Sequence[Runs | None]) -> tuple[list[Runs], float]:
    """Return the systems on the items that all of them answered, and the share left out."""
    systems = [system for system in given if system is not None]
    everything, shared = set(systems[0].items), set(systems[0].items)
    for system in systems[1:]:
        everything |= set(system.items)
        shared &= set(system.items)
    items = [item for item in systems[0].items if item in shared]
    return [system.on(items) for system in systems], 1.0 - len(items) / len(everything)


def same_items(n: int, left_out: float) -> Check:
    """Say whether all systems were scored on the same n items, but for a share of them."""
    if left_out <= 0.05:
        return Check(CheckName.ITEMS, Finding.PASSED, f"scored on the same {n} items")
    sentence = f"{left_out:.0%} of the items were not answered by all systems"
    return Check(CheckName.ITEMS, Finding.FAILED, sentence)


def same_training(seen: tuple[Training, Training] | None) -> Check:
    """The first may have been trained on no other data, and no longer, than what it is to beat."""
    if seen is None:
        sentence = "what the two were trained on, and how long, is not known"
        return Check(CheckName.TRAINING, Finding.MISSING, sentence)
    mine, theirs = seen
    if theirs.examples == 0:
        sentence = "the second was not trained: whether training helps is the question"
        return Check(CheckName.TRAINING, Finding.PASSED, sentence)
    if mine.data != theirs.data:
        sentence = "the two were trained on different data"
        return Check(CheckName.TRAINING, Finding.FAILED, sentence)
    if theirs.examples is None:
        sentence = "trained on the same data, the second until more of it changed nothing"
        return Check(CheckName.TRAINING, Finding.PASSED, sentence)
    if mine.examples is None or mine.examples > theirs.examples:
        own = "without a limit" if mine.examples is None else f"on {mine.examples:,} examples"
        sentence = f"trained for longer: {own}, the second on {theirs.examples:,}"
        return Check(CheckName.TRAINING, Finding.FAILED, sentence)
    sentence = f"trained on the same data, {mine.examples:,} examples against {theirs.examples:,}"
    return Check(CheckName.TRAINING, Finding.PASSED, sentence)


def above_zero(
    name: str, found: Difference, interval: Interval | None, p_holm: float, bootstrap: Bootstrap
) -> Check:
    """Say whether a difference is above zero by its interval and by its corrected p."""
    seen = f"{found.value:+.3f} {interval} (Holm p = {p_holm:.4f})"
    if holds(interval, p_holm, bootstrap):
        return Check(CheckName.DIFFERENCE, Finding.PASSED, f"the difference {seen} is above zero")
    sentence = f"the difference {seen} may be zero"
    if interval is not None and interval.high < 0.0:
        sentence = f"{name} is worse: {seen}"
    return Check(CheckName.DIFFERENCE, Finding.FAILED, sentence)


def holds(interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> bool:
    """Whether both the interval and the corrected p say that a difference is above zero."""
    return interval is not None and interval.above(0.0) and p_holm < 1.0 - bootstrap.level


def _recall_kept(first: Runs, second: Runs) -> Check:
    mine, theirs = first.score(Metric.MIN_CLASS_RECALL), second.score(Metric.MIN_CLASS_RECALL)
    needed = RECALL_KEPT * theirs
    sentence = f"smallest recall {mine:.3f} against {theirs:.3f} (at least {needed:.3f} is needed)"
    passed = mine >= needed
    return Check(CheckName.RECALL, Finding.PASSED if passed else Finding.FAILED, sentence)


def one_model(seen: ParityRecord | None) -> Check:
    """Say whether sampler and trainer agreed to the bit."""
    if seen is None or seen.steps == 0:
        sentence = "sampler and trainer were not compared"
        return Check(CheckName.PARITY, Finding.MISSING, sentence)
    if seen.unequal_bits == 0:
        sentence = f"sampler and trainer agree in every bit over {seen.steps} steps"
        return Check(CheckName.PARITY, Finding.PASSED, sentence)
    sentence = f"sampler and trainer differ in {seen.unequal_bits} log-probabilities"
    return Check(CheckName.PARITY, Finding.FAILED, sentence)


@dataclass(frozen=True, slots=True)
class _Rival:
    """A simpler explanation, and how far the system is above it."""

    check: CheckName
    name: str
    metric: Metric
    gap: Difference


def _simpler(
    metric: Metric, systems: Sequence[Runs], evidence: Sequence[CheckName], bootstrap: Bootstrap
) -> list[_Rival]:
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
        *(
            (check, names[check], metric, other)
            for check, other in zip(evidence, systems[1:], strict=True)
        ),
    ]
    return [
        _Rival(check, name, by, difference(system, other, by, bootstrap))
        for check, name, by, other in against
    ]


def _above(rival: _Rival, p_holm: float, level: float, bootstrap: Bootstrap) -> Check:
    interval = rival.gap.at(level)
    seen = f"{rival.name}: {rival.gap.value:+.3f} {interval} on {rival.metric}"
    if holds(interval, p_holm, bootstrap):
        return Check(rival.check, Finding.PASSED, f"beats {seen}")
    return Check(rival.check, Finding.FAILED, f"does not beat {seen}")


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
