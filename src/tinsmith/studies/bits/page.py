"""The page of a sweep, and its table on the console: what changes the bits, by how much, and where it first shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Final

from markupsafe import Markup
from matplotlib.figure import Figure
from rich import box
from rich.table import Table as ConsoleTable
from rich.text import Text

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.drawing import draw, one
from tinsmith.pages.measures import Measure
from tinsmith.pages.page import document_html, write
from tinsmith.pages.palette import ALARM, INK, LINE, series_mark
from tinsmith.pages.tables import Cell, RowKind, Table, TableRow, absent, column, table_of, text
from tinsmith.studies.bits.results import CellResult, Sampled, Sweep, Verdict, place_words, story

_LEAST: Final = 1e-10
"""Where differences of zero stand on an axis of powers of ten."""


_NAME: Final = 30
"""Characters in a line of a row's name on a figure."""


def report_sweep(sweep: Sweep, out: Path) -> None:
    """Write the page of a sweep to `out`.

    Raises:
        ConfigError: the folder of `out` does not exist.
    """
    write(sweep_html(sweep), out)


def sweep_html(sweep: Sweep) -> str:
    """Return the page of a sweep."""
    measured = [cell for cell in sweep.cells if cell.trained is not None]
    none = "Missing: no cell was computed."
    page = Document(
        kind="Report of a sweep",
        title=f"Sweep of {sweep.model}",
        question="What changes the bits, by how much, and where does it first show?",
        facts=(
            ("Cells", f"{len(measured)} of {len(sweep.cells)}"),
            ("Completions of one prompt", f"{sweep.completions} at each temperature"),
            ("Tokens", f"{sweep.prompt} + {sweep.tokens}"),
            ("Optimizer steps", str(sweep.steps)),
            *sorted(sweep.machine.items()),
        ),
        sections=(
            summary(story(sweep)),
            Section(
                "bits",
                "Bits",
                (
                    note("The larger figure of both temperatures; unique completions at each."),
                    drawn(_bits(measured), none),
                ),
            ),
            Section(
                "sizes",
                "Sizes",
                (
                    note(
                        "The largest difference of a log-probability in nats, at either temperature; of the final "
                        "weights the largest |a - b| / |a| of a tensor."
                    ),
                    drawn(_sizes(measured), none),
                ),
            ),
            Section("sampling", "Sampling", [_sampling(sweep.cells)]),
            *([Section("routes", "Routes", [_routes(sweep.routed)])] if sweep.routed else []),
            Section("training", "Training", [_training(measured)]),
            Section("peers", "Under the names of other stacks", [_peers(measured)], "Peers' names"),
            Section("cells", "Cells", [_cells(sweep.cells)]),
        ),
    )
    return document_html(page)


def sweep_table(sweep: Sweep) -> ConsoleTable:
    """Return the sweep for a terminal, a line for each cell."""
    table = ConsoleTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("cell", min_width=23)
    for name in ("unique", "patterns", "unequal", "max |d|", "trainer"):
        table.add_column(name, justify="right", no_wrap=True)
    if sweep.routed:
        table.add_column("routes", justify="right", no_wrap=True)
    table.add_column("weights")
    table.add_column("verdict")
    for cell in sweep.cells:
        style = "bold red" if cell.verdict.wrong else ""
        verdict = Text(cell.verdict.value, style=style)
        if cell.trained is None:
            table.add_row(Text(cell.title), *[""] * (len(table.columns) - 2), verdict)
            continue
        table.add_row(
            Text(cell.title),
            "/".join(str(each.unique) for each in cell.sampled),
            "/".join(str(each.unique_bits) for each in cell.sampled),
            _share(_worst(cell, lambda each: each.against.unequal_bits)),
            _size(_worst(cell, lambda each: each.against.max_difference)),
            _share(_worst(cell, lambda each: each.trainer.unequal_bits)),
            *([_share(cell.unequal_routes)] if sweep.routed else []),
            "equal" if cell.trained.equal else "other",
            verdict,
        )
    return table


LEGEND: Final = (
    "unique: different completions of N at temperature 0 / 1; patterns: with the bits of their log-probabilities; "
    "unequal, max |d|: share of tokens with other bits than in the reference cell, and nats; trainer: share with other "
    "bits than the trainer's; routes, of a mixture: share with other experts than either; kept: equal as promised, "
    "seen: a fault on purpose that shows, equal and different: "
    "nothing is promised"
)
"""What the columns of `sweep_table` are."""


