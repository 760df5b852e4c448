"""Runs a sweep: cells that share a process go to one child, and every answer is measured beside the reference cell."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import wrap
from typing import Final

import msgspec
from rich.table import Table as ConsoleTable

from tinsmith.lab.study.files import write_json
from tinsmith.models.published.sources import find_model
from tinsmith.ops.processor import cpu_model
from tinsmith.pages.console import console_table
from tinsmith.pages.curves import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.measures import Measure, listed, magnitude, share_of
from tinsmith.pages.page import document_html, write
from tinsmith.pages.tables import RowKind, Table, TableRow, plain, text
from tinsmith.studies.bits.cells import Cell, Job, Outcome, Size, Variation, cannot, cell_texts, promised
from tinsmith.studies.bits.measures import CellResult, Sampled, Sweep, Verdict, peers, sampled, trained
from tinsmith.types.errors import BackendError
from tinsmith.types.version import VERSION

_TICKS: Final = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
_NAME: Final = 30  # Characters in a line of a row's name on a figure.
LEGEND: Final = (
    "unique: different completions of N at temperature 0 / 1; patterns: with the bits of their log-probabilities; "
    "unequal, max |d|: share of tokens with other bits than in the reference cell, and nats; trainer: share with other "
    "bits than the trainer's; routes, of a mixture: share with other experts than either; kept: equal as promised, "
    "seen: a fault on purpose that shows, equal and different: nothing is promised"
)
"""Meaning of the columns of a sweep's table."""
_COLUMNS: Final[Sequence[tuple[str, Callable[[CellResult], str | None]]]] = (
    ("unique", lambda cell: "/".join(str(one.unique) for one in cell.sampled)),
    ("patterns", lambda cell: "/".join(str(one.unique_bits) for one in cell.sampled)),
    ("unequal", lambda cell: share_of(cell.worst(lambda one: one.against.unequal_bits))),
    ("max |d|", lambda cell: magnitude(_largest(cell))),
    ("trainer", lambda cell: share_of(cell.worst(lambda one: one.trainer.unequal_bits))),
    ("routes", lambda cell: share_of(cell.unequal_routes)),
    ("weights", lambda cell: cell.trained and ("equal" if cell.trained.equal else "other")),
    ("verdict", lambda cell: cell.verdict.value),
)
_SAMPLED: Final[Sequence[tuple[str, Callable[[Sampled], str | None]]]] = (
    ("unique", lambda one: f"{one.unique} of {one.completions}"),
    ("patterns", lambda one: f"{one.unique_bits} of {one.completions}"),
    ("unequal bits|among them", lambda one: share_of(one.within.unequal_bits)),
    ("Div_Index", lambda one: "none" if one.against.div_index is None else str(one.against.div_index)),
    ("Avg_Std@top1_prob", lambda one: magnitude(one.against.avg_std_top1_prob)),
    ("unequal bits", lambda one: share_of(one.against.unequal_bits)),
    ("max |d|", lambda one: magnitude(one.against.max_difference)),
    ("mean |d|", lambda one: magnitude(one.against.mean_difference)),
    ("k3", lambda one: magnitude(one.against.kl_k3)),
    ("flip rate", lambda one: magnitude(one.against.flip_rate)),
    ("changed routes", lambda one: share_of(one.against.unequal_routes)),
    ("changed routes|from the trainer", lambda one: share_of(one.trainer.unequal_routes)),
)
"""Columns of completions at one temperature."""


def sweep_page(sweep: Sweep) -> Document:
    """Return the page of a sweep."""
    computed = [cell for cell in sweep.cells if cell.trained is not None]
    names = list((computed[0].peers or {}) if computed else ())
    sampling = [
        plain(
            f"{title}. Completions of one prompt, each a request of its own. Unique: by tokens; patterns: by tokens "
            "and log-probability bits. The other columns are against the reference cell, where both have the same "
            "token after the same tokens; d in nats.",
            ("Cell", *(head for head, _ in _SAMPLED)),
            [(cell.title, *(read(cell.sampled[place]) for _, read in _SAMPLED)) for cell in computed],
        )
        for place, title in enumerate(("Temperature 0", "Temperature 1, fixed seed"))
    ]
    peers = plain(
        "Sampler against trainer, of the same tokens in the same cell: train_rollout_logprob_abs_diff is slime's, "
        "rollout_probs_diff and k3_kl verl's, gen_kl_error NeMo-RL's, mismatch_kl prime-rl's, bit_wise torchtitan's.",
        ("Cell", *names),
        [(cell.title, *(magnitude((cell.peers or {}).get(name)) for name in names)) for cell in computed],
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
            summary(story(sweep), plain(LEGEND, ("Cell", *(head for head, _ in _COLUMNS)), _rows(sweep))),
            *_figures(computed),
            Section("sampling", "Sampling", sampling),
            Section("peers", "Under the names of other stacks", [peers], "Peers' names"),
            Section("cells", "Cells", [_cells(sweep)]),
        ),
    )


