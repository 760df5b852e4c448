"""How a card's figures look, and how a matplotlib figure becomes an SVG that can stand in a page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK, SOFT, LINE, BARS = "#16202c", "#52606d", "#dfe4ea", "#51667a"
LABEL_COLOURS: Mapping[str, str] = {
    "disruptive": "#c8553d",
    "consolidating": "#2f6f9f",
    "neutral": "#9aa5b1",
    "novel": "#8a4f9e",
    "balanced": "#9aa5b1",
    "conventional": "#2a7f62",
}
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": "#b8c2cc",
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": "#b8c2cc",
    "ytick.color": "#b8c2cc",
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
WIDTH = 9.2
"""Of a drawing in inches; on the page it takes the page's width."""
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"


class Canvas:
    """A figure to draw on, whose SVG is the same bytes wherever and whenever it is made."""

    figure: Figure
    axes: Axes
    svg: str
    """Set when the block has ended."""

    def __init__(self, name: str, description: str, width: float, height: float) -> None:
        """Size in inches of the drawing; on the page it takes the page's width."""
        self._name = name
        self._description = description
        self._size = (width, height)
        # Ids within the SVG are hashed with the name, so that two drawings never share one.
        style: dict[Any, object] = {**_STYLE, "svg.hashsalt": f"tinsmith-{name}"}
        self._style = rc_context(style)

    def __enter__(self) -> Canvas:
        self._style.__enter__()
        self.figure = Figure(figsize=self._size, layout="constrained")
        FigureCanvasSVG(self.figure)
        self.axes = self.figure.add_subplot()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if exception[0] is None:
                file = io.StringIO()
                self.figure.savefig(file, format="svg", metadata=_NO_METADATA)
                self.svg = _inline(file.getvalue(), self._name, self._description)
        finally:
            self._style.__exit__(None, None, None)


def _inline(text: str, name: str, description: str) -> str:
    """Return the <svg> element alone, scalable, described, with ids that are unique in a page."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{name}-", svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", _FONT, svg)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)
    return re.sub(r"\n\s*", "\n", svg).strip()


def thousands(value: float, _: int | None = None) -> str:
    """Show a tick of a count."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:,.0f}"


def signed(value: float, _: int | None = None) -> str:
    """Show a tick with its true minus sign."""
    return f"{value:g}".replace("-", "−")
