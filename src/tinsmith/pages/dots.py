"""Figures of figures with intervals: a dot for the value, a line for its interval, a row for each system."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tinsmith.pages.curves import Limit
from tinsmith.pages.drawing import WIDE, draw, one
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import ALARM, INK, LINE, MUTED, Mark, series_mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.34  # Inches of a row.


@dataclass(frozen=True, slots=True)
class Dots:
    """One quantity in every row: `values` (rows,), None where it is missing."""

    label: str
    mark: Mark
    values: Sequence[Measure | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: quantities that share an axis."""

    title: str
    dots: Sequence[Dots]
    limits: Sequence[Limit] = ()
    high: float | None = None  # Right end of the axis; 1 where it is None.
    low: float = 0.0  # Left end.


def dots_svg(
    name: str, label: str, rows: Sequence[str], panels: Sequence[Panel], *, width: float = 9.6
) -> Markup | None:
    """Draw panels side by side over the same rows; None where there is no value at all."""
    if not any(m is not None for panel in panels for dots in panel.dots for m in dots.values):
        return None
    most = max(len(panel.dots) for panel in panels)
    row = ROW + 0.1 * max(most - 1, 0)
    height = 0.95 + row * len(rows)

    def paint(figure: Figure) -> None:
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        figure.set_layout_engine(ConstrainedLayoutEngine(wspace=0.09))
        ratios = [1.0 if len(panel.dots) > 1 else 0.72 for panel in panels]
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False, gridspec_kw={"width_ratios": ratios})
        for axes, panel in zip(grid[0], panels, strict=True):
            _panel(axes, panel, rows)

    return draw(name, label, paint, width=width, height=height)


def log_dots_svg(
    name: str,
    label: str,
    rows: Sequence[str],
    dots: Sequence[tuple[str, Sequence[float | None]]],
    ticks: Sequence[float],
    *,
    unit: str = "",
    alarms: Collection[int] = (),
) -> Markup | None:
    """Draw quantities on an axis of powers of ten, zero at its left end; None where there is no row.

    `dots` are labels with values (rows,); `alarms` are rows whose names stand out.
    """
    if not rows:
        return None
    least = ticks[0] / 100

    def paint(figure: Figure) -> None:
        axes = one(figure)
        for place, (words, values) in enumerate(dots):
            mark, shift = series_mark(place), 0.6 * (place - (len(dots) - 1) / 2) / len(dots)
            found = [(max(value, least), row + shift) for row, value in enumerate(values) if value is not None]
            axes.plot(*zip(*found, strict=True), color=mark.color, marker=mark.marker, linestyle="none", label=words)
        axes.set_xscale("log")
        _rows(axes, rows)
        axes.set_xlim(least / 2, ticks[-1] * 2)
        axes.set_xticks([least, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
        axes.minorticks_off()
        axes.set_xlabel(unit)
        for row in alarms:
            axes.get_yticklabels()[row].set_color(ALARM)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, borderpad=0)

    return draw(name, label, paint, width=WIDE, height=1.1 + 0.35 * len(rows))


def _rows(axes: Axes, rows: Sequence[str]) -> None:
    """Name the rows, and part them by lines."""
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color=LINE, linewidth=0.7)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(axis="y", labelcolor=INK, length=0)


def _panel(axes: Axes, panel: Panel, rows: Sequence[str]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    count = len(panel.dots)
    for place, dots in enumerate(panel.dots):
        shift = (place - (count - 1) / 2) * (0.62 / max(count, 1))
        for row, measure in enumerate(dots.values):
            if measure is None or not math.isfinite(measure.value):
                continue
            _dot(axes, row + shift, measure, dots.mark)
    for limit in panel.limits:
        axes.axvline(limit.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            limit.label,
            (limit.value, 0.0),
            xycoords=("data", "axes fraction"),
            xytext=(2.5, 3),
            textcoords="offset points",
            fontsize=7.5,
            color=MUTED,
        )
    axes.xaxis.set_major_locator(MaxNLocator(5))
    _rows(axes, rows)
    high = panel.high or 1.0
    low = panel.low
    axes.set_xlim(1.04 * low - 0.04 * high, 1.04 * high - 0.04 * low)
    axes.set_title(panel.title, pad=20 if count > 1 else 6)
    if count > 1:
        handles = [
            Line2D([], [], color=d.mark.color, marker=d.mark.marker, linestyle="none", label=d.label)
            for d in panel.dots
        ]
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=len(handles),
            handletextpad=0.1,
            columnspacing=0.6,
            borderpad=0,
            fontsize=7.8,
        )


def _dot(axes: Axes, y: float, measure: Measure, mark: Mark) -> None:
    if measure.low is not None and measure.high is not None:
        axes.plot([measure.low, measure.high], [y, y], color=mark.color, linewidth=1.6, alpha=0.55)
    axes.plot([measure.value], [y], color=mark.color, marker=mark.marker, markersize=5)
