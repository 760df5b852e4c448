"""The claim gate: "A beats B on a metric" is allowed only if nothing simpler explains the difference.

A claim needs every one of its checks; a check without its evidence refuses as a failed one does. That
all must pass makes one claim an intersection of tests, which needs no correction (Berger 1982); the
family of claims made together is corrected by Holm.
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


class CheckName(StrEnum):
    """One reason a claim can fail for."""

    ITEMS = "same items"
    DIFFERENCE = "difference"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The claim "first beats second on metric" and the evidence for it; None where there is none."""

    first: Runs
    second: Runs
    metric: Metric = Metric.MACRO_F1
    metadata: Runs | None = None
    """The baseline that sees year, citations and field alone."""
    control: Runs | None = None
    """`first` trained in the same way on shuffled labels."""
    parity: ParityRecord | None = None
    """Sampler against trainer over the training steps of `first`."""

    def __post_init__(self) -> None:
        if self.metric not in _RISING:
            raise ConfigError(
                "a claim needs a score that is better when higher",
                field="metric",
                value=self.metric.value,
                allowed=", ".join(_RISING),
            )


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with its verdict, and every check in words."""

    first: str
    second: str
    metric: Metric
    value: float
    """first minus second."""
    interval: Interval | None
    """Of the difference, at the level Holm's correction leaves to this claim."""
    p_value: float
    p_holm: float
    seeds: tuple[int, int]
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
        if min(self.seeds) >= ENOUGH_SEEDS:
            return f"the method, over {self.seeds[0]} and {self.seeds[1]} seeds"
        return (
            f"these trained models only ({self.seeds[0]} and {self.seeds[1]} seeds; "
            f"{ENOUGH_SEEDS} a side speak for the method)"
        )

    def sentence(self) -> str:
        """Return the one line to print."""
        ends = f" {self.interval}" if self.interval else ""
        if self.verdict is Verdict.ALLOWED:
            return (
                f"{self.first} beats {self.second} on {self.metric}: {self.value:+.3f}{ends}, "
                f"n = {self.num_items}; {self.scope}"
            )
        return (
            f"not claimed: {self.first} beats {self.second} on {self.metric} "
            f"({self.value:+.3f}{ends}, n = {self.num_items}): {'; '.join(self.reasons)}"
        )


