"""Claims: what is claimed, its checks in words, the verdict that follows, and the checks that all claims share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.intervals import Interval
from tinsmith.stats.rates import metric_words

ENOUGH_SEEDS = 5  # With fewer trained models a side, a claim is about those models and not about the method.


class Verdict(StrEnum):
    """What may be printed."""

    ALLOWED = "allowed"
    REFUSED = "refused"


class ClaimKind(StrEnum):
    """What is claimed."""

    BEATS = "beats"  # One system scores higher than another, both trained on the same data and as long.
    LEARNED = "learned"  # A system knows something that no constant, no metadata, no chance and no leak explains.


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

    data: str  # Fingerprint of the slice.
    examples: int | None
    """Papers seen, each as often as it was; None: fitted until more of them change nothing, as a baseline is."""


@dataclass(frozen=True, slots=True)
class ParityRecord:
    """Comparisons of the sampler's and the trainer's log-probabilities over a whole run."""

    steps: int
    unequal_bits: int  # Sum over the steps.


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim with its verdict, and every check in words."""

    kind: ClaimKind
    first: str
    second: str  # What is beaten; of something learned, the simpler explanation that comes nearest.
    metric: str
    value: float  # first minus second.
    interval: Interval | None  # Of the difference, at the level Holm's correction leaves to this claim.
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


@dataclass(frozen=True, slots=True)
class Rival:
    """A simpler explanation, and how far the system is above it."""

    check: CheckName
    name: str
    metric: str
    gap: Difference


def checked(name: CheckName, passed: bool | None, sentence: str) -> Check:
    """Return a check by its outcome; None: the evidence for it is missing."""
    finding = Finding.MISSING if passed is None else Finding.PASSED if passed else Finding.FAILED
    return Check(name, finding, sentence)


def same_items(n: int, left_out: float) -> Check:
    """Say whether all systems were scored on the same n items, but for a share of them."""
    passed = left_out <= 0.05
    left = f"{left_out:.0%} of the items were not answered by all systems"
    return checked(CheckName.ITEMS, passed, f"scored on the same {n} items" if passed else left)


def same_training(seen: tuple[Training, Training] | None) -> Check:
    """The first may have been trained on no other data, and no longer, than what it is to beat."""
    check = partial(checked, CheckName.TRAINING)
    if seen is None:
        return check(None, "what the two were trained on, and how long, is not known")
    mine, theirs = seen
    if theirs.examples == 0:
        return check(True, "the second was not trained: whether training helps is the question")
    if mine.data != theirs.data:
        return check(False, "the two were trained on different data")
    if theirs.examples is None:
        return check(True, "trained on the same data, the second until more of it changed nothing")
    if mine.examples is None or mine.examples > theirs.examples:
        own = "without a limit" if mine.examples is None else f"on {mine.examples:,} examples"
        return check(False, f"trained for longer: {own}, the second on {theirs.examples:,}")
    return check(True, f"trained on the same data, {mine.examples:,} examples against {theirs.examples:,}")


def above_zero(name: str, found: Difference, interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> Check:
    """Say whether a difference is above zero by its interval and by its corrected p."""
    seen = f"{found.value:+.3f} {interval} (Holm p = {p_holm:.4f})"
    passed = _holds(interval, p_holm, bootstrap)
    sentence = f"the difference {seen} {'is above' if passed else 'may be'} zero"
    if interval is not None and interval.high < 0.0:
        sentence = f"{name} is worse: {seen}"
    return checked(CheckName.DIFFERENCE, passed, sentence)


def above(rival: Rival, p_holm: float, level: float, bootstrap: Bootstrap) -> Check:
    """Say whether the system is above a simpler explanation."""
    interval = rival.gap.at(level)
    passed = _holds(interval, p_holm, bootstrap)
    seen = f"{rival.name}: {rival.gap.value:+.3f} {interval} on {metric_words(rival.metric)}"
    return checked(rival.check, passed, f"{'beats' if passed else 'does not beat'} {seen}")


def _holds(interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> bool:
    """True if both the interval and the corrected p say that a difference is above zero."""
    return interval is not None and interval.above(0.0) and p_holm < 1.0 - bootstrap.level


def one_model(seen: ParityRecord | None) -> Check:
    """Say whether sampler and trainer agreed to the bit."""
    if seen is None or seen.steps == 0:
        return checked(CheckName.PARITY, None, "sampler and trainer were not compared")
    equal = seen.unequal_bits == 0
    agreed = f"sampler and trainer agree in every bit over {seen.steps} steps"
    return checked(
        CheckName.PARITY,
        equal,
        agreed if equal else f"sampler and trainer differ in {seen.unequal_bits} log-probabilities",
    )
