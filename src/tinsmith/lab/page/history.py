"""Metrics of a run by step, as Python hands them over: a list of lines that draws itself."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import polars as pl

from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.palette import series_mark
from tinsmith.pages.plot import Plot, plot_of
from tinsmith.types.errors import DataError

_DRAWN: Final = (
    ("train/reward/total", "train/pass_rate", "train/nll"),
    ("eval/macro_f1", "eval/pass_rate", "eval/reward/total"),
    ("eval_greedy/macro_f1", "eval_greedy/pass_rate", "eval_greedy/reward/total"),
)
"""Of each group the first metric that a run has."""


class History(list[dict[str, Any]]):
    """Lines of `metrics.jsonl`, a step each."""

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each step; a metric that a step lacks is null."""
        return pl.DataFrame(list(self), infer_schema_length=None)

    def plot(self, *metrics: str) -> Plot:
        """Draw metrics over the steps; without names reward and evaluations.

        Raises:
            DataError: no step has one of them.
        """
        known = {name for line in self for name, value in line.items() if isinstance(value, int | float)}
        usual = [next((name for name in group if name in known), None) for group in _DRAWN]
        lines: list[Line] = []
        for place, name in enumerate(metrics or [name for name in usual if name is not None]):
            found = [(line["step"], line[name]) for line in self if isinstance(line.get(name), int | float)]
            steps, values = [step for step, _ in found], [float(value) for _, value in found]
            lines.append(Line(label=name, mark=series_mark(place), steps=steps, values=values))
        label = f"Over the steps: {', '.join(line.label for line in lines)}."
        return plot_of(chart_svg(Chart(name="history", label=label, lines=lines)), "no step has such a metric")

    def _repr_html_(self) -> str:
        try:
            return self.plot().svg
        except DataError:
            return escape(repr(self))
