"""A figure of the pages on its own, as a notebook shows it and an SVG file keeps it; and a page within a notebook."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

from markupsafe import Markup

from tinsmith.pages.page import resource, write
from tinsmith.types.errors import DataError

_HEIGHT: Final = 640


def framed(page: str) -> str:
    """Return a whole page in a frame of its own, whose script cannot reach the notebook."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8884"></iframe>'
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text below their headings."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure as `plot()` returns it."""

    svg: str = field(repr=False)  # A whole SVG file, in the light colours of the pages.

    def save(self, path: str | Path) -> Path:
        """Write it to a file, whose name ends in .svg by custom; return the file."""
        write(self.svg, Path(path))
        return Path(path)

    def _repr_html_(self) -> str:
        return self.svg


def plot_of(svg: Markup | None, missing: str) -> Plot:
    """Return a page's figure with the colours that its page would give it.

    Raises:
        DataError: there is nothing to draw; `missing` says what.
    """
    if svg is None:
        raise DataError(missing)
    colours = re.search(r":root \{.*?(--.*?)\n\}", resource("page.css"), re.DOTALL)
    assert colours is not None, "the style sheet begins with the light colours"
    head, rest = svg.split(">", 1)
    style = f"<style>svg.figure {{ background: #ffffff; font-family: sans-serif; {colours[1]} }}</style>"
    return Plot(f"{head}>{style}{rest}")
