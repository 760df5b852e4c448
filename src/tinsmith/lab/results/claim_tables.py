"""Claims as a page shows them: the verdict first, then the difference, then every reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinsmith.lab.results.judging import METRIC, Judged
from tinsmith.pages.document import Block, ClaimRow, ClaimTable, missing
from tinsmith.stats.claims import Check, Finding, Verdict

ALONE: Final = (
    "No claim is judged: the run has no answers to the test split, or its slice has no baselines."
)


def claims_block(judged: Sequence[Judged], empty: str = ALONE) -> Block:
    """Return the table of claims; `empty` says why there is none."""
    return claims_table(judged) if judged else missing(empty)


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
