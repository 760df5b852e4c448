"""Figures of a card: CD indices, novelty against conventionality, papers per year, and the baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from matplotlib.collections import PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from tinsmith.data.baselines.report import TargetReport
from tinsmith.data.labels import Disruption, Novelty
from tinsmith.pages.curves import Dots, Limit, Panel, dots_svg
from tinsmith.pages.drawing import HEAT, INK, MUTED, WIDE, class_mark, draw, one, series_mark
from tinsmith.pages.measures import from_figure


def years_figure(years: NDArray[np.int64], series: Mapping[str, NDArray[np.int64]]) -> Markup:
    """Draw bars per year (n,), stacked over `series` of counts (n,) by name."""
    total = np.sum(list(series.values()), axis=0)
    peak = int(years[int(total.argmax())])

    def paint(figure: Figure) -> None:
        axes = one(figure)
        bottom = np.zeros(len(years))
        for place, (name, counts) in enumerate(series.items()):
            color = HEAT if len(series) == 1 else class_mark(name, place).color
            axes.bar(years, counts, 0.86, bottom, color=color, label=name, linewidth=0)
            bottom = bottom + counts
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.margins(x=0.01)
        axes.set_ylabel("papers")
        if len(series) > 1:
            axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)

    description = f"Papers per year, {years.min()} to {years.max()}, most in {peak}."
    return draw("years", description, paint, width=WIDE, height=2.7)


def baselines_figure(target: TargetReport) -> Markup:
    """Draw each baseline's macro-F1 with its interval."""
    chance = 1 / len(target.classes)
    panel = Panel(
        title=f"macro-F1 for {target.target}, chance {chance:.3f}",
        dots=[Dots("macro-F1", series_mark(0), [from_figure(s.macro_f1) for s in target.scores])],
        limits=[Limit(chance, "chance")],
    )
    summary = ", ".join(f"{s.baseline} {s.macro_f1.value:.3f}" for s in target.scores)
    rows = [score.baseline.value for score in target.scores]
    svg = dots_svg(f"baselines-{target.target}", f"Macro-F1 on the test split: {summary}.", rows, [panel])
    assert svg is not None, "a report has baselines"
    return svg


