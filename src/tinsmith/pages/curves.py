"""Figures over training steps: lines with their bands, limits, and marks where an alarm was raised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from tinsmith.pages.drawing import draw, one
from tinsmith.pages.palette import ALARM, MUTED, Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND_WIDTH = 84  # Characters that fit above a figure, 7 of them for every line's sample.
MOST_POINTS = 1000  # Of a line; of more, every so many are drawn.
NOISY = 60  # Points from which a line is drawn thin, with its running mean thick.


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity over the steps: `steps` and `values` (n,), `low` and `high` (n,) where there is a band."""

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
    """An alarm's place on a figure, and its number in the table of alarms."""

    number: int
    step: int
    value: float | None
    mark: Mark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Content of one figure over steps."""

    name: str  # Unique on the page.
    label: str  # For a screen reader.
    lines: Sequence[Line]
    axis: str = "step"  # Name of the axis from left to right.
    unit: str = ""
    shares: bool = False  # All values lie in [0, 1].
    limits: Sequence[Limit] = ()
    flags: Sequence[Flag] = ()


def chart_svg(chart: Chart) -> Markup | None:
    """Draw a chart; None where it has no point."""
    lines = [line for line in chart.lines if len(line.steps)]
    if not lines:
        return None

    def paint(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = one(figure)
        for line in lines:
            _line(axes, line)
        last = max(line.steps[-1] for line in lines)
        first = min(line.steps[0] for line in lines)
        axes.set_xlim(first - 0.02 * max(last - first, 1), last + 0.02 * max(last - first, 1))
        if chart.shares:
            axes.set_ylim(-0.03, 1.03)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        _limits(axes, chart.limits)
        _flags(axes, chart.flags)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel(chart.axis)
        if chart.unit:
            axes.set_ylabel(chart.unit)
        figure.legend(
            *axes.get_legend_handles_labels(),
            loc="outside upper left",
            ncols=legend_columns([line.label for line in lines]),
            handlelength=2.4,
            columnspacing=1.2,
            borderpad=0.1,
        )

    return draw(chart.name, chart.label, paint)


def legend_columns(labels: Sequence[str]) -> int:
    """Return in how many columns a legend fits above a figure; columns are filled one after the other."""
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
    """Return over how many steps a running mean goes, an odd number; 1 where none is drawn."""
    return 1 if points <= NOISY else 2 * max(2, points // 60) + 1


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of `width` values around each of n, (n,); fewer at the ends, around the same centre."""
    half = width // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    reach = np.minimum(np.minimum(place, len(values) - 1 - place), half)
    return (sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1)


def _limits(axes: Axes, limits: Sequence[Limit]) -> None:
    for limit in limits:
        axes.axhline(limit.value, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            limit.label,
            (0.0, limit.value),
            xycoords=("axes fraction", "data"),
            xytext=(2, 2.5),
            textcoords="offset points",
            fontsize=7.5,
            color=MUTED,
        )


def _flags(axes: Axes, flags: Sequence[Flag]) -> None:
    seen: dict[int, int] = {}
    for flag in flags:
        row = seen[flag.step] = seen.get(flag.step, -1) + 1
        if row == 0:
            axes.axvline(flag.step, color=ALARM, linewidth=1.0, linestyle=(0, (1.5, 1.5)))
        axes.annotate(
            f"A{flag.number}" if flag.number else "",
            (flag.step, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -8 - 10 * row),
            textcoords="offset points",
            fontsize=8,
            fontweight="bold",
            color=ALARM,
        )
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
