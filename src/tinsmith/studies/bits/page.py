"""The page of a sweep, its sentences, and its table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Final

from markupsafe import Markup
from rich import box
from rich.table import Table as ConsoleTable
from rich.text import Text

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, RowKind, Table, TableRow, column, plain, text
from tinsmith.pages.wording import listed, magnitude, share_of
from tinsmith.studies.bits.values import CellResult, Place, Sampled, Sweep, Verdict

_TICKS: Final = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
_NAME: Final = 30
"""Characters in a line of a row's name on a figure."""
LEGEND: Final = (
    "unique: different completions of N at temperature 0 / 1; patterns: with the bits of their log-probabilities; "
    "unequal, max |d|: share of tokens with other bits than in the reference cell, and nats; trainer: share with other "
    "bits than the trainer's; routes, of a mixture: share with other experts than either; kept: equal as promised, "
    "seen: a fault on purpose that shows, equal and different: nothing is promised"
)
"""Meaning of the columns of `sweep_table`."""


def sweep_page(sweep: Sweep) -> Document:
    """Return the page of a sweep."""
    computed = [cell for cell in sweep.cells if cell.trained is not None]
    none = "Missing: no cell was computed."
    bits = note("The larger figure of both temperatures; unique completions at each.")
    sizes = note(
        "The largest difference of a log-probability in nats, at either temperature; of the final weights the largest "
        "|a - b| / |a| of a tensor."
    )
    return Document(
        kind="Report of a sweep",
        title=f"Sweep of {sweep.model}",
        question="What changes the bits, by how much, and where does it first show?",
        facts=(
            ("Cells", f"{len(computed)} of {len(sweep.cells)}"),
            ("Completions of one prompt", f"{sweep.completions} at each temperature"),
            ("Tokens", f"{sweep.prompt} + {sweep.tokens}"),
            ("Optimizer steps", str(sweep.steps)),
            *sorted(sweep.machine.items()),
        ),
        sections=(
            summary(story(sweep)),
            Section("bits", "Bits", (bits, drawn(_bits(computed), none))),
            Section("sizes", "Sizes", (sizes, drawn(_sizes(computed), none))),
            Section("sampling", "Sampling", [_sampling(sweep.cells)]),
            *([Section("routes", "Routes", [_routes(sweep.routed)])] if sweep.routed else []),
            Section("training", "Training", [_training(computed)]),
            Section("peers", "Under the names of other stacks", [_peers(computed)], "Peers' names"),
            Section("cells", "Cells", [_cells(sweep.cells)]),
        ),
    )


def sweep_table(sweep: Sweep) -> ConsoleTable:
    """Return the sweep for a terminal, a line for each cell."""
    table = ConsoleTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("cell", min_width=23)
    routes = ["routes"] if sweep.routed else []
    for name in ("unique", "patterns", "unequal", "max |d|", "trainer", *routes):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("weights")
    table.add_column("verdict")
    for cell in sweep.cells:
        figures = [""] * (6 + len(routes))
        if cell.trained is not None:
            shown = (
                share_of(cell.worst(lambda one: one.against.unequal_bits)),
                magnitude(cell.worst(_against)),
                share_of(cell.worst(lambda one: one.trainer.unequal_bits)),
                *([share_of(cell.unequal_routes)] if routes else []),
            )
            figures = [
                "/".join(str(one.unique) for one in cell.sampled),
                "/".join(str(one.unique_bits) for one in cell.sampled),
                *(one or "none" for one in shown),
                "equal" if cell.trained.equal else "other",
            ]
        verdict = Text(cell.verdict.value, style="bold red" if cell.verdict.wrong else "")
        table.add_row(Text(cell.title), *figures, verdict)
    return table


def story(sweep: Sweep) -> tuple[str, ...]:
    """Say in sentences what the sweep shows; the page and the console begin with them."""
    kept, broken, seen, unseen, absent = (
        [cell for cell in sweep.cells if cell.verdict is verdict]
        for verdict in (Verdict.KEPT, Verdict.BROKEN, Verdict.SEEN, Verdict.UNSEEN, Verdict.UNAVAILABLE)
    )
    promised = len(kept) + len(broken)
    sentences = [
        f"{len(kept)} of {promised} cells that are promised to be equal are, bit for bit: completions, "
        "log-probabilities, gradients, weights."
    ] * bool(promised)
    sentences += [f"Broken: {cell.title}: {found(cell)}." for cell in broken]
    sentences += [
        _under_load(cell) for cell in sweep.cells if {"neighbours", "batch"} <= set(cell.changes) and cell.sampled
    ]
    if sweep.routed:
        moved = [
            f"{cell.title} ({100 * (cell.unequal_routes or 0.0):.2g} %)" for cell in sweep.routed if cell.unequal_routes
        ]
        total = len(sweep.routed)
        still = f"In {total - len(moved)} of {total} cells every compared token takes the same experts"
        sentences.append(f"{still}; not in {listed(moved)}." if moved else f"{still}.")
    sentences += [f"{cell.title} is seen: {found(cell)}." for cell in seen]
    sentences += [f"{cell.title} is not seen by anything." for cell in unseen]
    if absent:
        sentences.append(f"Not available here: {listed([cell.title for cell in absent])}.")
    return tuple(sentences)


