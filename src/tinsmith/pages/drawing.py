"""Figures as inline SVG: the same bytes every time, in the page's colours and font, with ids of their own."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from tinsmith.pages.palette import INK, LINE, MUTED, stand_ins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 5.6, 2.8  # Inches of one figure; the page scales it.
WIDE = 9.6  # Inches of a figure as wide as the page.

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "normal",
    "axes.titlepad": 8.0,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.formatter.use_locale": False,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": LINE,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.color": LINE,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 8.5,
    "ytick.left": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.labelcolor": MUTED,
    "lines.linewidth": 1.7,
    "lines.markersize": 3.6,
    "figure.constrained_layout.use": True,
    "path.simplify": True,
}
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}

Painter = Callable[["Figure"], None]


def draw(name: str, label: str, paint: Painter, *, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """Paint a figure and return it as an `<svg>` element.

    `name` is unique on its page: it makes the ids. `label` is what a screen reader says.
    """
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # "default" first: what a reader's own matplotlib settings say must not change the page.
    with matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": name}]):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        paint(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata=_METADATA)
    return Markup(_inline(buffer.getvalue(), name, label))


def one(figure: Figure) -> Axes:
    """Return the only axes of a figure."""
    return figure.add_subplot()


def _inline(svg: str, name: str, label: str) -> str:
    """Make a whole SVG file part of a page: no prologue, no sizes, ids of its own, CSS colours."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"\s*<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # matplotlib hashes clips by corners that its layout solver may give in other last bits.
    for place, clip in enumerate(dict.fromkeys(re.findall(r'<clipPath id="([^"]+)"', svg))):
        svg = svg.replace(clip, f"clip{place}")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{name}-\2"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    view = re.search(r'viewBox="[^"]+"', svg)
    assert view is not None, "matplotlib writes a viewBox"
    head = (
        f'<svg class="figure" role="img" aria-label="{escape(label)}" {view[0]} '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    svg = head + svg[svg.index(">") + 1 :]
    # Every colour a painter uses is a stand-in; matplotlib writes colours in lower case.
    for color, variable in stand_ins().items():
        svg = svg.replace(color, variable)
    return svg
