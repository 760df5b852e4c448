"""The page of a sweep, its sentences, and its table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Final

from rich import box
from rich.table import Table as ConsoleTable
from rich.text import Text

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import RowKind, Table, TableRow, plain, text
from tinsmith.pages.wording import listed, magnitude, share_of
from tinsmith.studies.bits.values import Apart, CellResult, Place, Sampled, Sweep, Verdict

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
_AGAINST: Final[Sequence[tuple[str, Callable[[Apart], str | None]]]] = (
    ("Div_Index", lambda one: "none" if one.div_index is None else str(one.div_index)),
    ("Avg_Std@top1_prob", lambda one: magnitude(one.avg_std_top1_prob)),
    ("unequal bits", lambda one: share_of(one.unequal_bits)),
    ("max |d|", lambda one: magnitude(one.max_difference)),
    ("mean |d|", lambda one: magnitude(one.mean_difference)),
    ("k3", lambda one: magnitude(one.kl_k3)),
    ("flip rate", lambda one: magnitude(one.flip_rate)),
)
"""Columns of completions beside the reference cell's."""


def sweep_page(sweep: Sweep) -> Document:
    """Return the page of a sweep."""
    computed = [cell for cell in sweep.cells if cell.trained is not None]
    routes = plain(
        "Share of tokens that take another expert in some layer, the larger of both temperatures: than in the "
        "reference cell, where both have the same token after the same tokens; and than by the cell's own trainer.",
        ("Cell", "changed routes|from the reference", "changed routes|sampler from trainer"),
        [
            (
                cell.title,
                share_of(cell.worst(lambda one: one.against.unequal_routes)),
                share_of(cell.worst(lambda one: one.trainer.unequal_routes)),
            )
            for cell in sweep.routed
        ],
    )
    training = plain(
        "A few steps of RL from each cell's own samples, against the reference cell. Steps count from 0.",
        ("Cell", text("weights_sha256"), text("First difference"), "largest|of the final weights, relative"),
        [
            (
                cell.title,
                text(one.weights_sha256[:12], "equal" if one.equal else "another"),
                text("nowhere" if one.first is None else _place(one.first)),
                magnitude(one.weight_difference),
            )
            for cell in computed
            if (one := cell.trained) is not None
        ],
    )
    names = list((computed[0].peers or {}) if computed else ())
    peers = plain(
        "Sampler against trainer, of the same tokens in the same cell: train_rollout_logprob_abs_diff is slime's, "
        "rollout_probs_diff and k3_kl verl's, gen_kl_error NeMo-RL's, mismatch_kl prime-rl's, bit_wise torchtitan's.",
        ("Cell", *names),
        [(cell.title, *(magnitude((cell.peers or {}).get(name)) for name in names)) for cell in computed],
    )
    cells = plain(
        LEGEND,
        ("Cell", text("Verdict"), text("Everything it was computed with")),
        [
            TableRow(
                name=text(cell.title),
                cells=(
                    text(cell.verdict.value, cell.unavailable or ""),
                    text("; ".join(f"{name}={value}" for name, value in cell.cell.items())),
                ),
                kind=RowKind.CHOSEN if cell.verdict.wrong else RowKind.PLAIN,
            )
            for cell in sweep.cells
        ],
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
            *_figures(computed),
            Section("sampling", "Sampling", [_sampling(sweep.cells)]),
            *([Section("routes", "Routes", [routes])] if sweep.routed else []),
            Section("training", "Training", [training]),
            Section("peers", "Under the names of other stacks", [peers], "Peers' names"),
            Section("cells", "Cells", [cells]),
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
    """Say how many promises are kept, and where each broken one and each fault on purpose shows."""
    by = {verdict: [cell for cell in sweep.cells if cell.verdict is verdict] for verdict in Verdict}
    promised = len(by[Verdict.KEPT]) + len(by[Verdict.BROKEN])
    found = [f"{len(by[Verdict.KEPT])} of {promised} cells that are promised to be equal are, bit for bit."] * bool(
        promised
    )
    found += [f"Broken: {cell.title}: {differences(cell)}." for cell in by[Verdict.BROKEN]]
    found += [f"{cell.title} differs: {differences(cell)}." for cell in by[Verdict.DIFFERENT]]
    if sweep.routed:
        moved = [f"{cell.title} ({share_of(cell.unequal_routes)})" for cell in sweep.routed if cell.unequal_routes]
        total = len(sweep.routed)
        shown = f"; not in {listed(moved)}" if moved else ""
        found.append(f"In {total - len(moved)} of {total} cells every compared token takes the same experts{shown}.")
    found += [f"{cell.title} is seen: {differences(cell)}." for cell in by[Verdict.SEEN]]
    found += [f"{cell.title} is not seen by anything." for cell in by[Verdict.UNSEEN]]
    absent = by[Verdict.UNAVAILABLE]
    return (*found, *([f"Not available here: {listed([cell.title for cell in absent])}."] if absent else []))


def differences(cell: CellResult) -> str:
    """Say where a cell differs from the reference cell."""
    parts = [
        f"{one.unique} unique of {one.completions} completions at temperature {one.temperature:g}, {one.unique_bits} "
        "patterns of bits"
        for one in cell.sampled
        if one.unique_bits > 1
    ]
    if not parts and any(not one.against.same for one in cell.sampled):
        parts.append("sampled bits are not the reference's")
    if any(not one.trainer.same for one in cell.sampled):
        parts.append(f"sampler and trainer differ by up to {cell.worst(_trainer) or 0.0:.2g} nats")
    if cell.trained is not None and cell.trained.first is not None:
        parts.append(f"training first at {_place(cell.trained.first)}")
    return "; ".join(parts) or "nothing"


def _place(place: Place) -> str:
    size = "" if place.size is None else f", |a - b| / |a| about {place.size:.2g}"
    extent = f"{place.tensors} of {place.of_tensors} tensors"
    return f"step {place.step}, {place.phase}, {place.tensor}{size} ({extent})"


def _figures(computed: Sequence[CellResult]) -> list[Section]:
    """Return shares of tokens with other bits beside unique completions, and the largest differences.

    Cells that are kept are alike, and have one row.
    """
    kept = [cell for cell in computed if cell.verdict is Verdict.KEPT]
    cells = [cell for cell in computed if cell not in kept[1:]]
    alike = f"{len(kept)} cells, all kept"
    names = [alike if cell in kept and len(kept) > 1 else "\n".join(wrap(cell.title, _NAME)) for cell in cells]

    def dots(label: str, place: int, of: Callable[[CellResult], float | None]) -> Dots:
        values = [of(cell) for cell in cells]
        return Dots(label, series_mark(place), [None if one is None else Measure(float(one)) for one in values])

    bits = Panel(
        title="Tokens with unequal bits, share",
        dots=[
            dots("among the completions", 0, lambda cell: cell.worst(lambda one: one.within.unequal_bits)),
            dots("from the reference", 1, lambda cell: cell.worst(lambda one: one.against.unequal_bits)),
            dots("sampler from trainer", 2, lambda cell: cell.worst(lambda one: one.trainer.unequal_bits)),
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
    values = [
        ("from the reference", [cell.worst(_against) for cell in cells]),
        ("sampler from trainer", [cell.worst(_trainer) for cell in cells]),
        ("final weights, relative", [cell.trained and cell.trained.weight_difference for cell in cells]),
    ]
    verdicts = "; ".join(f"{cell.title}: {cell.verdict}" for cell in cells)
    largest = "; ".join(f"{cell.title}: {magnitude(cell.worst(_against)) or 'none'} nats" for cell in cells)
    wrong, none = [row for row, cell in enumerate(cells) if cell.verdict.wrong], "Missing: no cell was computed."
    sizes = note(
        "The largest difference of a log-probability in nats, at either temperature; of the final weights the largest "
        "|a - b| / |a| of a tensor."
    )
    svg = log_dots_svg("sizes", f"Largest differences. {largest}.", names, values, _TICKS, alarms=wrong)
    return [
        Section("bits", "Bits", [drawn(dots_svg("bits", f"Bits. {verdicts}.", names, [bits, unique]), none)]),
        Section("sizes", "Sizes", [sizes, drawn(svg, none)]),
    ]


def _against(one: Sampled) -> float | None:
    return one.against.max_difference


def _trainer(one: Sampled) -> float | None:
    return one.trainer.max_difference


def _sampling(cells: Sequence[CellResult]) -> Table:
    rows: list[Sequence[str | None] | TableRow] = []
    for place, title in enumerate(("Temperature 0", "Temperature 1, fixed seed")):
        rows.append((title,))
        for cell in cells:
            if not cell.sampled:
                rows.append(TableRow(name=text(cell.title), remark=f"not available here: {cell.unavailable}"))
                continue
            one = cell.sampled[place]
            counts = [f"{count} of {one.completions}" for count in (one.unique, one.unique_bits)]
            figures = [read(one.against) for _, read in _AGAINST]
            rows.append((cell.title, *counts, share_of(one.within.unequal_bits), *figures))
    return plain(
        "Completions of one prompt, each a request of its own. Unique: by tokens; patterns: by tokens and "
        "log-probability bits. The other columns are against the reference cell, where both have the same token after "
        "the same tokens; d in nats.",
        ("Cell", "unique", "patterns", "unequal bits|among them", *(head for head, _ in _AGAINST)),
        rows,
    )
