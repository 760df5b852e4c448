"""How far the stated confidence can be believed: a table of the three words and a figure against being right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup
from matplotlib.figure import Figure

from tinsmith.pages.drawing import draw, one
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import MUTED, series_mark
from tinsmith.pages.tables import Cell, Table, TableRow, column, measured, number, text, whole
from tinsmith.stats.calibration import Calibration, Level
from tinsmith.stats.intervals import wilson


def accuracy(level: Level) -> Measure | None:
    """Return the share right of those who said a word, with Wilson's interval; None where nobody did."""
    if not level.items:
        return None
    interval = wilson(level.right, level.items)
    return Measure(level.accuracy, interval.low, interval.high)


def calibration_table(systems: Sequence[tuple[str, Calibration]]) -> Table:
    """Return one row a system: right answers by stated word, and the three errors."""
    words = systems[0][1].levels
    return Table(
        caption="Share of right answers by the confidence that was stated, its 95 % interval and number of papers; "
        "the words are read as the probabilities in brackets. Lower errors are better.",
        heads=(
            text("Answers"),
            *(column(f"{level.word} ({level.stated:g})") for level in words),
            column("states none"),
            column("ECE"),
            column("Brier"),
            column("NLL", "nats"),
        ),
        rows=tuple(
            TableRow(
                name=text(name),
                cells=(
                    *(_level(level) for level in calibration.levels),
                    whole(calibration.left_out),
                    number(calibration.ece),
                    number(calibration.brier),
                    number(calibration.nll),
                ),
            )
            for name, calibration in systems
        ),
    )


def _level(level: Level) -> Cell:
    found = measured(accuracy(level), "never stated")
    return found if found.missing else replace(found, under=f"{found.under}, n {level.items:,}")


def calibration_svg(name: str, systems: Sequence[tuple[str, Calibration]]) -> Markup | None:
    """Draw stated probability against share right; None where no answer states a confidence."""
    told = [(words, one) for words, one in systems if one.num_items]
    if not told:
        return None

    def paint(figure: Figure) -> None:
        axes = one(figure)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            "believable",
            (0.93, 0.93),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            fontsize=7.5,
            color=MUTED,
        )
        for place, (words, calibration) in enumerate(told):
            mark = series_mark(place)
            levels = [level for level in calibration.levels if level.items]
            shift = (place - (len(told) - 1) / 2) * 0.018
            for level in levels:
                found = accuracy(level)
                assert found is not None
                assert found.low is not None
                assert found.high is not None
                x = level.stated + shift
                axes.plot([x, x], [found.low, found.high], color=mark.color, alpha=0.55)
                size = 3.5 + 6.5 * math.sqrt(level.items / calibration.num_items)
                axes.plot([x], [found.value], color=mark.color, marker=mark.marker, markersize=size)
            axes.plot(
                [level.stated + shift for level in levels],
                [level.accuracy for level in levels],
                color=mark.color,
                linestyle=mark.dash,
                linewidth=1.0,
                label=words,
            )
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xticks([0.2, 0.5, 0.8], ["low\n0.2", "medium\n0.5", "high\n0.8"])
        axes.set_ylabel("share right")
        axes.set_xlabel("stated confidence")
        figure.legend(loc="outside upper left", ncols=2, handlelength=2.4, borderpad=0.1)

    label = "; ".join(f"{words}: expected calibration error {one.ece:.3f}" for words, one in told)
    return draw(name, f"Stated confidence against share right. {label}.", paint)
