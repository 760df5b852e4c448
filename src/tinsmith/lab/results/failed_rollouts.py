"""The table of rollouts that came to nothing, by cause."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.results.gathering import Cause
from tinsmith.pages.tables import Table, TableRow, column, text, whole


def failures_table(failures: Mapping[Cause, int], *, what: str = "rollout", where: str = "score") -> Table | None:
    """Return how many failed for each cause, in the order given; None where none did.

    `what` they are called on the page, and `where` what they are left out of.
    """
    if not failures:
        return None
    return Table(
        caption=f"A failed {what} has no reward and is in no {where}.",
        heads=(text("Where"), text("What happened"), text("Split"), column(f"{what}s")),
        rows=tuple(
            TableRow(
                name=text(cause.where or "not stated"),
                cells=(text(cause.what or "not stated"), text(cause.split), whole(count)),
            )
            for cause, count in failures.items()
        ),
    )
