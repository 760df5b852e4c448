"""The page of a study of adapters, and its table as Markdown: scores beside what each adapter takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from tinsmith.reports.adapter_results import WORDS, AdapterRow, AdapterStudy
from tinsmith.reports.dots import Dots, Panel, dots_svg
from tinsmith.reports.drawing import draw, one
from tinsmith.reports.page import render, write
from tinsmith.reports.palette import series_mark
from tinsmith.reports.tables import (
    Cell,
    RowKind,
    Table,
    TableRow,
    absent,
    column,
    measured,
    number,
    shown,
    text,
    whole,
)
from tinsmith.reports.tried_rates import CAPTION, rate_words
from tinsmith.types.adapters import AdapterKind

_ELSEWHERE = "held elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """How long an adapter took, as this machine was then: a mean over its seeds."""

    a_step: float
    """Of one training step."""
    training: float
    """Of all of a run's."""
    run: float
    """Of a run with its examinations and its test."""


Times = Mapping[AdapterKind, Seconds]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterPage:
    """What the template `adapters.html` shows."""

    title: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    scores: Table
    dots: Markup | None
    cost: Table
    rates: Markup
    tried: Table
    gate: tuple[str, ...]


def report_adapters(study: AdapterStudy, times: Times, out: Path) -> None:
    """Write the page of a study to `out`.

    Raises:
        ConfigError: the folder of `out` does not exist.
    """
    write(adapters_html(study, times), out)


def adapters_html(study: AdapterStudy, times: Times) -> str:
    """Return the page of a study."""
    page = AdapterPage(
        title="Adapters",
        facts=(
            ("Test papers", f"{study.num_items:,}"),
            ("Slice", study.data[:16]),
            *((key, shown(study.settings[key])) for key in sorted(study.settings)),
        ),
        story=study.story(),
        scores=_scores(study),
        dots=_dots(study),
        cost=_cost(study, times),
        rates=draw(
            "rates",
            "validation score by learning rate",
            lambda figure: _curves(figure, study),
            width=9.6,
            height=3.2,
        ),
        tried=_tried(study),
        gate=tuple(row.apart.gate for row in study.rows if row.apart is not None),
    )
    return render("adapters.html", page, script=False)


def adapter_markdown(study: AdapterStudy, times: Times) -> str:
    """Return the study as one table, with its sentences below it."""
    lines = [
        "| | rate | macro-F1 | above LoRA | Holm p | min recall | trained | adapter | base: linears, whole "
        "| of fp32 | s a step | gradient: direction, magnitude |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_line(row, times[row.adapter]) for row in study.rows),
    ]
    lines += [f"| {one.name} | | {one.macro_f1} {'| ' * 9}|" for one in study.baselines]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in study.story())]) + "\n"


def _line(row: AdapterRow, seconds: Seconds) -> str:
    gap, size, norm = row.apart, row.bytes, row.gradient
    cells = (
        WORDS[row.adapter],
        f"{row.rate:g}",
        str(row.macro_f1),
        "" if gap is None else f"{gap.value:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]",
        "" if gap is None else f"{gap.p_holm:.3f}",
        f"{row.min_class_recall:.3f}",
        "" if size is None else f"{size.parameters:,}",
        "" if size is None else f"{size.adapter:,} B",
        "" if size is None else f"{size.linears:,} B, {size.whole:,} B",
        "" if size is None else f"{size.linears_to_fp32:.3f}, {size.whole_to_fp32:.3f}",
        f"{seconds.a_step:.2f}",
        "" if norm is None else _norms(norm.direction, norm.magnitude, norm.share),
    )
    return f"| {' | '.join(cells)} |"


def _norms(direction: float, magnitude: float | None, share: float | None) -> str:
    if magnitude is None or share is None:
        return f"{direction:.3f}"
    return f"{direction:.3f}, {magnitude:.3f} ({100 * share:.1f} % of the square)"


def _scores(study: AdapterStudy) -> Table:
    rows = [
        TableRow(
            name=text(WORDS[row.adapter], f"rate {row.rate:g}, {len(row.seeds)} seeds"),
            cells=(
                measured(row.macro_f1),
                _gap(row),
                absent("the reference") if row.apart is None else number(row.apart.p_holm),
                number(row.greedy_macro_f1),
                number(row.label_match),
                number(row.min_class_recall),
            ),
        )
        for row in study.rows
    ]
    if study.baselines:
        rows.append(TableRow(name=text("Baselines of this slice"), kind=RowKind.GROUP))
    rows += [
        TableRow(
            name=text(baseline.name),
            cells=(measured(baseline.macro_f1), *[absent("n/a")] * 5),
        )
        for baseline in study.baselines
    ]
    return Table(
        caption="Selected checkpoints on the test split; 95 % intervals over seeds and papers together.",
        heads=(
            text("Adapter"),
            column("macro-F1", "sampled"),
            column("above LoRA", "paired"),
            column("p", "Holm"),
            column("macro-F1", "greedy"),
            column("label_match", "sampled"),
            column("min recall", "sampled"),
        ),
        rows=tuple(rows),
    )