def sweep_table(sweep: Sweep) -> ConsoleTable:
    """Return the sweep for a terminal, a line for each cell."""
    rows = [[cell or "none" for cell in row] for row in _rows(sweep)]
    return console_table(f"Sweep of {sweep.model}", [head for head, _ in _COLUMNS], rows)


def _rows(sweep: Sweep) -> list[list[str | None]]:
    return [[cell.title, *(read(cell) for _, read in _COLUMNS)] for cell in sweep.cells]


def _cells(sweep: Sweep) -> Table:
    rows: list[TableRow] = []
    for cell in sweep.cells:
        one = cell.trained
        trained = (
            text("" if one is None else one.weights_sha256[:12]),
            text("" if one is None else _place(cell) or "nowhere"),
            text("" if one is None else magnitude(one.weight_difference) or ""),
        )
        settings = text("; ".join(f"{name}={value}" for name, value in cell.cell.items()))
        kind = RowKind.CHOSEN if cell.verdict.wrong else RowKind.PLAIN
        verdict = text(cell.verdict.value, cell.unavailable or "")
        rows.append(TableRow(name=text(cell.title), cells=(verdict, *trained, settings), kind=kind))
    heads = ("Cell", "Verdict", "weights_sha256", "First difference", "Largest|of the final weights, relative")
    return plain(
        "A few steps of RL from each cell's own samples, against the reference cell, from step 0; and everything "
        "that the cell was computed with.",
        (*heads, "Everything"),
        rows,
        words=True,
    )


def story(sweep: Sweep) -> tuple[str, ...]:
    """Say how many promises are kept, and where each broken one and each fault on purpose shows."""
    by = {verdict: [cell for cell in sweep.cells if cell.verdict is verdict] for verdict in Verdict}
    equal, total = len(by[Verdict.KEPT]), len(sweep.routed)
    promised = equal + len(by[Verdict.BROKEN])
    sentences = [f"{equal} of {promised} cells that are promised to be equal are, bit for bit."] if promised else []
    sentences += [f"Broken: {cell.title}: {differences(cell)}." for cell in by[Verdict.BROKEN]]
    sentences += [f"{cell.title} differs: {differences(cell)}." for cell in by[Verdict.DIFFERENT]]
    same = sum(not cell.unequal_routes for cell in sweep.routed)
    sentences += [f"In {same} of {total} cells every compared token takes the same experts."] if total else []
    sentences += [f"{cell.title} is seen: {differences(cell)}." for cell in by[Verdict.SEEN]]
    sentences += [f"{cell.title} is not seen by anything." for cell in by[Verdict.UNSEEN]]
    absent = by[Verdict.UNAVAILABLE]
    return (*sentences, *([f"Not available here: {listed([cell.title for cell in absent])}."] if absent else []))


def differences(cell: CellResult) -> str:
    """Say where a cell differs from the reference cell."""
    parts = [
        f"{one.unique} unique of {one.completions} completions at temperature {one.temperature:g}, {one.unique_bits} "
        f"patterns of bits, {share_of(one.against.unequal_bits) or 'no'} bits not the reference's"
        for one in cell.sampled
        if one.unique_bits > 1 or not one.against.same
    ]
    if any(not one.trainer.same for one in cell.sampled):
        parts.append(f"sampler and trainer differ by up to {_from_trainer(cell) or 0.0:.2g} nats")
    if place := _place(cell):
        parts.append(f"training first at {place}")
    return "; ".join(parts) or "nothing"


def _place(cell: CellResult) -> str:
    place = cell.trained and cell.trained.first
    if place is None:
        return ""
    size = "" if place.size is None else f", |a - b| / |a| about {place.size:.2g}"
    extent = f"{place.tensors} of {place.of_tensors} tensors"
    return f"step {place.step}, {place.phase}, {place.tensor}{size} ({extent})"


def _figures(computed: Sequence[CellResult]) -> list[Section]:
    """Return shares of tokens with other bits beside unique completions, and the largest differences.

    Cells that are kept are alike, and have one row.
    """
    equal = [cell for cell in computed if cell.verdict is Verdict.KEPT]
    cells = [cell for cell in computed if cell not in equal[1:]]
    alike = f"{len(equal)} cells, all kept"
    names = [alike if cell in equal and len(equal) > 1 else "\n".join(wrap(cell.title, _NAME)) for cell in cells]

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
        ("from the reference", [_largest(cell) for cell in cells]),
        ("sampler from trainer", [_from_trainer(cell) for cell in cells]),
        ("final weights, relative", [cell.trained and cell.trained.weight_difference for cell in cells]),
    ]
    verdicts = "; ".join(f"{cell.title}: {cell.verdict}" for cell in cells)
    largest = "; ".join(f"{cell.title}: {magnitude(_largest(cell)) or 'none'} nats" for cell in cells)
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


