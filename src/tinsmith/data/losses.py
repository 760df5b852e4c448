"""Limit on the lost records of a table: a small share is counted, a larger one ends the build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinsmith.types.errors import DataError

SHARE = 0.01
"""Largest share of a table's lines, ids, edges or values that may be lost ..."""
FEW = 5
"""... or fewer than this number, as long as something is left."""
SKIP = "go on with what can be read by --skip-bad"

_SHOWN = 3
_TEXT = 100


@dataclass(slots=True)
class Cause:
    """Count of the records lost for one cause, with the first of them."""

    count: int = 0
    where: str = ""
    text: str = ""


@dataclass(slots=True)
class Tally:
    """Counts of one table's records, read and lost."""

    table: str
    unit: str = "lines"
    """Unit of the records, in the plural."""
    allowed: str | None = None
    """Expected form of the table."""
    read: int = 0
    causes: dict[str, Cause] = field(default_factory=dict[str, Cause])

    def lose(self, cause: str, count: int = 1, *, where: str = "", text: str = "") -> None:
        """Count lost records."""
        known = self.causes.setdefault(cause, Cause(0, where, text))
        known.count += count

    @property
    def lost(self) -> int:
        """Number of lost records."""
        return sum(cause.count for cause in self.causes.values())


def too_many(lost: int, total: int) -> bool:
    """Return True if `lost` of `total` exceed the limit."""
    return lost > 0 and (lost >= total or (lost >= FEW and lost > SHARE * total))


def require_few(tally: Tally) -> None:
    """Check that a table's losses are within the limit.

    Raises:
        DataError: they are not; the message has the counts by cause, and an example of the most frequent one.
    """
    total = tally.read + tally.lost
    if not too_many(tally.lost, total):
        return
    ranked = sorted(tally.causes.items(), key=lambda item: -item[1].count)
    reasons = [f"{cause.count:,} {name}" for name, cause in ranked[:_SHOWN]]
    if len(ranked) > _SHOWN:
        reasons.append(f"{sum(cause.count for _, cause in ranked[_SHOWN:]):,} others")
    is_encoded = ranked[0][0] == "not UTF-8"
    raise loss(
        f"{tally.table}: {tally.lost:,} of {total:,} {tally.unit} are lost: {', '.join(reasons)}",
        ranked[0][1],
        allowed="text in UTF-8 or UTF-16" if is_encoded else tally.allowed,
        repair="convert it (iconv -f LATIN1 -t UTF-8 FILE > NEW)" if is_encoded else "correct the file",
    )


def require_values(table: str, read: int, lost: Mapping[str, Cause]) -> None:
    """Check that each kind of value has few unreadable ones; `lost` is by their names.

    Raises:
        DataError: there are too many; the message has an example.
    """
    for name, cause in sorted(lost.items()):
        if too_many(cause.count, max(read, cause.count + 1)):
            raise loss(f"{table}: {cause.count:,} {name} cannot be read, in {read:,} records", cause)


def loss(what: str, example: Cause, *, allowed: str | None = None, repair: str = "correct the file") -> DataError:
    """Return the error about a loss, with an example."""
    shown = example.text if len(example.text) <= _TEXT else f"{example.text[:_TEXT]}..."
    value = {"value": shown} if shown else {}
    return DataError(what, field=example.where or None, **value, allowed=allowed, fix=f"{repair}, or {SKIP}")
