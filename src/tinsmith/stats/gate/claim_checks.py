"""The checks that all claims share, whatever is measured: same items, same training, above zero, above a rival."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.gate.claim import Check, CheckName, Finding, Training
from tinsmith.stats.intervals import Interval
from tinsmith.stats.parity import ParityRecord


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
    seen = f"{rival.name}: {rival.gap.value:+.3f} {interval} on {rival.metric}"
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
