"""Consoles that show foreign text, and a comparison on a terminal: a line for every run, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tinsmith.types.visible import visible


class VisibleConsole(Console):
    """Console that escapes all text: tables contain names and messages of files, models and servers."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, with only the console's own control codes unescaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def render_str(self, text: str, **settings: Any) -> Text:  # noqa: ANN401, as they are there
        """Return an escaped line or cell, with the width of its escaped form."""
        return super().render_str(visible(text), **settings)


def console_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], beside: Sequence[Sequence[str]] = ()
) -> Table:
    """Return a table of runs, a name and figures under `heads` each; `beside` are rows below a line."""
    table = Table(title=Text(visible(title)), title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    names = max((len(visible(name)) for name, *_ in rows), default=0)
    table.add_column("run", no_wrap=True, min_width=names)
    for head in heads:
        # A head of two words may be broken where its figures are narrower.
        table.add_column(Text(visible(head)), justify="right", min_width=6)
    for group in (rows, beside):
        for name, *cells in group:
            table.add_row(Text(visible(name)), *(Text(visible(cell), no_wrap=True) for cell in cells))
        table.add_section()
    return table
