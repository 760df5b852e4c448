"""Claims as a page shows them: the verdict first, then the difference, then every reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.analysis.claims import Check, Finding, Verdict
from tinsmith.reports.judging import METRIC, Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """One claim."""

    claim: str
    allowed: bool
    difference: str
    interval: str
    p_holm: str
    num_items: str
    scope: str
    note: str
    reasons: tuple[str, ...]
    passed: tuple[str, ...]
    """What else speaks for a claim that is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTable:
    """All claims of a page, the allowed ones first."""

    metric: str
    rows: tuple[ClaimRow, ...]

    @property
    def allowed(self) -> int:
        """How many hold."""
        return sum(row.allowed for row in self.rows)


def claims_table(judged: Sequence[Judged]) -> ClaimTable:
    """Return the table of claims."""
    rows = [_row(one) for one in judged]
    return ClaimTable(
        metric=METRIC.value, rows=tuple(sorted(rows, key=lambda row: not row.allowed))
    )


def _row(one: Judged) -> ClaimRow:
    allowed = one.verdict is Verdict.ALLOWED
    return ClaimRow(
        claim=f"{one.first} beats {one.second}",
        allowed=allowed,
        difference="missing" if one.value is None else f"{one.value:+.3f}",
        interval=""
        if one.interval is None
        else f"{one.interval.low:+.3f} to {one.interval.high:+.3f}",
        p_holm="missing" if one.p_holm is None else _probability(one.p_holm),
        num_items="missing" if one.num_items is None else f"{one.num_items:,}",
        scope=one.scope,
        note=one.note,
        reasons=tuple(_sentence(check) for check in one.checks if allowed or not check.passed)
        or one.reasons,
        passed=() if allowed else tuple(_sentence(check) for check in one.checks if check.passed),
    )


def _sentence(check: Check) -> str:
    words = f"{check.name.value}: {check.sentence}"
    return f"{words} (missing evidence)" if check.finding is Finding.MISSING else words


def _probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
