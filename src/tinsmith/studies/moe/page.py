"""The page of `moe/wander`: what changes with the batch, for whom, and what an RL step makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from markupsafe import Markup
from matplotlib.figure import Figure

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.drawing import draw, one
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import document_html, write
from tinsmith.pages.palette import INK, LINE, series_mark
from tinsmith.pages.tables import Cell, Table, absent, table_of, text
from tinsmith.studies.moe.results import Compared, Distance, Greedy, Row, StepRatios, Wander, wander_story
from tinsmith.studies.moe.settings import QUESTION

T = TypeVar("T")


def report_wander(done: Wander, out: Path) -> None:
    """Write the page to `out`.

    Raises:
        ConfigError: the folder of `out` does not exist.
    """
    write(document_html(wander_page(done)), out)


def wander_page(done: Wander) -> Document:
    """Return the page."""
    none = "Missing: nothing was computed."
    return Document(
        kind="Report of a study",
        title=f"Do the routes of {done.model} wander?",
        question=QUESTION,
        facts=(
            ("Mixture", done.fingerprint[:16]),
            *((name, _told(value)) for name, value in done.settings.items()),
            *done.machine.items(),
        ),
        sections=(
            summary(wander_story(done), limits=LIMITS),
            Section(
                "routes",
                "Routes",
                (
                    note(
                        "Tokens that take another expert in some layer than when their text is computed by itself; "
                        "lines are 95 % intervals over texts."
                    ),
                    drawn(_routes(done.rows), none),
                    _rows(done.rows),
                ),
            ),
            Section(
                "logprobs",
                "Log-probabilities",
                (
                    note("The largest difference of a token's log-probability, nats."),
                    drawn(_logprobs(done.rows), none),
                    _distances(done),
                ),
            ),
            Section("greedy", "Greedy texts", (drawn(_parting(done.greedy), none), _greedy(done.greedy))),
            Section("step", "One RL step", (drawn(_angles(done.steps), none), _steps(done.steps))),
        ),
    )


LIMITS: Final = (
    "The texts are canonical's own draws, followed by every side: another side's own draws would differ a little more.",
    "Rewards are coins: the angles are those of a gradient with small advantages, not of a task.",
    "One machine's CPU kernels: a GPU's choose other tiles for other batches, and change more.",
)


def _routes(rows: Sequence[Row]) -> Markup | None:
    names = [f"{row.engine} {row.dtype}, {row.way} {row.batch}" for row in rows]
    most = max((100 * row.compared.high for row in rows), default=1.0)
    values = [Measure(100 * row.compared.share, 100 * row.compared.low, 100 * row.compared.high) for row in rows]
    panel = Panel(
        title="Tokens with changed routes, per cent",
        dots=[Dots("changed", series_mark(0), values)],
        high=max(most, 0.1),
    )
    told = "; ".join(f"{name}: {row.compared.changed_routes}" for name, row in zip(names, rows, strict=True))
    return dots_svg("routes", f"Changed routes. {told}.", names, [panel])


def _logprobs(rows: Sequence[Row]) -> Markup | None:
    return _log_axis(
        "logprobs",
        "Largest difference, nats",
        [(f"{row.engine} {row.dtype}, {row.way} {row.batch}", row) for row in rows],
        [
            ("largest", lambda row: row.compared.max_logprob_difference),
            ("mean", lambda row: row.compared.mean_logprob_difference),
        ],
        (1e-8, 1e-6, 1e-4, 1e-2, 1.0),
    )


def _angles(steps: Sequence[StepRatios]) -> Markup | None:
    return _log_axis(
        "angles",
        "Degrees",
        [(f"{each.engine} {each.dtype}, {each.batch} at once", each) for each in steps],
        [
            ("by the ratios, importance sampling", lambda each: each.angles["importance_sampling"]),
            ("PPO", lambda each: each.angles["ppo"]),
            ("CISPO", lambda each: each.angles["cispo"]),
            ("all of it by that arithmetic", lambda each: each.whole_angle),
        ],
        (1e-6, 1e-4, 1e-2, 1.0, 90.0),
    )


def _log_axis(
    name: str,
    unit: str,
    rows: Sequence[tuple[str, T]],
    quantities: Sequence[tuple[str, Callable[[T], float | None]]],
    ticks: Sequence[float],
) -> Markup | None:
    """Points on an axis of powers of ten, zero at its left end."""
    if not rows:
        return None
    least = ticks[0] / 100

    def paint(figure: Figure) -> None:
        axes = one(figure)
        for place, (words, of) in enumerate(quantities):
            mark = series_mark(place)
            found = [(row, of(each)) for row, (_, each) in enumerate(rows)]
            shift = 0.6 * (place - (len(quantities) - 1) / 2) / len(quantities)
            axes.plot(
                [max(value, least) for _, value in found if value is not None],
                [row + shift for row, value in found if value is not None],
                color=mark.color,
                marker=mark.marker,
                linestyle="none",
                label=words,
            )
        for row in range(1, len(rows)):
            axes.axhline(row - 0.5, color=LINE, linewidth=0.7)
        axes.set_xscale("log")
        axes.set_xlim(least / 2, ticks[-1] * 2)
        axes.set_xticks([least, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
        axes.minorticks_off()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [words for words, _ in rows])
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        axes.set_xlabel(unit)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, borderpad=0)

    first = quantities[0][1]
    told = "; ".join(f"{words}: {first(each) or 0.0:.2g}" for words, each in rows)
    return draw(name, f"{unit}. {told}.", paint, width=9.6, height=1.1 + 0.3 * len(rows))


def _parting(greedy: Sequence[Greedy]) -> Markup | None:
    names = [f"{each.engine} {each.dtype}, {each.batch} at once" for each in greedy]
    values = [Measure(each.parted / each.texts) for each in greedy]
    panel = Panel(
        title="Greedy texts that part from their own by themselves, share",
        dots=[Dots("parted", series_mark(1), values)],
    )
    told = "; ".join(f"{name}: {each.parted}" for name, each in zip(names, greedy, strict=True))
    return dots_svg("greedy", f"Parted texts. {told}.", names, [panel])


def _rows(rows: Sequence[Row]) -> Table:
    return table_of(
        "Beside the same arithmetic's forward pass of each text by itself. Forward: whole texts, as a trainer computes "
        "them. Decode: token by token over a cache, as a sampler does.",
        rows,
        ("Arithmetic", lambda row: text(f"{row.engine} {row.dtype}")),
        ("Way", lambda row: text(row.way.value)),
        ("At once", lambda row: _figure(str(row.batch))),
        *_compared_columns(_of_row),
    )


def _distances(done: Wander) -> Table:
    return table_of(
        "Each text by itself, beside canonical arithmetic on the same weights; canonical bf16 beside canonical fp32, "
        "so that its row is what rounding the weights does.",
        done.distances,
        ("Arithmetic", lambda one: text(f"{one.engine} {one.dtype}")),
        *_compared_columns(_of_distance),
    )


def _compared_columns(of: Callable[[T], Compared]) -> tuple[tuple[str, Callable[[T], Cell]], ...]:
    return (
        ("changed|routes, of tokens", lambda row: _figure(f"{of(row).changed_routes} of {of(row).tokens:,}")),
        (
            "share|95 % interval",
            lambda row: Cell(
                text=_percent(of(row).share), under=f"{_percent(of(row).low)} to {_percent(of(row).high)}", number=True
            ),
        ),
        ("texts|with one", lambda row: _figure(f"{of(row).changed_texts} of {of(row).texts}")),
        ("unequal|bits, of log-probabilities", lambda row: _figure(_percent(of(row).unequal_bits))),
        ("largest|nats", lambda row: _size(of(row).max_logprob_difference)),
        ("mean|nats", lambda row: _size(of(row).mean_logprob_difference)),
    )


def _greedy(greedy: Sequence[Greedy]) -> Table:
    return table_of(
        "The most probable text of each prompt, computed together, beside that computed by itself.",
        greedy,
        ("Arithmetic", lambda each: text(f"{each.engine} {each.dtype}")),
        ("At once", lambda each: _figure(str(each.batch))),
        ("parted", lambda each: _figure(f"{each.parted} of {each.texts}")),
        (
            "first|token that differs, median",
            lambda each: _figure(f"{each.first[len(each.first) // 2]}") if each.first else absent("none"),
        ),
    )


def _steps(steps: Sequence[StepRatios]) -> Table:
    return table_of(
        "On policy: every ratio should be 1. The angle of each loss is between its gradient with these ratios and that "
        "with ratios of 1, both by canonical arithmetic; the last one is of the gradient of importance sampling as the "
        "arithmetic computes it throughout.",
        steps,
        ("Arithmetic", lambda each: text(f"{each.engine} {each.dtype}")),
        ("At once", lambda each: _figure(str(each.batch))),
        ("unequal|routes", lambda each: _figure(f"{each.unequal_routes} of {each.tokens:,}")),
        ("ratios|not 1", lambda each: _figure(_percent(each.not_one))),
        ("ratios|from, to", lambda each: _figure(f"{each.least_ratio:.4g}, {each.largest_ratio:.4g}")),
        ("clipped|PPO", lambda each: _figure(_percent(each.clipped["ppo"]))),
        ("clipped|CISPO", lambda each: _figure(_percent(each.clipped["cispo"]))),
        ("degrees|importance sampling", lambda each: _size(each.angles["importance_sampling"])),
        ("degrees|PPO", lambda each: _size(each.angles["ppo"])),
        ("degrees|CISPO", lambda each: _size(each.angles["cispo"])),
        ("degrees|throughout", lambda each: _size(each.whole_angle)),
    )


def _of_row(row: Row) -> Compared:
    return row.compared


def _of_distance(one: Distance) -> Compared:
    return one.compared


def _told(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _percent(share: float) -> str:
    return "0" if share == 0.0 else f"{100 * share:.3g} %"


def _figure(words: str) -> Cell:
    return Cell(text=words, number=True)


def _size(value: float | None) -> Cell:
    if value is None or not math.isfinite(value):
        return absent("none")
    return _figure("0" if value == 0.0 else f"{value:.2g}")