def found(cell: CellResult) -> str:
    """Say where a cell differs from the reference cell."""
    parts = [_unique(one) for one in cell.sampled if one.unique > 1]
    if not parts and any(not one.against.same for one in cell.sampled):
        parts.append("sampled bits are not the reference's")
    if any(not one.trainer.same for one in cell.sampled):
        parts.append(f"sampler and trainer differ by up to {cell.worst(_trainer) or 0.0:.2g} nats")
    if cell.trained is not None and cell.trained.first is not None:
        parts.append(f"training first at {_place(cell.trained.first)}")
    return "; ".join(parts) or "nothing"


def _under_load(cell: CellResult) -> str:
    patterns = " and ".join(str(one.unique_bits) for one in cell.sampled)
    share = max(one.within.unequal_bits or 0.0 for one in cell.sampled)
    load = f"up to {cell.cell['batch']} requests at once and {cell.cell['neighbours']} neighbours"
    return (
        f"{cell.title}, {load}: {', '.join(map(_unique, cell.sampled))}; {patterns} patterns of bits, "
        f"{100 * share:.2g} % of tokens unequal."
    )


def _unique(one: Sampled) -> str:
    return f"{one.unique} unique of {one.completions} completions at temperature {one.temperature:g}"


def _place(place: Place) -> str:
    size = "" if place.size is None else f", |a - b| / |a| about {place.size:.2g}"
    extent = f"{place.tensors} of {place.of_tensors} tensors"
    return f"step {place.step}, {place.phase}, {place.tensor}{size} ({extent})"


def _rows(cells: Sequence[CellResult]) -> tuple[list[str], list[CellResult]]:
    """Return names and cells of a figure's rows: those that are kept are alike, and have one row."""
    kept = [cell for cell in cells if cell.verdict is Verdict.KEPT]
    rows = [cell for cell in cells if cell not in kept[1:]]
    alike = f"{len(kept)} cells, all kept"
    return [alike if len(kept) > 1 and cell is kept[0] else "\n".join(wrap(cell.title, _NAME)) for cell in rows], rows


def _bits(computed: Sequence[CellResult]) -> Markup | None:
    """Draw shares of tokens with other bits, and the number of unique completions."""
    names, cells = _rows(computed)

    def dots(label: str, place: int, of: Callable[[CellResult], float | None]) -> Dots:
        values = [of(cell) for cell in cells]
        return Dots(label, series_mark(place), [None if one is None else Measure(float(one)) for one in values])

    def worst(of: Callable[[Sampled], float | None]) -> Callable[[CellResult], float | None]:
        return lambda cell: cell.worst(of)

    bits = Panel(
        title="Tokens with unequal bits, share",
        dots=[
            dots("among the completions", 0, worst(lambda one: one.within.unequal_bits)),
            dots("from the reference", 1, worst(lambda one: one.against.unequal_bits)),
            dots("sampler from trainer", 2, worst(lambda one: one.trainer.unequal_bits)),
        ],
    )
    unique = Panel(
        title="Unique completions, by temperature",
        dots=[
            dots("at 0", 3, lambda cell: cell.sampled[0].unique),
            dots("at 1", 4, lambda cell: cell.sampled[1].unique),
        ],
        high=float(max((one.unique for cell in cells for one in cell.sampled), default=1)),
    )
    shown_values = "; ".join(f"{cell.title}: {cell.verdict}" for cell in cells)
    return dots_svg("bits", f"Bits. {shown_values}.", names, [bits, unique])


