"""Pictures of values: curves over steps with bands, limits and alarms, or values side by side with intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from tinsmith.pages.drawing import ALARM, HEIGHT, INK, LINE, MUTED, WIDE, Mark, draw, one, series_mark
from tinsmith.pages.measures import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LEGEND_WIDTH = 84  # Characters that fit above a figure, 7 of them for every line's sample.
_LEGEND_ROWS, _LEGEND_ROW = 4, 0.17  # Rows that a figure has place for; inches that it grows by for each further one.
MOST_POINTS = 1000  # Of a line; of more, every so many are drawn.
NOISY = 60  # Points from which a line is drawn thin, with its running mean thick.


@dataclass(frozen=True, slots=True)
class Line:
    """Quantity over the steps: `steps` and `values` (n,), `low` and `high` (n,) with a band."""

    label: str
    mark: Mark
    steps: Sequence[int]
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """A level that a quantity is compared with."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Flag:
    """Position of an alarm on a figure, and its number in the table of alarms."""

    number: int
    step: int
    value: float | None
    mark: Mark | None


def chart_svg(
    name: str,
    label: str,
    lines: Sequence[Line],
    *,
    axis: str = "step",
    unit: str = "",
    shares: bool = False,
    limits: Sequence[Limit] = (),
    flags: Sequence[Flag] = (),
) -> Markup | None:
    """Draw lines over the steps, or over another axis; None if they have no point.

    `name` is unique on the page, `label` is for a screen reader; `shares` says that all values lie in [0, 1].
    """
    lines = [line for line in lines if len(line.steps)]
    if not lines:
        return None
    columns = legend_columns([line.label for line in lines])

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = one(figure)
        for line in lines:
            _line(axes, line)
        last = max(line.steps[-1] for line in lines)
        first = min(line.steps[0] for line in lines)
        axes.set_xlim(first - 0.02 * max(last - first, 1), last + 0.02 * max(last - first, 1))
        if shares:
            axes.set_ylim(-0.03, 1.03)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        _limits(axes, limits)
        _flags(axes, flags)
        if first == last:
            axes.set_xticks([first])
        else:
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel(axis)
        if unit:
            axes.set_ylabel(unit)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=columns,
            handlelength=2.4,
            columnspacing=1.2,
            borderpad=0.1,
        )

    return draw(
        name, label, paint, height=HEIGHT + _LEGEND_ROW * max(0, math.ceil(len(lines) / columns) - _LEGEND_ROWS)
    )


def legend_columns(labels: Sequence[str]) -> int:
    """Return the number of columns of a legend that fits above a figure, filled column by column."""
    for columns in range(len(labels), 1, -1):
        in_columns = np.array_split([len(label) for label in labels], columns)
        if sum(int(lengths.max()) + 7 for lengths in in_columns) <= LEGEND_WIDTH:
            return columns
    return 1


def _line(axes: Axes, line: Line) -> None:
    color = line.mark.color
    steps, values = np.asarray(line.steps), np.asarray(line.values, np.float64)
    if line.low is not None and line.high is not None:
        axes.fill_between(steps, line.low, line.high, color=color, alpha=0.16, linewidth=0)
    if len(steps) > NOISY:
        smooth = running_mean(values, smoothing(len(steps)))
        # More points than a screen has pixels would only make the page heavy.
        stride = math.ceil(len(steps) / MOST_POINTS)
        axes.plot(steps[::stride], values[::stride], color=color, linewidth=0.7, alpha=0.35)
        axes.plot(steps[::stride], smooth[::stride], color=color, linestyle=line.mark.dash, label=line.label)
        return
    axes.plot(steps, values, color=color, linestyle=line.mark.dash, marker=line.mark.marker, label=line.label)


def smoothing(points: int) -> int:
    """Return the window of a running mean in steps, an odd number; 1 for none."""
    return 1 if points <= NOISY else 2 * max(2, points // 60) + 1


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Return the centred running mean of `width` values, (n,), over fewer at the ends."""
    # A window is summed by itself: of a running sum one value that is very large would stay in all later ones.
    reach = [min(place, len(values) - 1 - place, width // 2) for place in range(len(values))]
    return np.array([values[place - one : place + one + 1].mean() for place, one in enumerate(reach)])


def _annotated(
    axes: Axes,
    words: str,
    at: tuple[float, float],
    coords: tuple[str, str],
    offset: tuple[float, float],
    color: str,
    size: float,
    weight: str = "normal",
) -> None:
    """Annotate a point of a figure, with an offset in points."""
    axes.annotate(words, at, offset, coords, "offset points", color=color, fontsize=size, fontweight=weight)


def _limits(axes: Axes, limits: Sequence[Limit]) -> None:
    for limit in limits:
        axes.axhline(limit.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        _annotated(axes, limit.label, (0.0, limit.value), ("axes fraction", "data"), (2, 2.5), MUTED, 7.5)


def _flags(axes: Axes, flags: Sequence[Flag]) -> None:
    rows: dict[int, int] = {}
    for flag in flags:
        row = rows[flag.step] = rows.get(flag.step, -1) + 1
        if row == 0:
            axes.axvline(flag.step, color=ALARM, linewidth=1.0, linestyle=(0, (1.5, 1.5)))
        words, place = f"A{flag.number}" if flag.number else "", (3, -8 - 10 * row)
        above = ("data", "axes fraction")
        _annotated(axes, words, (flag.step, 1.0), above, place, ALARM, 8, "bold")
        if flag.value is not None and math.isfinite(flag.value) and flag.mark is not None:
            axes.plot(
                [flag.step],
                [flag.value],
                marker=flag.mark.marker,
                markersize=7,
                markerfacecolor="none",
                markeredgecolor=ALARM,
                markeredgewidth=1.6,
                linestyle="none",
            )


ROW = 0.34  # Inches of a row.


@dataclass(frozen=True, slots=True)
class Dots:
    """Quantity by row: `values` (rows,), None if missing."""

    label: str
    mark: Mark
    values: Sequence[Measure | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Panel of quantities that share an axis."""

    title: str
    dots: Sequence[Dots]
    limits: Sequence[Limit] = ()
    high: float | None = None  # Right end of the axis; 1 where it is None.
    low: float = 0.0  # Left end.


def dots_svg(
    name: str, label: str, rows: Sequence[str], panels: Sequence[Panel], *, width: float = 9.6
) -> Markup | None:
    """Draw panels side by side over the same rows; None without any value."""
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
    """Label the rows, and separate them by lines."""
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
        _annotated(axes, limit.label, (limit.value, 0.0), ("data", "axes fraction"), (2.5, 3), MUTED, 7.5)
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
