"""The plain figures of a card: papers per year, and what the baselines reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from tinsmith.data.baseline_report import TargetReport
from tinsmith.data.card_style import BARS, INK, LABEL_COLOURS, SOFT, WIDTH, Canvas, thousands


def years_figure(years: NDArray[np.int64], series: Mapping[str, NDArray[np.int64]]) -> str:
    """Draw bars per year (n,), stacked over `series` of counts (n,) by name."""
    total = np.sum(list(series.values()), axis=0)
    peak = int(years[int(total.argmax())])
    description = f"Papers per year, {years.min()} to {years.max()}, most in {peak}."
    with Canvas("years", description, WIDTH, 2.7) as canvas:
        axes = canvas.axes
        bottom = np.zeros(len(years))
        for name, counts in series.items():
            colour = LABEL_COLOURS.get(name, BARS)
            axes.bar(years, counts, 0.86, bottom, color=colour, label=name, linewidth=0)
            bottom = bottom + counts
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        axes.xaxis.set_major_locator(MaxNLocator(12, integer=True, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.grid(axis="y")
        axes.margins(x=0.01)
        axes.set_ylabel("papers")
        if len(series) > 1:
            axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)
    return canvas.svg


def baselines_figure(target: TargetReport) -> str:
    """Draw each baseline's macro-F1 with its interval."""
    scores = target.scores[::-1]
    described = ", ".join(f"{s.baseline} {s.macro_f1.value:.3f}" for s in target.scores)
    name = f"baselines-{target.target}"
    height = 0.75 + 0.34 * len(scores)
    with Canvas(name, f"Macro-F1 on the test split: {described}.", WIDTH, height) as canvas:
        axes = canvas.axes
        for row, score in enumerate(scores):
            figure = score.macro_f1
            axes.plot([figure.low, figure.high], [row, row], color=BARS, linewidth=3, alpha=0.45)
            axes.plot(figure.value, row, "o", color=INK, markersize=6)
            axes.annotate(
                f"{figure.value:.3f}",
                (figure.high, row),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        chance = 1 / len(target.classes)
        axes.axvline(chance, color=SOFT, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set_yticks(range(len(scores)), [score.baseline.value for score in scores])
        axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=10)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.6, len(scores) - 0.4)
        axes.grid(axis="x")
        axes.set_xlabel(f"macro-F1 for {target.target}, chance {chance:.3f}")
    return canvas.svg