def _gap(row: AdapterRow) -> Cell:
    gap = row.apart
    if gap is None:
        return absent("the reference")
    return Cell(text=f"{gap.value:+.3f}", under=f"{gap.low:+.3f} to {gap.high:+.3f}", number=True)


def _dots(study: AdapterStudy) -> Markup | None:
    values = [row.macro_f1 for row in study.rows] + [each.macro_f1 for each in study.baselines]
    names = [WORDS[row.adapter] for row in study.rows] + [each.name for each in study.baselines]
    panel = Panel(
        title="macro-F1 on the test split", dots=[Dots("macro-F1", series_mark(0), values)]
    )
    return dots_svg("scores", "macro-F1 by adapter, with intervals", names, [panel], width=7.0)


def _cost(study: AdapterStudy, times: Times) -> Table:
    return Table(
        caption=(
            "Bytes as held in memory; the adapter's of its file. Seconds as this machine was then, with other runs "
            "beside it. Gradient norms are means over steps and seeds, before clipping."
        ),
        heads=(
            text("Adapter"),
            column("trained", "parameters"),
            column("adapter", "bytes"),
            column("base", "bytes, linear weights"),
            column("base", "bytes, whole"),
            column("of fp32", "linear weights"),
            column("of fp32", "whole"),
            column("seconds", "a training step"),
            column("seconds", "a run"),
            column("gradient", "direction"),
            column("gradient", "magnitude"),
            column("magnitude", "share of the square"),
        ),
        rows=tuple(_cost_row(row, times[row.adapter]) for row in study.rows),
    )


def _cost_row(row: AdapterRow, seconds: Seconds) -> TableRow:
    size, norm = row.bytes, row.gradient
    return TableRow(
        name=text(WORDS[row.adapter]),
        cells=(
            whole(size.parameters if size else None, _ELSEWHERE),
            whole(size.adapter if size else None, _ELSEWHERE),
            whole(size.linears if size else None, _ELSEWHERE),
            whole(size.whole if size else None, _ELSEWHERE),
            number(size.linears_to_fp32 if size else None, _ELSEWHERE),
            number(size.whole_to_fp32 if size else None, _ELSEWHERE),
            number(seconds.a_step, digits=2),
            number(seconds.run, digits=0),
            number(norm.direction if norm else None, "not told"),
            number(norm.magnitude if norm else None, "has none"),
            number(norm.share if norm else None, "has none"),
        ),
    )


def _tried(study: AdapterStudy) -> Table:
    return Table(
        caption=(
            f"Validation score of the chosen checkpoint by learning rate, seed {study.tuning_seed}; the test split "
            f"was not looked at to choose. {CAPTION}"
        ),
        heads=(text("Adapter"), *(column(f"{rate:g}") for rate in _rates(study.rows))),
        rows=tuple(
            TableRow(name=text(WORDS[row.adapter]), cells=tuple(_tried_cells(row, study.rows)))
            for row in study.rows
        ),
    )


def _rates(rows: Sequence[AdapterRow]) -> list[float]:
    return sorted({each.rate for row in rows for each in row.tuned})


def _tried_cells(row: AdapterRow, rows: Sequence[AdapterRow]) -> list[Cell]:
    found = {each.rate: each for each in row.tuned}
    return [
        Cell(
            text=f"{found[rate].validation:.3f}",
            under=rate_words(found[rate], row.rate),
            number=True,
        )
        if rate in found
        else absent("not tried")
        for rate in _rates(rows)
    ]


def _curves(figure: Figure, study: AdapterStudy) -> None:
    axes = one(figure)
    for place, row in enumerate(study.rows):
        mark = series_mark(place)
        axes.plot(
            [each.rate for each in row.tuned],
            [each.validation for each in row.tuned],
            color=mark.color,
            linestyle=mark.dash,
            marker=mark.marker,
            label=WORDS[row.adapter],
        )
    axes.set_xscale("log")
    tried = _rates(study.rows)
    axes.set_xticks(tried, [f"{rate:g}" for rate in tried])
    axes.minorticks_off()
    axes.set_xlabel("learning rate")
    axes.set_title("Validation score by learning rate")
    axes.legend(loc="best")