def judge(comparisons: Sequence[Comparison], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge a family of claims: Holm's correction runs over all of `comparisons`.

    Items that one of a comparison's systems did not answer are left out of all of them; more than a
    twentieth of them refuses the claim.

    Raises:
        DataError: systems with other labels or other true labels, or without a common item.
    """
    shared = [_on_shared_items(comparison) for comparison in comparisons]
    differences = [difference(c.first, c.second, c.metric, bootstrap) for c, _ in shared]
    adjusted = holm([one.p_value for one in differences])
    by_size = sorted(range(len(shared)), key=lambda i: differences[i].p_value)
    claims: list[Claim] = []
    for i, (comparison, left_out) in enumerate(shared):
        level = 1.0 - (1.0 - bootstrap.level) / (len(shared) - by_size.index(i))
        interval = differences[i].at(level)
        checks = (
            _items(comparison, left_out),
            _difference(comparison, differences[i], interval, adjusted[i], bootstrap),
            _against_constant(comparison, bootstrap),
            _against_metadata(comparison, bootstrap),
            _against_chance(comparison, bootstrap),
            _recall_kept(comparison),
            _against_control(comparison, bootstrap),
            _one_model(comparison),
        )
        claims.append(
            Claim(
                comparison.first.name,
                comparison.second.name,
                comparison.metric,
                differences[i].value,
                interval,
                differences[i].p_value,
                adjusted[i],
                (comparison.first.num_seeds, comparison.second.num_seeds),
                comparison.first.num_items,
                checks,
            )
        )
    return tuple(claims)


def _on_shared_items(comparison: Comparison) -> tuple[Comparison, float]:
    """Return the comparison on the items all its systems answered, and the share left out."""
    given = [comparison.first, comparison.second, comparison.metadata, comparison.control]
    systems = [system for system in given if system is not None]
    shared = set(systems[0].items).intersection(*(system.items for system in systems[1:]))
    everything = set(systems[0].items).union(*(system.items for system in systems[1:]))
    items = [item for item in systems[0].items if item in shared]
    restricted = Comparison(
        first=comparison.first.on(items),
        second=comparison.second.on(items),
        metric=comparison.metric,
        metadata=comparison.metadata.on(items) if comparison.metadata else None,
        control=comparison.control.on(items) if comparison.control else None,
        parity=comparison.parity,
    )
    return restricted, 1.0 - len(items) / len(everything)


def _items(comparison: Comparison, left_out: float) -> Check:
    n = comparison.first.num_items
    if left_out <= 0.05:
        return Check(CheckName.ITEMS, Finding.PASSED, f"scored on the same {n} items")
    sentence = f"{left_out:.0%} of the items were not answered by all systems"
    return Check(CheckName.ITEMS, Finding.FAILED, sentence)


def _difference(
    comparison: Comparison,
    found: Difference,
    interval: Interval | None,
    p_holm: float,
    bootstrap: Bootstrap,
) -> Check:
    seen = f"{found.value:+.3f} {interval} (Holm p = {p_holm:.4f})"
    if interval is not None and interval.above(0.0) and p_holm < 1.0 - bootstrap.level:
        return Check(CheckName.DIFFERENCE, Finding.PASSED, f"the difference {seen} is above zero")
    sentence = f"the difference {seen} may be zero"
    if interval is not None and interval.high < 0.0:
        sentence = f"{comparison.first.name} is worse: {seen}"
    return Check(CheckName.DIFFERENCE, Finding.FAILED, sentence)


def _against_constant(comparison: Comparison, bootstrap: Bootstrap) -> Check:
    first = comparison.first
    golds = [first.labels[code] for code in first.golds]
    label = best_constant(first.labels, golds, comparison.metric)
    constant = Runs.constant(first, label)
    return _beats(CheckName.CONSTANT, comparison, constant, f"always {label}", bootstrap)


def _against_metadata(comparison: Comparison, bootstrap: Bootstrap) -> Check:
    if comparison.metadata is None:
        sentence = "no metadata-only baseline was scored on these items"
        return Check(CheckName.METADATA, Finding.MISSING, sentence)
    name = "the metadata-only baseline"
    return _beats(CheckName.METADATA, comparison, comparison.metadata, name, bootstrap)


def _against_chance(comparison: Comparison, bootstrap: Bootstrap) -> Check:
    chance = 1.0 / len({int(code) for code in comparison.first.golds})
    found = estimate(comparison.first, Metric.BALANCED_ACCURACY, bootstrap)
    if found.interval is not None and found.interval.above(chance):
        sentence = f"balanced accuracy {found} is above chance ({chance:.3f})"
        return Check(CheckName.CHANCE, Finding.PASSED, sentence)
    sentence = f"balanced accuracy {found} is not above chance ({chance:.3f})"
    return Check(CheckName.CHANCE, Finding.FAILED, sentence)


def _recall_kept(comparison: Comparison) -> Check:
    mine = comparison.first.score(Metric.MIN_CLASS_RECALL)
    theirs = comparison.second.score(Metric.MIN_CLASS_RECALL)
    needed = RECALL_KEPT * theirs
    sentence = f"smallest recall {mine:.3f} against {theirs:.3f} (at least {needed:.3f} is needed)"
    passed = mine >= needed
    return Check(CheckName.RECALL, Finding.PASSED if passed else Finding.FAILED, sentence)


def _against_control(comparison: Comparison, bootstrap: Bootstrap) -> Check:
    """The control must have learnt nothing, and the gain must be more than the control's."""
    control = comparison.control
    if control is None:
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
    name = "the same method trained on shuffled labels"
    return _beats(CheckName.CONTROL, comparison, control, name, bootstrap)


def _one_model(comparison: Comparison) -> Check:
    seen = comparison.parity
    if seen is None or seen.steps == 0:
        sentence = "sampler and trainer were not compared"
        return Check(CheckName.PARITY, Finding.MISSING, sentence)
    if seen.unequal_bits == 0:
        sentence = f"sampler and trainer agree in every bit over {seen.steps} steps"
        return Check(CheckName.PARITY, Finding.PASSED, sentence)
    sentence = f"sampler and trainer differ in {seen.unequal_bits} log-probabilities"
    return Check(CheckName.PARITY, Finding.FAILED, sentence)


def _beats(
    name: CheckName, comparison: Comparison, other: Runs, shown: str, bootstrap: Bootstrap
) -> Check:
    found = difference(comparison.first, other, comparison.metric, bootstrap)
    seen = f"{found.value:+.3f} {found.interval} on {comparison.metric}"
    if found.interval is not None and found.interval.above(0.0):
        return Check(name, Finding.PASSED, f"beats {shown}: {seen}")
    return Check(name, Finding.FAILED, f"does not beat {shown}: {seen}")
