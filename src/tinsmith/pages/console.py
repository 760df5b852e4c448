"""A comparison on a terminal: a line for every run, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tinsmith.types.visible import visible


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
