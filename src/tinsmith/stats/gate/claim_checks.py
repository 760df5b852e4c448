"""The checks that all claims share, and how a difference and its checks become a claim, whatever is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.gate.claim import Check, CheckName, Claim, ClaimKind, Finding, Training
from tinsmith.stats.intervals import Interval
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.significance import holm


@dataclass(frozen=True, slots=True)
class Rival:
    """A simpler explanation, and how far the system is above it."""

    check: CheckName
    name: str
    metric: str
    gap: Difference


def ruled(
    names: tuple[str, str],
    metric: str,
    gap: Difference,
    corrected: tuple[float, float],
    seeds: tuple[int, ...],
    num_items: int,
    checks: tuple[Check, ...],
    kind: ClaimKind = ClaimKind.BEATS,
) -> Claim:
    """Return the claim on a difference; `corrected` is what `corrected_levels` leaves to it."""
    p_holm, level = corrected
    return Claim(
        kind=kind,
        first=names[0],
        second=names[1],
        metric=metric,
        value=gap.value,
        interval=gap.at(level),
        p_value=gap.p_value,
        p_holm=p_holm,
        seeds=seeds,
        num_items=num_items,
        checks=checks,
    )


def ruled_learned(
    system: str,
    metric: str,
    near: Rival,
    corrected: tuple[float, float],
    num_seeds: int,
    num_items: int,
    checks: tuple[Check, ...],
) -> Claim:
    """Return the claim that a system learned something, beside the explanation that comes nearest."""
    return ruled(
        (system, near.name), metric, near.gap, corrected, (num_seeds,), num_items, checks, kind=ClaimKind.LEARNED
    )


def nearest_of(rivals: Sequence[Rival]) -> Rival:
    """Return the explanation that comes nearest: of the largest p, and of these the smallest difference."""
    return max(rivals, key=lambda rival: (rival.gap.p_value, -rival.gap.value))


def corrected_levels(p_values: Sequence[float], bootstrap: Bootstrap) -> list[tuple[float, float]]:
    """Return each claim's p after Holm's correction, and the level it leaves to the claim's intervals."""
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = {place: 1.0 - (1.0 - bootstrap.level) / (len(p_values) - rank) for rank, place in enumerate(by_size)}
    return [(p_holm, levels[place]) for place, p_holm in enumerate(holm(list(p_values)))]


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


def above_zero(name: str, found: Difference, interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> Check:
    """Say whether a difference is above zero by its interval and by its corrected p."""
    seen = f"{found.value:+.3f} {interval} (Holm p = {p_holm:.4f})"
    if holds(interval, p_holm, bootstrap):
        return Check(CheckName.DIFFERENCE, Finding.PASSED, f"the difference {seen} is above zero")
    sentence = f"the difference {seen} may be zero"
    if interval is not None and interval.high < 0.0:
        sentence = f"{name} is worse: {seen}"
    return Check(CheckName.DIFFERENCE, Finding.FAILED, sentence)


def above(rival: Rival, p_holm: float, level: float, bootstrap: Bootstrap) -> Check:
    """Say whether the system is above a simpler explanation."""
    interval = rival.gap.at(level)
    seen = f"{rival.name}: {rival.gap.value:+.3f} {interval} on {rival.metric}"
    if holds(interval, p_holm, bootstrap):
        return Check(rival.check, Finding.PASSED, f"beats {seen}")
    return Check(rival.check, Finding.FAILED, f"does not beat {seen}")


def holds(interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> bool:
    """Whether both the interval and the corrected p say that a difference is above zero."""
    return interval is not None and interval.above(0.0) and p_holm < 1.0 - bootstrap.level


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