def _largest(cell: CellResult) -> float | None:
    return cell.worst(lambda one: one.against.max_difference)


def _from_trainer(cell: CellResult) -> float | None:
    return cell.worst(lambda one: one.trainer.max_difference)


NANO: Final = "tinsmith/nano"
SWEEP_JSON: Final = "sweep.json"
SWEEP_PAGE: Final = "sweep.html"
_CHILD: Final = "tinsmith.studies.bits.laboratory"
_SLEEPING: Final = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Idle threads of torch sleep: where cores are shared, those that spin take minutes from the others."""
_VERDICTS: Final = {
    True: (Verdict.BROKEN, Verdict.KEPT),
    False: (Verdict.SEEN, Verdict.UNSEEN),
    None: (Verdict.DIFFERENT, Verdict.EQUAL),
}
"""By what is promised: of a cell that differs, and of one that is equal."""


def sweep(
    variations: Sequence[Variation],
    out: Path,
    say: Callable[[CellResult], None],
    *,
    name: str = NANO,
    model: str = NANO,
    size: Size | None = None,
) -> Sweep:
    """Compute all cells and write `sweep.json` and `sweep.html`.

    The first variation is the reference cell.
    """
    find_model(model, field="--model")
    out.mkdir(parents=True, exist_ok=True)
    size = size or Size()
    results: dict[int, CellResult] = {}
    with tempfile.TemporaryDirectory(prefix="tinsmith-sweep-") as scratch:
        reference: Outcome | None = None
        for outcome in _outcomes(variations, model, size, Path(scratch)):
            reference = reference or _required(outcome)
            result = results[outcome.number] = _result(variations, outcome, reference)
            say(result)
    done = Sweep(
        model=name,
        completions=size.completions,
        prompt=size.prompt,
        tokens=size.tokens,
        steps=size.steps,
        machine={"cpu": cpu_model(), "tinsmith": VERSION, **(results[0].machine or {})},
        cells=tuple(results[number] for number in range(len(variations))),
    )
    write_json(sweep_json(done), out / SWEEP_JSON)
    write(document_html(sweep_page(done)), out / SWEEP_PAGE)
    return done


def sweep_json(done: Sweep) -> dict[str, object]:
    """Return a sweep as values of JSON."""
    return {"ok": not done.wrong, **asdict(done)}


def _required(outcome: Outcome) -> Outcome:
    if outcome.unavailable is not None:
        what = "the reference cell, which all others are compared with, is not available here"
        fix = "choose another with --reference factor=value"
        raise BackendError(what, field="reference", value=outcome.unavailable, fix=fix)
    return outcome


def _outcomes(variations: Sequence[Variation], model: str, size: Size, folder: Path) -> Iterator[Outcome]:
    groups: dict[object, list[tuple[int, Cell]]] = {}
    absent: list[Outcome] = []
    for number, variation in enumerate(variations):
        why = cannot(variation.cell)
        if why is None:
            groups.setdefault(variation.cell.process, []).append((number, variation.cell))
        else:
            absent.append(Outcome(number=number, unavailable=why))
    if absent and absent[0].number == 0:
        _required(absent[0])
    for cells in groups.values():
        yield from _child((model, size, tuple(cells), str(folder)))
    yield from absent


def _child(job: Job) -> Iterator[Outcome]:
    errors = Path(job[-1]) / "stderr"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**_SLEEPING, **os.environ},
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(job))
        child.stdin.close()
        for line in child.stdout:
            yield msgspec.json.decode(line, type=Outcome)
        code = child.wait()
    if code != 0:
        lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise BackendError(f"a process of the sweep died: {lines[-1] if lines else f'exit code {code}'}")


def _result(variations: Sequence[Variation], outcome: Outcome, reference: Outcome) -> CellResult:
    variation = variations[outcome.number]
    bare = CellResult(
        title=variation.title,
        changes=dict(variation.changes),
        cell=cell_texts(variation.cell),
        verdict=Verdict.UNAVAILABLE,
        unavailable=outcome.unavailable,
        seconds=outcome.seconds,
        machine=outcome.machine,
    )
    if outcome.unavailable is not None:
        return bare
    samples, steps = sampled(outcome, reference), trained(outcome, reference)
    verdict = _VERDICTS[promised(variations[0].cell, variation.cell)][
        steps.equal and all(each.one and each.against.same for each in samples)
    ]
    if outcome.number == 0 and verdict is not Verdict.BROKEN:
        verdict = Verdict.REFERENCE
    return replace(bare, sampled=samples, trained=steps, peers=peers(outcome), verdict=verdict)