def _drawn(cells: Sequence[CellResult]) -> tuple[list[str], list[CellResult]]:
    """Names and cells of a figure's rows: those that are kept are alike, and have one row."""
    kept = [cell for cell in cells if cell.verdict is Verdict.KEPT]
    rows: list[tuple[str, CellResult]] = []
    for cell in cells:
        if cell.verdict is not Verdict.KEPT:
            rows.append(("\n".join(wrap(cell.title, _NAME)), cell))
        elif cell is kept[0]:
            rows.append((cell.title if len(kept) == 1 else f"{len(kept)} cells, all kept", cell))
    return [name for name, _ in rows], [cell for _, cell in rows]


def _bits(measured: Sequence[CellResult]) -> Markup | None:
    """Shares of tokens with other bits, and how many completions are unique."""
    names, cells = _drawn(measured)

    def dots(words: str, place: int, of: Callable[[Sampled], float | None]) -> Dots:
        return Dots(words, series_mark(place), [_measure(_worst(cell, of)) for cell in cells])

    bits = Panel(
        title="Tokens with unequal bits, share",
        dots=[
            dots("among the completions", 0, lambda each: each.within.unequal_bits),
            dots("from the reference", 1, lambda each: each.against.unequal_bits),
            dots("sampler from trainer", 2, lambda each: each.trainer.unequal_bits),
        ],
    )
    most = max((each.unique for cell in cells for each in cell.sampled), default=1)
    unique = Panel(
        title="Unique completions, by temperature",
        dots=[
            Dots(f"at {place}", series_mark(3 + place), [_measure(float(cell.sampled[place].unique)) for cell in cells])
            for place in (0, 1)
        ],
        high=float(most),
    )
    told = "; ".join(f"{cell.title}: {cell.verdict}" for cell in cells)
    return dots_svg("bits", f"Bits. {told}.", names, [bits, unique])


def _sizes(measured: Sequence[CellResult]) -> Markup | None:
    """The largest differences, on an axis of powers of ten; zero at its left end."""
    names, cells = _drawn(measured)
    quantities: tuple[tuple[str, Callable[[CellResult], float | None]], ...] = (
        ("from the reference", lambda cell: _worst(cell, _against)),
        ("sampler from trainer", lambda cell: _worst(cell, _trainer)),
        ("final weights, relative", lambda cell: cell.trained and cell.trained.weight_difference),
    )
    if not cells:
        return None

    def paint(figure: Figure) -> None:
        axes = one(figure)
        for place, (words, of) in enumerate(quantities):
            mark = series_mark(place)
            values = [of(cell) for cell in cells]
            rows = [row + 0.22 * (place - 1) for row, value in enumerate(values) if value is not None]
            points = [max(value, _LEAST) for value in values if value is not None]
            axes.plot(points, rows, color=mark.color, marker=mark.marker, linestyle="none", label=words)
        for row in range(1, len(cells)):
            axes.axhline(row - 0.5, color=LINE, linewidth=0.7)
        axes.set_xscale("log")
        axes.set_xlim(_LEAST / 2, 3.0)
        axes.set_xticks([_LEAST, 1e-8, 1e-6, 1e-4, 1e-2, 1.0], ["0", "1e-8", "1e-6", "1e-4", "1e-2", "1"])
        axes.minorticks_off()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_ylim(len(cells) - 0.5, -0.5)
        axes.set_yticks(range(len(cells)), names)
        axes.tick_params(axis="y", labelcolor=INK, length=0)
        for label, cell in zip(axes.get_yticklabels(), cells, strict=True):
            if cell.verdict.wrong:
                label.set_color(ALARM)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, borderpad=0)

    told = "; ".join(f"{cell.title}: {_size(_worst(cell, _against))} nats" for cell in cells)
    height = 1.0 + 0.4 * len(cells)
    return draw("sizes", f"Largest differences. {told}.", paint, width=9.6, height=height)


def _against(each: Sampled) -> float | None:
    return each.against.max_difference


def _trainer(each: Sampled) -> float | None:
    return each.trainer.max_difference


def _sampling(cells: Sequence[CellResult]) -> Table:
    heads = (
        text("Cell"),
        column("unique"),
        column("patterns"),
        column("Div_Index"),
        column("Avg_Std@top1_prob"),
        column("unequal bits", "among them"),
        column("unequal bits"),
        column("max |d|"),
        column("mean |d|"),
        column("k3"),
        column("flip rate"),
    )
    rows: list[TableRow] = []
    for place, words in enumerate(("Temperature 0", "Temperature 1, fixed seed")):
        rows.append(TableRow(name=text(words), kind=RowKind.GROUP))
        rows += [_sampled_row(cell, place) for cell in cells]
    caption = (
        "Completions of one prompt, each a request of its own. Unique: by tokens; patterns: by tokens and "
        "log-probability bits. The other columns are against the reference cell, where both have the same token after "
        "the same tokens; d in nats."
    )
    return Table(caption=caption, heads=heads, rows=tuple(rows))


