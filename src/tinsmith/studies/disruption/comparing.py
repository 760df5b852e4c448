"""Trained models of papers' labels, side by side on the same papers, and one of them cross-validated.

A difference is a figure and no claim: whether one model beats another is judged by `tinsmith report`, with baselines
and a negative control.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from tinsmith.lab.labels.task import Item
from tinsmith.lab.papers.labels import label_task_of
from tinsmith.lab.papers.worlds import AnyPaper, labelled
from tinsmith.lab.results.systems import commonest_answer, measures_of
from tinsmith.pages.curves import Dots, Limit, Panel, dots_svg
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.measures import Measure, Measures
from tinsmith.pages.page import Plot, plot_of, table
from tinsmith.stats.estimates import Bootstrap, Difference, Estimate, Runs
from tinsmith.stats.intervals import Interval
from tinsmith.stats.mean_runs import gap_of
from tinsmith.stats.rates import Metric
from tinsmith.stats.significance import holm
from tinsmith.studies.disruption.estimators import PaperClassifier, SharedServer, named_metric
from tinsmith.types.errors import ConfigError
from tinsmith.types.page_names import p_cell


def cross_val_score(
    model: PaperClassifier,
    papers: Sequence[AnyPaper],
    y: Sequence[str] | None = None,
    *,
    cv: int = 5,
    metric: str = Metric.MACRO_F1.value,
) -> NDArray[np.float64]:
    """Return [cv] scores: each fold's papers, by a copy of the model that was fitted on all others.

    As scikit-learn's function of this name, which works too; this one says beforehand what all fits take, and starts
    one server for them. Folds have the labels' shares and are drawn by the model's seed; papers of one title and
    abstract are in one fold. Without `y` the labels are those of the rows.

    Raises:
        ConfigError, DataError: a parameter or the papers are not allowed.
        LostError: the server was lost.
    """
    plan, score_metric = model.plan(), named_metric(metric)
    items = labelled(papers, y, label_task_of(plan))
    labels = [item.gold for item in items]
    smallest = min(Counter(gold for gold, _ in {(item.gold, _text(item)) for item in items}).values(), default=0)
    if not 2 <= cv <= smallest:
        allowed = f"2 to {smallest}, the papers of the rarest label"
        raise ConfigError("this number of folds is not possible", field="cv", value=cv, allowed=allowed)
    folds = drawn_folds(items, cv, plan.settings.seed % 2**32)
    model.tell_price([papers[i] for i in folds[0][0]], [labels[i] for i in folds[0][0]], fits=cv)
    server, scores, left = SharedServer(), list[float](), list[PaperClassifier]()
    try:
        for number, (train, test) in enumerate(folds, 1):
            fold = model.__sklearn_clone__()
            left.append(fold)
            fold.fit_through(server, [papers[i] for i in train], [labels[i] for i in train])
            scores.append(fold.score([papers[i] for i in test], [labels[i] for i in test], metric=score_metric.value))
            model.tell(f"fold {number} of {cv}: {score_metric} {scores[-1]:.3f}")
    finally:
        for fold in left:
            fold.close()
        server.close()
    return np.array(scores)


_ROUNDING: Final = 1e-12  # Of a score; draws no further apart are equal.


def drawn_folds(items: Sequence[Item], cv: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the places of the papers that each fold fits and scores, one text on one side."""
    labels, texts = [item.gold for item in items], list(map(_text, items))
    if len(set(texts)) == len(texts):
        return list(StratifiedKFold(cv, shuffle=True, random_state=seed).split(labels, labels))
    return list(StratifiedGroupKFold(cv, shuffle=True, random_state=seed).split(labels, labels, texts))


def _text(item: Item) -> str:
    return f"{item.paper.title}\0{item.paper.abstract}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model, or several seeds of one."""

    name: str
    seeds: int
    measures: Measures
    difference: Difference | None
    """Of macro-F1 from the first model's; None: it is the first."""
    p_holm: float | None
    """Two-sided, corrected over all differences."""

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return self.measures["label_match"].value

    @property
    def macro_f1(self) -> Estimate:
        """Macro-F1 with its 95 % interval."""
        one = self.measures["macro_f1"]
        ends = None if one.low is None or one.high is None else Interval(one.low, one.high, 0.95)
        return Estimate(one.value, ends)

    @property
    def min_class_recall(self) -> float:
        """Smallest recall of a label."""
        return self.measures["min_class_recall"].value

    @property
    def most_frequent(self) -> tuple[str, float]:
        """Label that is answered most often, and its share of the answers."""
        return commonest_answer(self.measures)


