"""The plain figures of a card: papers per year, and what the baselines reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from tinsmith.data.baselines.report import TargetReport
from tinsmith.pages.curves import Limit
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.drawing import WIDE, draw, one
from tinsmith.pages.measures import from_figure
from tinsmith.pages.palette import HEAT, class_mark, series_mark


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

    told = f"Papers per year, {years.min()} to {years.max()}, most in {peak}."
    return draw("years", told, paint, width=WIDE, height=2.7)


def baselines_figure(target: TargetReport) -> Markup:
    """Draw each baseline's macro-F1 with its interval."""
    chance = 1 / len(target.classes)
    panel = Panel(
        title=f"macro-F1 for {target.target}, chance {chance:.3f}",
        dots=[Dots("macro-F1", series_mark(0), [from_figure(s.macro_f1) for s in target.scores])],
        limits=[Limit(chance, "chance")],
    )
    told = ", ".join(f"{s.baseline} {s.macro_f1.value:.3f}" for s in target.scores)
    rows = [score.baseline.value for score in target.scores]
    svg = dots_svg(f"baselines-{target.target}", f"Macro-F1 on the test split: {told}.", rows, [panel])
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
