"""What a claim is: what is claimed, its checks in words, and the verdict that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tinsmith.stats.intervals import Interval

ENOUGH_SEEDS = 5
"""With fewer trained models a side, a claim is about those models and not about the method."""


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
