"""Figures as inline SVG with equal bytes for equal data, in the page's font, colours and marks.

Figures are drawn in stand-in colours, which become the page's CSS variables: one drawing serves light and dark.
The colours can be told apart with any colour vision, and each also has its own mark and dashes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Dash = str | tuple[int, tuple[float, ...]]

INK, MUTED, LINE, ALARM, INVALID, HEAT = (f"#0000{i:02x}" for i in range(1, 7))

_VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", ALARM: "--alarm", INVALID: "--invalid", HEAT: "--heat"}
_SERIES = 8
_SLOTS: Mapping[str, int] = {
    "disruptive": 0,
    "consolidating": 1,
    "neutral": 2,
    "novel": 3,
    "conventional": 4,
    "balanced": 2,
}
"""Slot of a known label; all labels between two extremes share a grey."""
_CLASSES = 6

_DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Mark:
    """Placeholder colour, dash pattern and marker."""

    color: str
    dash: Dash
    marker: str


INVALID_MARK = Mark(INVALID, (0, (1.2, 2.4)), "x")  # Of answers that satisfy no contract.


def class_slot(label: str, place: int) -> int:
    """Return the slot of a label's colour and shape; for an unknown label by its `place` in the task's order."""
    return _SLOTS.get(label, place % _CLASSES)


def class_mark(label: str, place: int) -> Mark:
    """Return the mark of the label at `place` in the task's order."""
    slot = class_slot(label, place)
    return Mark(f"#0001{slot:02x}", _DASHES[slot % len(_DASHES)], _MARKERS[slot])


def series_mark(place: int) -> Mark:
    """Return the mark of the run, term or quantity at `place` of its figure; 32 differ."""
    turn, slot = divmod(place, _SERIES)
    return Mark(f"#0002{slot:02x}", _DASHES[(slot + turn) % len(_DASHES)], _MARKERS[(slot + turn) % _SERIES])


def stand_ins() -> dict[str, str]:
    """Return every placeholder colour with its CSS value, `var(--...)`."""
    named = (
        _VARIABLES
        | {f"#0001{i:02x}": f"--class-{i}" for i in range(_CLASSES)}
        | {f"#0002{i:02x}": f"--series-{i}" for i in range(_SERIES)}
    )
    return {color: f"var({name})" for color, name in named.items()}


WIDTH, HEIGHT = 5.6, 2.8  # Inches of one figure; the page scales it.
WIDE = 9.6  # Inches of a figure as wide as the page.

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "font.family": ["DejaVu Sans"], "font.size": 9.0, "path.simplify": True,
    "text.color": INK, "text.parse_math": False, "figure.constrained_layout.use": True,
    "axes.edgecolor": LINE, "axes.labelcolor": MUTED, "axes.labelsize": 8.5, "axes.formatter.use_locale": False,
    "axes.titlecolor": INK, "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.titleweight": "normal",
    "axes.titlepad": 8.0, "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": LINE, "grid.linewidth": 0.7,
    "xtick.color": LINE, "xtick.labelcolor": MUTED, "xtick.labelsize": 8.5,
    "ytick.color": LINE, "ytick.labelcolor": MUTED, "ytick.labelsize": 8.5, "ytick.left": False,
    "legend.frameon": False, "legend.fontsize": 8.5, "legend.labelcolor": MUTED,
    "lines.linewidth": 1.7, "lines.markersize": 3.6,
}  # fmt: skip
_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}

Painter = Callable[["Figure"], None]


def draw(name: str, label: str, paint: Painter, *, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """Render a figure as an `<svg>` element.

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
    """Embed a whole SVG file in a page: without prologue and sizes, with unique ids and CSS colours."""
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