def thousands(value: float, _: int | None = None) -> str:
    """Show a tick of a count."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:,.0f}"


def signed_tick(value: float, _: int | None = None) -> str:
    """Show a tick with its true minus sign."""
    return f"{value:g}".replace("-", "\u2212")


_LINEAR = 1e-4  # |CD| below which the signed logarithmic axis is linear
_PER_DECADE = 12


def cd_figure(cd: NDArray[np.float64], cut: float | None, counts: Mapping[str, int]) -> Markup:
    """Draw the distribution of CD indices (n,) on a signed logarithmic axis.

    Bands mark what `cut` makes of them, if it is known; `counts` are the papers of each label, by name.
    """
    zeros = int((cd == 0).sum())
    described = ", ".join(f"{counts[label.value]:,} {label}" for label in Disruption)
    at = f"axis: {described}" if cut is None else f"axis, with the cut at plus and minus {cut:g}: {described}"
    description = f"Distribution of {len(cd):,} CD indices on a signed logarithmic {at}; {zeros:,} are exactly 0."

    def paint(figure: Figure) -> None:
        axes = one(figure)
        axes.set_xscale("symlog", linthresh=_LINEAR, linscale=0.5)
        axes.set_yscale("log")
        edges = _signed_edges()
        heights = np.histogram(cd, edges)[0]
        top = max(int(heights.max(initial=1)), 1) * 2.6
        total = sum(counts.values())
        sides = () if cut is None else (-cut, cut)
        labels = (Disruption.CONSOLIDATING, Disruption.NEUTRAL, Disruption.DISRUPTIVE) if sides else ()
        for place, (label, (low, high)) in enumerate(zip(labels, pairwise((-1.0, *sides, 1.0)), strict=False)):
            colour = class_mark(label.value, place).color
            axes.axvspan(low, high, color=colour, alpha=0.13, linewidth=0)
            axes.annotate(
                f"{label}\n{100 * counts[label.value] / total if total else 0:.1f} %",
                (_middle(low, high), 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=colour if label is not Disruption.NEUTRAL else MUTED,
                fontsize=9.5,
                fontweight="bold",
                linespacing=1.25,
            )
        axes.stairs(heights, edges, fill=True, color=HEAT, linewidth=0)
        for side in sides:
            axes.axvline(side, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        if zeros:
            axes.annotate(
                f"exactly 0: {zeros:,}",
                (0, heights.max()),
                xytext=(13, -3),
                textcoords="offset points",
                fontsize=9,
                color=INK,
                va="center",
            )
        decades = [10.0**-k for k in range(4)]
        ticks = sorted({0.0, *decades, *(-d for d in decades), _LINEAR, -_LINEAR})
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(signed_tick))
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(axis="y")
        axes.set_xlim(-1.15, 1.15)
        axes.set_ylim(0.7, top)
        axes.set_xlabel("CD index (signed logarithmic)")
        axes.set_ylabel("papers")

    return draw("cd", description, paint, width=WIDE, height=3.7)


def _signed_edges() -> NDArray[np.float64]:
    """Return bin bounds over [-1, 1]: logarithmic outside the linear part, zero in a bin of its own."""
    decades = round(-math.log10(_LINEAR))
    steps = range(-decades * _PER_DECADE, 1)
    outer = np.array([10.0 ** (step / _PER_DECADE) for step in steps])
    outer[-1] = 1.0 + 1e-9  # the last bin holds exactly 1
    inner = np.array([0.2, 0.6]) * _LINEAR
    positive = np.concatenate([inner, outer])
    return np.concatenate([-positive[::-1], positive])


def _middle(low: float, high: float) -> float:
    """Return the middle of a band on the signed logarithmic axis."""

    def place(value: float) -> float:
        size = abs(value) / _LINEAR
        return float(np.sign(value) * (size * 0.5 if size <= 1 else 0.5 + math.log10(size)))

    middle = (place(low) + place(high)) / 2
    size = abs(middle)
    back = _LINEAR * (size / 0.5 if size <= 0.5 else 10 ** (size - 0.5))
    return float(np.sign(middle) * back)


def novelty_figure(z_median: NDArray[np.float64], z_p10: NDArray[np.float64], margin: float) -> Markup:
    """Draw papers by conventionality (median z, (n,)) and novelty (10th percentile of z, (n,)).

    Lines show where the difference of the two sigmoid scores is plus and minus `margin`.
    """
    description = (
        f"Two-dimensional histogram of {len(z_median):,} papers: median z of their cited journal pairs "
        "to the right, 10th percentile upwards with novel papers on top."
    )

    def paint(figure: Figure) -> None:
        axes = one(figure)
        axes.set_xscale("asinh", linear_width=1.0)
        axes.set_yscale("asinh", linear_width=1.0)
        right, up = _spread_edges(z_median), _spread_edges(z_p10)
        counts = np.histogram2d(z_median, z_p10, (right, up))[0]
        columns, rows = np.nonzero(counts)
        corners = [
            [(right[i], up[j]), (right[i + 1], up[j]), (right[i + 1], up[j + 1]), (right[i], up[j + 1])]
            for i, j in zip(columns, rows, strict=True)
        ]
        levels = _levels(int(counts.max(initial=1)))
        # One colour, ever denser: it stands for another one on a dark page.
        colours = ListedColormap([to_rgba(HEAT, float(alpha)) for alpha in np.linspace(0.14, 1.0, len(levels) - 1)])
        cells = PolyCollection(
            corners, array=counts[columns, rows], cmap=colours, norm=BoundaryNorm(levels, colours.N), edgecolors="none"
        )
        axes.add_collection(cells)
        axes.set_xlim(right[0], right[-1])
        axes.set_ylim(up[-1], up[0])
        bar = figure.colorbar(cells, ax=axes, shrink=0.75, pad=0.015, aspect=26)
        bar.set_label("papers")
        bar.ax.grid(visible=False)
        bar.ax.yaxis.set_major_formatter(FuncFormatter(thousands))
        bar.outline.set_visible(False)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
        at = _even_on_the_axis(right[0], right[-1], 400)
        conventionality = 1 / (1 + _each(math.exp, -np.clip(at, -30, 30)))
        for sign in (1, -1):
            novelty = conventionality + sign * margin
            inside = (novelty > 1e-3) & (novelty < 1 - 1e-3)
            edge = -_each(math.log, novelty[inside] / (1 - novelty[inside]))
            axes.plot(at[inside], edge, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        for label, place, horizontal in (
            (Novelty.NOVEL, (0.0, 1.015), "left"),
            (Novelty.BALANCED, (1.0, 1.015), "right"),
            (Novelty.CONVENTIONAL, (1.0, -0.135), "right"),
        ):
            axes.text(
                *place,
                label.value,
                transform=axes.transAxes,
                ha=horizontal,
                va="bottom",
                color=MUTED if label is Novelty.BALANCED else class_mark(label.value, 0).color,
                fontsize=9.5,
                fontweight="bold",
            )
        ticks = [sign * size for size in (1, 3, 10, 30, 100, 300, 1000) for sign in (-1, 1)]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator([0, *ticks]))
            axis.set_major_formatter(FuncFormatter(signed_tick))
            axis.set_minor_locator(NullLocator())
        axes.grid(visible=True, axis="both")
        axes.set_xlabel("conventionality: median z of the cited journal pairs")
        axes.set_ylabel("novelty: 10th percentile of z, reversed")

    return draw("novelty", description, paint, width=WIDE, height=4.6)


def _spread_edges(values: NDArray[np.float64], bins: int = 56) -> NDArray[np.float64]:
    """Return bin bounds, even on the axis, around all but the outermost thousandths."""
    low, high = np.quantile(values, [0.001, 0.999]) if len(values) else (-1.0, 1.0)
    low, high = min(float(low), -1.0), max(float(high), 1.0)
    return _even_on_the_axis(low, high, bins + 1)


def _even_on_the_axis(low: float, high: float, count: int) -> NDArray[np.float64]:
    """Return values from `low` to `high` that an inverse hyperbolic sine spaces evenly."""
    return _each(math.sinh, np.linspace(math.asinh(low), math.asinh(high), count))


def _each(function: Callable[[float], float], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Applied value by value: numpy's functions differ in their last bits with AVX-512, which would change bins."""
    return np.array([function(value) for value in values.tolist()])


def _levels(most: int) -> Sequence[float]:
    """Return colour bounds 1, 3, 10, 30, ... up to and above `most`."""
    levels = [1.0, 3.0]
    while levels[-1] <= most:
        levels.append(10 * levels[-2])
    return levels
