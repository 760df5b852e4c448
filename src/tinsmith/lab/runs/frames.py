"""Tables of a run for other programs: metrics by step, which draw themselves, rollouts, and answers by item."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import Any, Final

import msgspec
import polars as pl

from tinsmith.lab.runs.files import CONFIG, METRICS, ROLLOUTS, TASK
from tinsmith.lab.runs.reader import TaskRecord, json_lines, read_whole
from tinsmith.pages.curves import Line, chart_svg
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.page import Plot, plot_of
from tinsmith.types.errors import DataError, perhaps

TABLES = ("metrics", "rollouts", "answers")
_ANSWER: Final = ("text", "predicted", "gold")
"""Columns of an item's first rollout to include, by name or prefix."""


def frame_of(file: Path, notes: list[str] | None = None) -> pl.DataFrame:
    """Read complete JSON lines into a table with the union of their fields; empty without any.

    `notes` gets a sentence on lines that are left out.
    """
    found: list[str] = []
    lines = [msgspec.json.encode(line) for line in json_lines(file, dict[str, object], found)]
    if notes is not None and file.is_file():
        notes += [f"{file.parent}: {one}" for one in found]
    return pl.read_ndjson(io.BytesIO(b"\n".join(lines)), infer_schema_length=None) if lines else pl.DataFrame()


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table without nesting: a field of an object is a column `terms.total`, a list is its JSON text."""
    while structs := [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]:
        for name in structs:
            fields = frame[name].struct.unnest()
            at = frame.columns.index(name)
            columns = [frame[one] for one in frame.columns if one != name]
            columns[at:at] = [fields[one].alias(f"{name}.{one}") for one in fields.columns]
            frame = pl.DataFrame(columns)
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.with_columns(
        pl.Series(
            name,
            [None if one is None else msgspec.json.encode(one).decode() for one in frame[name].to_list()],
            dtype=pl.String(),
        )
        for name in lists
    )


def answers_by_item(rollouts: pl.DataFrame, right: Mapping[str, str] = MappingProxyType({})) -> pl.DataFrame:
    """Return a row for each step, split and item of flat rollouts.

    Its columns: samples, failures, `text` of the first answer with the label it predicts and the right one (`predicted`
    and `gold`, where they are known), `right`, the share of answers that predict it, mean reward and means of terms. A
    failed rollout is counted, and is no answer. `right` are right answers by item, where rollouts do not name them.
    """
    if rollouts.is_empty():
        return rollouts
    means = [one for one in rollouts.columns if one in ("total", "pass_rate") or one.startswith(("terms.", "metrics."))]
    numbers = [name for name in means if rollouts[name].dtype.is_numeric()]
    failed = pl.col("failure.where").is_not_null() if "failure.where" in rollouts.columns else pl.lit(False)
    columns = [name for name in rollouts.columns if name.partition(".")[0] in _ANSWER]
    kinds = {name: rollouts.schema[name] for name in columns}
    hits = {
        name.replace("predicted", "right", 1): (pl.col(name).cast(pl.String()) == pl.col(gold)).fill_null(value=False)
        for name, gold in ((name, name.replace("predicted", "gold", 1)) for name in columns)
        if gold != name and kinds.get(gold) == pl.String() and kinds[name] in (pl.String(), pl.Null())
    }
    answers = rollouts.group_by("step", "split", "prompt_id", maintain_order=True).agg(
        pl.len().alias("samples"),
        failed.sum().alias("failed"),
        *(pl.col(name).filter(~failed).first() for name in columns),
        *(hit.filter(~failed).mean().alias(name) for name, hit in hits.items()),
        *(pl.col(name).mean() for name in numbers),
    )
    if right and not any(name.startswith("gold") for name in columns):
        golds = pl.Series("gold", [right.get(item) for item in answers["prompt_id"].to_list()], dtype=pl.String())
        answers.insert_column(answers.columns.index("failed") + len(columns) + 1, golds)
    return answers


def runs_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the runs in a folder with their relative paths, sorted; the path of the folder itself is empty."""
    for file in sorted(folder.rglob(CONFIG)):
        where = file.parent.relative_to(folder).as_posix()
        yield ("" if where == "." else where), file.parent


def tables_of(folder: Path, notes: list[str]) -> Mapping[str, pl.DataFrame]:
    """Return the tables of a run, or of all runs below a folder with `run`, their paths, as the first column.

    `notes` gets a sentence on lines that are left out.

    Raises:
        DataError: there is no run.
    """
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    runs = list(runs_below(folder))
    for where, run in runs:
        try:
            metrics, rollouts = (flat(frame_of(run / name, notes)) for name in (METRICS, ROLLOUTS))
        except pl.exceptions.PolarsError as error:
            notes.append(f"{run} is left out, as its lines make no table: {error}")
            continue
        task = read_whole(run / TASK, TaskRecord, []) or TaskRecord()
        right = {one.id: one.answer for one in (*task.items, *task.tested) if one.answer}
        answers = answers_by_item(rollouts, right)
        for name, one in zip(TABLES, (metrics, rollouts, answers), strict=True):
            if not one.is_empty():
                tables[name].append(one if len(runs) == 1 else one.select(pl.lit(where).alias("run"), pl.all()))
    if not runs:
        what = f"{folder} holds no run and no corpus"
        raise DataError(
            what, field="DIR", value=str(folder), allowed="the folder of a run (unpacked), a study or a corpus"
        )
    return {name: pl.concat(some, how="diagonal_relaxed") for name, some in tables.items() if some}


_DRAWN: Final = (
    ("train/reward/total", "train/pass_rate", "train/nll"),
    ("eval/macro_f1", "eval/score", "eval/pass_rate", "eval/reward/total"),
    ("eval_greedy/macro_f1", "eval_greedy/score", "eval_greedy/pass_rate", "eval_greedy/reward/total"),
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
        for name in metrics:
            if name not in known:
                allowed = shorten(", ".join(sorted(known)), 300, placeholder=" ...")
                fix = perhaps(name, known)
                raise DataError("no step has such a metric", field="metrics", value=name, allowed=allowed, fix=fix)
        usual = [next((name for name in group if name in known), None) for group in _DRAWN]
        lines: list[Line] = []
        for place, name in enumerate(metrics or [name for name in usual if name is not None]):
            found = [(line["step"], line[name]) for line in self if isinstance(line.get(name), int | float)]
            steps, values = [step for step, _ in found], [float(value) for _, value in found]
            lines.append(Line(label=name, mark=series_mark(place), steps=steps, values=values))
        label = f"Over the steps: {', '.join(line.label for line in lines)}."
        return plot_of(chart_svg("history", label, lines), "there is no metric to draw")

    def _repr_html_(self) -> str:
        try:
            return self.plot().svg
        except DataError:
            return escape(repr(self))