def _sampled_row(cell: CellResult, place: int) -> TableRow:
    if not cell.sampled:
        return TableRow(name=text(cell.title), remark=f"not available here: {cell.unavailable}")
    found = cell.sampled[place]
    other = found.against
    index = "none" if other.div_index is None else str(other.div_index)
    return TableRow(
        name=text(cell.title),
        cells=(
            _figure(f"{found.unique} of {found.completions}"),
            _figure(f"{found.unique_bits} of {found.completions}"),
            _figure(index),
            _number(other.avg_std_top1_prob),
            _figure(_share(found.within.unequal_bits)),
            _figure(_share(other.unequal_bits)),
            _number(other.max_difference),
            _number(other.mean_difference),
            _number(other.kl_k3),
            _number(other.flip_rate),
        ),
    )


def _routes(cells: Sequence[CellResult]) -> Table:
    return table_of(
        "Share of tokens that take another expert in some layer, the larger of both temperatures: than in the "
        "reference cell, where both have the same token after the same tokens; and than by the cell's own trainer.",
        cells,
        ("Cell", lambda cell: text(cell.title)),
        (
            "changed routes|from the reference",
            lambda cell: _figure(_share(_worst(cell, lambda each: each.against.unequal_routes))),
        ),
        (
            "changed routes|sampler from trainer",
            lambda cell: _figure(_share(_worst(cell, lambda each: each.trainer.unequal_routes))),
        ),
    )


def _training(cells: Sequence[CellResult]) -> Table:
    return table_of(
        "A few steps of RL from each cell's own samples, against the reference cell. Steps count from 0.",
        [(cell.title, cell.trained) for cell in cells if cell.trained is not None],
        ("Cell", lambda row: text(row[0])),
        (text("weights_sha256"), lambda row: text(row[1].weights_sha256[:12], "equal" if row[1].equal else "another")),
        (text("First difference"), lambda row: text("nowhere" if row[1].first is None else place_words(row[1].first))),
        ("largest|of the final weights, relative", lambda row: _number(row[1].weight_difference)),
    )


def _peers(cells: Sequence[CellResult]) -> Table:
    def peer(name: str) -> tuple[str, Callable[[CellResult], Cell]]:
        return name, lambda cell: _number((cell.peers or {}).get(name))

    return table_of(
        "Sampler against trainer, of the same tokens in the same cell: train_rollout_logprob_abs_diff is slime's, "
        "rollout_probs_diff and k3_kl verl's, gen_kl_error NeMo-RL's, mismatch_kl prime-rl's, bit_wise torchtitan's.",
        cells,
        ("Cell", lambda cell: text(cell.title)),
        *map(peer, (cells[0].peers or {}) if cells else ()),
    )


def _cells(cells: Sequence[CellResult]) -> Table:
    told = table_of(
        "Kept: promised to be equal, and equal in every bit. Seen: a fault on purpose that shows. Equal, different: "
        "nothing is promised. Not here: cannot be had on this machine or with this engine.",
        cells,
        ("Cell", lambda cell: text(cell.title)),
        (text("Verdict"), lambda cell: text(cell.verdict.value, cell.unavailable or "")),
        (
            text("Everything it was computed with"),
            lambda cell: text("; ".join(f"{name}={value}" for name, value in cell.cell.items())),
        ),
    )
    rows = (
        replace(row, kind=RowKind.CHOSEN) if cell.verdict.wrong else row
        for row, cell in zip(told.rows, cells, strict=True)
    )
    return replace(told, rows=tuple(rows))


def _worst(cell: CellResult, of: Callable[[Sampled], float | None]) -> float | None:
    """The larger of both temperatures' figures."""
    found = [value for each in cell.sampled if (value := of(each)) is not None]
    return max(found) if found else None


def _measure(value: float | None) -> Measure | None:
    return None if value is None else Measure(value)


def _number(value: float | None) -> Cell:
    if value is None or not math.isfinite(value):
        return absent("none")
    return _figure(_size(value))


def _figure(words: str) -> Cell:
    return Cell(text=words, number=True)


def _share(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.3g} %"


def _size(value: float | None) -> str:
    if value is None:
        return "none"
    return "0" if value == 0.0 else f"{value:.2g}"
