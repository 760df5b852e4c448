"""Claims as a page shows them, the two kinds apart: the verdict, the difference, and every reason in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.results.judging import METRIC, Judged
from tinsmith.pages.document import Block, ClaimRow, ClaimTable, Heading, missing, note
from tinsmith.stats.gate.claim import Check, Claim, ClaimKind, Finding, Verdict

HEADINGS: Final = {
    ClaimKind.BEATS: "One beats the other",
    ClaimKind.LEARNED: "Something was learned that nothing simpler explains",
}
_WORDS: Final = {
    ClaimKind.BEATS: (
        "Both were scored on the same papers and trained on the same data, the first for no longer than the second. A "
        "claim of this kind may hold although both lie below a baseline."
    ),
    ClaimKind.LEARNED: (
        "It lies above the best constant answer, the metadata-only baseline, chance, and the same method trained on "
        "shuffled labels. The difference is that to whichever of these comes nearest."
    ),
}
_ALONE: Final = "No claim is judged: the run has no answers to the test split, or its slice has no baselines."


def claim_sentence(claim: Claim) -> str:
    """Return the gate's line as a sentence; one that is allowed begins with an arm, whose name stays as it is."""
    sentence = claim.sentence()
    if claim.verdict is Verdict.ALLOWED:
        return f"{sentence}."
    return f"{sentence[0].upper()}{sentence[1:]}."


def claim_blocks(
    judged: Sequence[Judged], metric: str = METRIC.value, empty: Mapping[ClaimKind, str] | None = None
) -> tuple[Block, ...]:
    """Return both kinds of claim under their own headings; `empty` says why there is none of a kind."""
    blocks: list[Block] = []
    for kind, heading in HEADINGS.items():
        found = [one for one in judged if one.kind is kind]
        shown = claims_table(found, metric) if found else missing((empty or {}).get(kind, _ALONE))
        blocks += [Heading(heading), note(_WORDS[kind]), shown]
    return tuple(blocks)


def claims_table(judged: Sequence[Judged], metric: str = METRIC.value) -> ClaimTable:
    """Return a table of claims of one kind, which are one family."""
    rows = [_row(one) for one in judged]
    return ClaimTable(metric=metric, rows=tuple(sorted(rows, key=lambda row: not row.allowed)))


def _row(one: Judged) -> ClaimRow:
    allowed = one.verdict is Verdict.ALLOWED
    return ClaimRow(
        claim=one.words,
        allowed=allowed,
        difference="missing" if one.value is None else f"{one.value:+.3f}",
        interval="" if one.interval is None else f"{one.interval.low:+.3f} to {one.interval.high:+.3f}",
        p_holm="missing" if one.p_holm is None else _probability(one.p_holm),
        num_items="missing" if one.num_items is None else f"{one.num_items:,}",
        scope=one.scope,
        note=one.note,
        reasons=tuple(_sentence(check) for check in one.checks if allowed or not check.passed) or one.reasons,
        passed=() if allowed else tuple(_sentence(check) for check in one.checks if check.passed),
    )


def _sentence(check: Check) -> str:
    words = f"{check.name.value}: {check.sentence}"
    return f"{words} (missing evidence)" if check.finding is Finding.MISSING else words


def _probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