@dataclass(frozen=True, slots=True, repr=False)
class SideBySide:
    """Result of `compare`, in the models' order; the last row always says the most frequent label."""

    num_papers: int
    num_labels: int
    rows: tuple[Row, ...]

    def to_markdown(self) -> str:
        """Return a Markdown table; `print` shows it too."""
        heads, rows = self._cells()
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = (heads, ["-" * width for width in widths], *rows)
        return "\n".join(f"| {' | '.join(map(str.ljust, cells, widths))} |" for cells in lines)

    __repr__ = to_markdown

    def to_polars(self) -> pl.DataFrame:
        """Return the figures, a row for each model; `low` and `high` are the ends of the interval of macro-F1."""
        return pl.DataFrame(
            [
                {
                    "model": one.name,
                    "seeds": one.seeds,
                    "accuracy": one.accuracy,
                    "macro_f1": macro.value,
                    "low": macro.low,
                    "high": macro.high,
                    "min_class_recall": one.min_class_recall,
                    "difference": None if one.difference is None else one.difference.value,
                    "p_holm": one.p_holm,
                }
                for one in self.rows
                for macro in [one.measures["macro_f1"]]
            ]
        )

    def plot(self) -> Plot:
        """Draw macro-F1 of each model with its 95 % interval, beside chance."""
        scores, names = [one.measures["macro_f1"] for one in self.rows], [one.name for one in self.rows]
        panel = Panel(
            title=f"macro-F1 on {self.num_papers} papers",
            dots=[Dots("macro-F1", series_mark(0), scores)],
            limits=[Limit(1 / self.num_labels, "chance")],
        )
        label = f"Macro-F1: {', '.join(f'{name} {score}' for name, score in zip(names, scores, strict=True))}."
        return plot_of(dots_svg("compared", label, names, [panel]), "no model was compared")

    def _repr_html_(self) -> str:
        return table(*self._cells())

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        above = f"macro-F1 above {self.rows[0].name}"
        heads = (f"{self.num_papers} papers", "accuracy", "macro-F1", "min recall", "most said", above, "p")
        cells: list[tuple[str, ...]] = []
        for row in self.rows:
            seeds = f" ({row.seeds} seeds)" if row.seeds > 1 else ""
            apart = row.difference
            gap = "" if apart is None else f"{apart.value:+.3f} {apart.interval or ''}".strip()
            p_value = "" if row.p_holm is None else p_cell(row.p_holm)
            label, share = row.most_frequent
            scores = f"{row.accuracy:.3f}", str(row.macro_f1), f"{row.min_class_recall:.3f}"
            cells.append((f"{row.name}{seeds}", *scores, f"{label} {100 * share:.0f} %", gap, p_value))
        return heads, cells


def _varies(ends: Measure | Interval | None) -> bool:
    return ends is not None and ends.low is not None and ends.high is not None and ends.high - ends.low > _ROUNDING


def compare(
    models: Mapping[str, PaperClassifier | Sequence[PaperClassifier]],
    papers: Sequence[AnyPaper],
    y: Sequence[str] | None = None,
    *,
    draws: int = 2000,
    seed: int = 0,
) -> SideBySide:
    """Ask fitted models about the same papers; several models under one name are seeds of one method.

    Intervals are 95 % of a paired bootstrap over seeds and papers, from five seeds guarded by Student's t; p-values
    are Holm's. Where all draws are equal, as of constant answers, there is no interval.

    Raises:
        ConfigError: no model, models without names, or of different tasks.
        DataError: papers without labels, or a paper twice.
    """
    if not hasattr(models, "items"):
        raise ConfigError("models are given by name", field="models", value=models, allowed="{NAME: model}")
    named = {name: [given] if isinstance(given, PaperClassifier) else list(given) for name, given in models.items()}
    tasks = {model.fitted_task().name for members in named.values() for model in members}
    if len(tasks) != 1 or not all(named.values()):
        what, allowed = "only models of the same task can be compared", "one or more fitted models under each name"
        raise ConfigError(what, field="models", value=", ".join(sorted(tasks)), allowed=allowed)
    task = next(iter(named.values()))[0].fitted_task()
    items = labelled(papers, y, task)
    ids, golds = [item.paper.id for item in items], [item.gold for item in items]
    systems = [
        Runs.of(name, task.labels, ids, golds, [[str(label) for label in model.predict(papers)] for model in members])
        for name, members in named.items()
    ]
    usual = Counter(golds).most_common(1)[0][0]
    systems.append(Runs.constant(systems[0], usual))
    bootstrap = Bootstrap(draws=draws, seed=seed)
    apart = [gap_of(one, systems[0], Metric.MACRO_F1, bootstrap) for one in systems[1:]]
    p_values = holm([one.p_value for one in apart])
    gaps = [(None, None), *zip(apart, p_values, strict=True)]
    rows = [
        Row(
            name=one.name,
            seeds=one.num_seeds,
            measures={key: one if _varies(one) else Measure(one.value) for key, one in found.items()},
            difference=gap if gap is None or _varies(gap.interval) else replace(gap, interval=None),
            p_holm=p_value,
        )
        for one, (gap, p_value) in zip(systems, gaps, strict=True)
        for found in [measures_of(one, draws=bootstrap)]
    ]
    return SideBySide(len(items), len(task.labels), tuple(rows))