def _sizes(computed: Sequence[CellResult]) -> Markup | None:
    """Draw the largest differences."""
    names, cells = _rows(computed)
    shown_values = "; ".join(f"{cell.title}: {magnitude(cell.worst(_against)) or 'none'} nats" for cell in cells)
    return log_dots_svg(
        "sizes",
        f"Largest differences. {shown_values}.",
        names,
        [
            ("from the reference", [cell.worst(_against) for cell in cells]),
            ("sampler from trainer", [cell.worst(_trainer) for cell in cells]),
            ("final weights, relative", [cell.trained and cell.trained.weight_difference for cell in cells]),
        ],
        _TICKS,
        alarms=[row for row, cell in enumerate(cells) if cell.verdict.wrong],
    )


def _against(one: Sampled) -> float | None:
    return one.against.max_difference


def _trainer(one: Sampled) -> float | None:
    return one.trainer.max_difference


def _sampling(cells: Sequence[CellResult]) -> Table:
    heads = ("Cell", "unique", "patterns", "Div_Index", "Avg_Std@top1_prob", "unequal bits|among them", "unequal bits")
    more = (column("max |d|"), column("mean |d|"), "k3", "flip rate")
    caption = (
        "Completions of one prompt, each a request of its own. Unique: by tokens; patterns: by tokens and "
        "log-probability bits. The other columns are against the reference cell, where both have the same token after "
        "the same tokens; d in nats."
    )
    rows: list[Sequence[str | None] | TableRow] = []
    for place, title in enumerate(("Temperature 0", "Temperature 1, fixed seed")):
        rows += [(title,), *(_sampled_row(cell, place) for cell in cells)]
    return plain(caption, (*heads, *more), rows)


def _sampled_row(cell: CellResult, place: int) -> Sequence[str | None] | TableRow:
    if not cell.sampled:
        return TableRow(name=text(cell.title), remark=f"not available here: {cell.unavailable}")
    one = cell.sampled[place]
    other = one.against
    return (
        cell.title,
        f"{one.unique} of {one.completions}",
        f"{one.unique_bits} of {one.completions}",
        "none" if other.div_index is None else str(other.div_index),
        magnitude(other.avg_std_top1_prob),
        share_of(one.within.unequal_bits),
        share_of(other.unequal_bits),
        magnitude(other.max_difference),
        magnitude(other.mean_difference),
        magnitude(other.kl_k3),
        magnitude(other.flip_rate),
    )


def _routes(cells: Sequence[CellResult]) -> Table:
    return plain(
        "Share of tokens that take another expert in some layer, the larger of both temperatures: than in the "
        "reference cell, where both have the same token after the same tokens; and than by the cell's own trainer.",
        ("Cell", "changed routes|from the reference", "changed routes|sampler from trainer"),
        [
            (
                cell.title,
                share_of(cell.worst(lambda one: one.against.unequal_routes)),
                share_of(cell.worst(lambda one: one.trainer.unequal_routes)),
            )
            for cell in cells
        ],
    )


def _training(cells: Sequence[CellResult]) -> Table:
    rows = [(cell.title, cell.trained) for cell in cells if cell.trained is not None]
    return plain(
        "A few steps of RL from each cell's own samples, against the reference cell. Steps count from 0.",
        ("Cell", text("weights_sha256"), text("First difference"), "largest|of the final weights, relative"),
        [
            (
                title,
                text(one.weights_sha256[:12], "equal" if one.equal else "another"),
                text("nowhere" if one.first is None else _place(one.first)),
                magnitude(one.weight_difference),
            )
            for title, one in rows
        ],
    )


def _peers(cells: Sequence[CellResult]) -> Table:
    names = list((cells[0].peers or {}) if cells else ())
    return plain(
        "Sampler against trainer, of the same tokens in the same cell: train_rollout_logprob_abs_diff is slime's, "
        "rollout_probs_diff and k3_kl verl's, gen_kl_error NeMo-RL's, mismatch_kl prime-rl's, bit_wise torchtitan's.",
        ("Cell", *names),
        [(cell.title, *(magnitude((cell.peers or {}).get(name)) for name in names)) for cell in cells],
    )


def _cells(cells: Sequence[CellResult]) -> Table:
    return plain(
        "Kept: promised to be equal, and equal in every bit. Seen: a fault on purpose that shows. Equal, different: "
        "nothing is promised. Not here: cannot be had on this machine or with this engine.",
        ("Cell", text("Verdict"), text("Everything it was computed with")),
        [
            TableRow(
                name=text(cell.title),
                cells=(text(cell.verdict.value, cell.unavailable or ""), _computed_with(cell)),
                kind=RowKind.CHOSEN if cell.verdict.wrong else RowKind.PLAIN,
            )
            for cell in cells
        ],
    )


def _computed_with(cell: CellResult) -> Cell:
    return text("; ".join(f"{name}={value}" for name, value in cell.cell.items()))
