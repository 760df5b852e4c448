"""Claims as a page shows them: the verdict, the difference, and every reason in words."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.pages.document import ClaimRow, ClaimTable
from tinsmith.stats.gate.claim import Check, Claim, Finding, Verdict


def claims_table(claims: Sequence[Claim], metric: str) -> ClaimTable:
    """Return a table of claims of one kind, which are one family; allowed ones first."""
    rows = [_row(one) for one in claims]
    return ClaimTable(metric=metric, rows=tuple(sorted(rows, key=lambda row: not row.allowed)))


def _row(one: Claim) -> ClaimRow:
    allowed = one.verdict is Verdict.ALLOWED
    return ClaimRow(
        claim=one.words,
        allowed=allowed,
        difference=f"{one.value:+.3f}",
        interval="" if one.interval is None else f"{one.interval.low:+.3f} to {one.interval.high:+.3f}",
        p_holm="< 0.001" if one.p_holm < 0.001 else f"{one.p_holm:.3f}",
        num_items=f"{one.num_items:,}",
        scope=one.scope,
        reasons=tuple(_sentence(check) for check in one.checks if allowed or not check.passed),
        passed=() if allowed else tuple(_sentence(check) for check in one.checks if check.passed),
    )


def _sentence(check: Check) -> str:
    words = f"{check.name.value}: {check.sentence}"
    return f"{words} (missing evidence)" if check.finding is Finding.MISSING else words
