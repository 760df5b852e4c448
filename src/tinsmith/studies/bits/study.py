"""Runs a sweep: cells that share a process go to one child, and every answer is measured beside the reference cell."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.study.files import write_json
from tinsmith.models.published.sources import find_model
from tinsmith.ops.processor import cpu_model
from tinsmith.pages.page import document_html, write
from tinsmith.studies.bits.cells import Cell, Job, Outcome, Size, Variation, cannot, cell_texts, promised
from tinsmith.studies.bits.measures import CellResult, Sweep, Verdict, peers, sampled, trained
from tinsmith.studies.bits.page import sweep_page
from tinsmith.types.errors import BackendError
from tinsmith.types.version import VERSION

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

    Args:
        variations: the cells; the first is the reference cell.
        out: the folder to write to.
        say: takes every cell as it is done.
        name: of the model, on the page.
        model: a folder or a built-in model.
        size: how much is computed in each cell.
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
        raise BackendError(
            "the reference cell, which all others are compared with, is not available here",
            field="reference",
            value=outcome.unavailable,
            fix="choose another with --reference factor=value",
        )
    return outcome


def _outcomes(variations: Sequence[Variation], model: str, size: Size, folder: Path) -> Iterator[Outcome]:
    """Yield every cell's outcome, the reference cell's first."""
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
        yield from _child((model, size, tuple((number, cell_texts(cell)) for number, cell in cells), str(folder)))
    yield from absent


def _child(job: Job) -> Iterator[Outcome]:
    """Yield outcomes of cells that share a process, as they come."""
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
