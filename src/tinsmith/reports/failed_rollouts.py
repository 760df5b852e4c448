"""The table of rollouts that came to nothing, by cause."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.reports.gathering import Cause
from tinsmith.reports.tables import Table, TableRow, column, text, whole


def failures_table(failures: Mapping[Cause, int]) -> Table | None:
    """Return how many rollouts failed for each cause, in the order given; None where none did."""
    if not failures:
        return None
    return Table(
        caption="A failed rollout has no reward and is in no score.",
        heads=(text("Where"), text("What happened"), text("Split"), column("rollouts")),
        rows=tuple(
            TableRow(
                name=text(cause.where or "not stated"),
                cells=(text(cause.what or "not stated"), text(cause.split), whole(count)),
            )
            for cause, count in failures.items()
        ),
    )
