"""What a card's page is made of, and how it becomes one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

_TEMPLATE = "card.html"


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the figures at the top."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG that was made here and is not escaped, and what it shows in a sentence or two."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells as text; the first column names the row."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    wide: bool = False
    """Text instead of numbers: aligned left, broken where it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the page."""

    anchor: str
    title: str
    texts: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What a reader must not overlook."""
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole card. All text in it is escaped when it is rendered, all but the SVGs."""

    kind: str
    title: str
    lead: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    foot: str

    def render(self) -> str:
        """Return the page as HTML; it loads nothing from anywhere."""
        environment = Environment(
            loader=PackageLoader("tinsmith.data"),
            autoescape=True,
            undefined=StrictUndefined,
            keep_trailing_newline=True,
        )
        return environment.get_template(_TEMPLATE).render(page=self)


def number(value: float | None) -> str:
    """Show a count, or a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}"


def share(part: int, whole: int) -> str:
    """Show a part of a whole in per cent."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    return "< 0.1 %" if part and percent < 0.05 else f"{percent:.1f} %"


def counted(counts: Mapping[str, int], whole: int) -> list[tuple[str, str, str]]:
    """Return rows of name, count and share of `whole`."""
    return [(name, number(count), share(count, whole)) for name, count in counts.items()]


def flattened(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """Return the leaves of nested mappings as rows of dotted name and text, in their order."""
    if isinstance(value, Mapping):
        rows: list[tuple[str, str]] = []
        for key, inner in value.items():
            rows += flattened(inner, f"{prefix}.{key}" if prefix else str(key))
        return rows
    if value is None:
        return [(prefix, "–")]
    return [(prefix, str(value).lower() if isinstance(value, bool) else str(value))]
