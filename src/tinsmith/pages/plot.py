"""A figure of the pages on its own: it shows itself in a notebook, and saves itself as an SVG file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from tinsmith.pages.page import resource, write
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure as `plot()` returns it."""

    svg: str = field(repr=False)
    """A whole SVG file, in the light colours of the pages."""

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
