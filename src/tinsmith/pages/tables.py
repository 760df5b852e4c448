"""Table of a page: heads, rows, cells; a missing value is stated in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar, cast

from tinsmith.pages.measures import Measure
from tinsmith.types.page_names import decimals

R = TypeVar("R")
Shown = Measure | str | None  # A cell: a figure, words, or nothing known.
LEADING: Final = ("difference", "gain", "macro-F1", "min recall", "balanced accuracy", "before", "after", "from", "to")
"""Heads of the columns that a reader looks for first."""
RIGHT, WRONG = "right-mark", "wrong-mark"  # Tones of what is well and what is not.
_SHOWN: Final = 3
_UNFOLDED: Final = 5  # Columns of numbers that a table may have without a fold.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Cell, or the name of a row or column."""

    text: str
    under: str = ""  # Smaller, below the text.
    number: bool = False
    missing: bool = False  # The text says why there is no value.
    exact: tuple[float, ...] = ()
    """The figure in full, and the ends of its interval, for a spreadsheet; empty where `text` is all."""
    tone: str = ""  # Class of the style sheet that colours it.
    verbatim: bool = False  # True of a text of a model or a person, shown line by line.


class RowKind(StrEnum):
    """Kind of a row."""

    PLAIN = "plain"
    CHOSEN = "chosen"
    GROUP = "group"  # A heading over the rows below it; it has no cells.


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """Row of a table."""

    name: Cell
    cells: tuple[Cell, ...] = ()
    kind: RowKind = RowKind.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table with its caption."""

    caption: str
    heads: tuple[Cell, ...]  # The first one stands over the rows' names.
    rows: tuple[TableRow, ...]
    cards: bool = False  # True if each row is a card on a narrow screen, below each other.

    @property
    def folded(self) -> tuple[int, ...]:
        """Columns in the fold: all numbers but the three most important."""
        numbers = [place for place, head in enumerate(self.heads) if place and head.number]
        if len(numbers) <= _UNFOLDED:
            return ()
        first = sorted(numbers, key=lambda place: (self.heads[place].text not in LEADING, place))[:_SHOWN]
        return tuple(place for place in numbers if place not in first)


def text(value: str, under: str = "") -> Cell:
    """Return a cell of words."""
    return Cell(text=value, under=under)


def absent(why: str = "missing") -> Cell:
    """Return a cell without a value."""
    return Cell(text=why, missing=True, number=True)


def measured(measure: Measure) -> Cell:
    """Return a cell with a value, its interval below it."""
    return _written(measure, Column(head=""))


def figure(formatted: str, measure: Measure, under: str = "") -> Cell:
    """Return a cell with a formatted value; the exact value is attached if it has more digits."""
    ends = () if measure.low is None or measure.high is None else (measure.low, measure.high)
    is_all = not ends and "%" not in formatted and float(formatted.replace(",", "")) == measure.value
    return Cell(text=formatted, under=under, number=True, exact=() if is_all else (measure.value, *ends))


def column(name: str, under: str = "") -> Cell:
    """Return the head of a column of numbers."""
    return Cell(text=name, under=under, number=True)


def plain(
    caption: str,
    heads: Sequence[str | Cell],
    rows: Iterable[Sequence[str | Cell | None] | TableRow],
    *,
    words: bool = False,
) -> Table:
    """Return a table of cells in their display form: numbers, or `words`; None is no value.

    The first cell of a row names it; a row of a name alone is a heading. What follows `|` in a head stands below it.
    """
    first, *others = heads
    return Table(
        caption=caption,
        heads=(_head(first, number=False), *(_head(one, number=not words) for one in others)),
        rows=tuple(row if isinstance(row, TableRow) else _row(row, number=not words) for row in rows),
    )


def _row(cells: Sequence[str | Cell | None], *, number: bool) -> TableRow:
    first, *others = cells
    return TableRow(
        name=first if isinstance(first, Cell) else text(first or ""),
        cells=tuple(
            one if isinstance(one, Cell) else absent("none") if one is None else Cell(text=one, number=number)
            for one in others
        ),
        kind=RowKind.PLAIN if others else RowKind.GROUP,
    )


def _head(head: str | Cell, *, number: bool) -> Cell:
    if isinstance(head, Cell):
        return head
    name, _, under = head.partition("|")
    return Cell(text=name, under=under, number=number)


def table_of(
    caption: str, rows: Iterable[R], *columns: tuple[str | Cell, Callable[[R], Cell]], cards: bool = False
) -> Table:
    """Return a table from columns of heads and functions of a row; the first column names the rows.

    A head in words stands over numbers, but for the first; what stands small below it follows a `|`.

    >>> table = table_of("", [2, 3], ("n", lambda n: text(str(n))), ("square|of n", lambda n: text(str(n * n))))
    >>> [cell.under for cell in table.heads], table.rows[1].cells[0].text
    (['', 'of n'], '9')
    """
    first, *others = columns
    return Table(
        caption=caption,
        heads=(_head(first[0], number=False), *(_head(head, number=True) for head, _ in others)),
        rows=tuple(TableRow(name=first[1](row), cells=tuple(cell(row) for _, cell in others)) for row in rows),
        cards=cards,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    head: str
    form: str = ".3f"
    missing: str = "not known"


def shown_table(
    caption: str, names: str, columns: Sequence[str | Column], rows: Sequence[Sequence[Shown]], *, cards: bool = False
) -> Table:
    """Return a table of values and words; a row begins with its name, with the part after `|` below it."""
    heads = [one if isinstance(one, Column) else Column(head=one) for one in columns]

    def column(place: int, spec: Column) -> tuple[str | Cell, Callable[[Sequence[Shown]], Cell]]:
        # At the left where all its cells are words.
        is_text = all(isinstance(row[place], str) for row in rows)
        return text(*spec.head.split("|", 1)) if is_text else spec.head, lambda row: _written(row[place], spec)

    def name(row: Sequence[Shown]) -> Cell:
        return text(*str(row[0]).split("|", 1))

    made = (column(place, one) for place, one in enumerate(heads, start=1))
    return table_of(caption, rows, (names, name), *made, cards=cards)


def _written(value: Shown, column: Column) -> Cell:
    """Return a cell with a value and its interval, or with words."""
    if value is None:
        return absent(column.missing)
    if isinstance(value, str):
        return text(value)
    ends = ""
    if value.low is not None and value.high is not None:
        between = " to " if column.form.startswith("+") else "\u2013"
        ends = f"{_figure(value.low, column.form)}{between}{_figure(value.high, column.form)}"
    return figure(_figure(value.value, column.form), value, ends)


def _figure(value: float, form: str) -> str:
    if form.endswith(".3f"):
        return decimals(value, form)
    shown = f"{round(value):,}" if form == "d" else format(value, form)
    return shown[1:] if form.startswith("+") and float(shown) == 0.0 else shown


def flattened(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested mappings as pairs of dotted name and text, in their order."""
    pairs: list[tuple[str, str]] = []
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping) and inner:
            pairs += flattened(cast(Mapping[str, object], inner), f"{name}.")
        else:
            pairs.append((name, shown(inner)))
    return pairs


def shown(value: object) -> str:
    """Return a setting in display form: words without quotes, lists and mappings in order."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key}: {shown(inner)}" for key, inner in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(shown(inner) for inner in value) + "]"
    return str(value)
