"""Runs a sweep: cells that share a process go to one child, and every answer is measured beside the reference cell."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.models.published.sources import find_model
from tinsmith.ops.processor import cpu_model
from tinsmith.studies.bits.cells import Cell, Expected, Plan, Variation, cannot, cell_words, expected
from tinsmith.studies.bits.measures import peers, sampled, trained
from tinsmith.studies.bits.outcome import Job, Outcome, Size
from tinsmith.studies.bits.page import report_sweep
from tinsmith.studies.bits.results import SWEEP_JSON, SWEEP_PAGE, CellResult, Sweep, Verdict
from tinsmith.types.errors import BackendError
from tinsmith.types.version import VERSION

NANO: Final = "tinsmith/nano"

_CHILD: Final = "tinsmith.studies.bits.worker"

_SLEEPING: Final = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Idle threads of torch sleep: where cores are shared, those that spin take minutes from the others."""

Say = Callable[[CellResult], None]
"""Hears of every cell as it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What is swept, and how much is computed in each cell."""

    plan: Plan
    out: Path
    """Where `sweep.json` and `sweep.html` go."""
    name: str = NANO
    """What the model is called."""
    model: str = NANO
    """A folder or a built-in model."""
    size: Size = field(default_factory=Size)


def sweep(settings: SweepSettings, say: Say) -> Sweep:
    """Compute all cells and write what they showed.

    Raises:
        ConfigError: there is no such model, or `out` is no folder.
        BackendError: the reference cell is not available here, or a child died.
    """
    find_model(settings.model, field="--model")
    settings.out.mkdir(parents=True, exist_ok=True)
    variations = settings.plan.variations
    results: dict[int, CellResult] = {}
    with tempfile.TemporaryDirectory(prefix="tinsmith-sweep-") as scratch:
        reference: Outcome | None = None
        for number, outcome in _outcomes(settings, Path(scratch)):
            if reference is None:
                reference = _required(outcome)
            results[number] = _result(variations, number, outcome, reference)
            say(results[number])
    done = Sweep(
        model=settings.name,
        completions=settings.size.completions,
        prompt=settings.size.prompt,
        tokens=settings.size.tokens,
        steps=settings.size.steps,
        machine={"cpu": cpu_model(), "tinsmith": VERSION, **(results[0].machine or {})},
        cells=tuple(results[number] for number in range(len(variations))),
    )
    _write(done, settings.out)
    return done


def sweep_json(done: Sweep) -> dict[str, object]:
    """Return a sweep as values of JSON."""
    return {"ok": not done.wrong, **dataclasses.asdict(done)}


def _write(done: Sweep, out: Path) -> None:
    with replacing(out / SWEEP_JSON) as part:
        text = json.dumps(sweep_json(done), indent=1, ensure_ascii=False) + "\n"
        part.write_text(text, encoding="utf-8", newline="\n")
    report_sweep(done, out / SWEEP_PAGE)


def _required(outcome: Outcome) -> Outcome:
    if outcome.unavailable is not None:
        raise BackendError(
            "the reference cell, which all others are compared with, is not available here",
            field="reference",
            value=outcome.unavailable,
            fix="choose another with --reference factor=value",
        )
    return outcome


def _outcomes(settings: SweepSettings, scratch: Path) -> Iterator[tuple[int, Outcome]]:
    """Every cell's outcome by number, the reference cell's first."""
    groups: dict[object, list[tuple[int, Cell]]] = {}
    absent: list[tuple[int, Outcome]] = []
    for number, variation in enumerate(settings.plan.variations):
        why = cannot(variation.cell)
        if why is None:
            groups.setdefault(variation.cell.process, []).append((number, variation.cell))
        else:
            absent.append((number, Outcome(number=number, unavailable=why)))
    if absent and absent[0][0] == 0:
        _required(absent[0][1])
    for cells in groups.values():
        yield from _child(settings, scratch, cells)
    yield from absent


def _child(settings: SweepSettings, scratch: Path, cells: Sequence[tuple[int, Cell]]) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of cells that share a process, as they come.

    Raises:
        BackendError: the process died.
    """
    job = Job(
        model=settings.model,
        size=settings.size,
        cells=tuple((number, cell_words(cell)) for number, cell in cells),
        folder=str(scratch),
    )
    errors = scratch / "stderr"
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
            outcome = msgspec.json.decode(line, type=Outcome)
            yield outcome.number, outcome
        code = child.wait()
    if code != 0:
        said = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = said[-1] if said else f"exit code {code}"
        raise BackendError(f"a process of the sweep died: {last}")


def _result(variations: Sequence[Variation], number: int, outcome: Outcome, reference: Outcome) -> CellResult:
    variation = variations[number]
    bare = CellResult(
        title=variation.title,
        changes={factor.value: value for factor, value in variation.changes},
        cell=cell_words(variation.cell),
        verdict=Verdict.UNAVAILABLE,
        unavailable=outcome.unavailable,
        seconds=outcome.seconds,
        machine=outcome.machine,
    )
    if outcome.unavailable is not None:
        return bare
    whole = dataclasses.replace(
        bare, sampled=sampled(outcome, reference), trained=trained(outcome, reference), peers=peers(outcome)
    )
    wanted = expected(variations[0].cell, variation.cell)
    return dataclasses.replace(whole, verdict=_verdict(whole, wanted, first=number == 0))


def _verdict(found: CellResult, wanted: Expected, *, first: bool) -> Verdict:
    assert found.trained is not None
    one = all(each.one and each.against.same for each in found.sampled)
    equal = one and found.trained.equal
    if first:
        return Verdict.BROKEN if wanted is Expected.EQUAL and not equal else Verdict.REFERENCE
    match wanted:
        case Expected.EQUAL:
            return Verdict.KEPT if equal else Verdict.BROKEN
        case Expected.DIFFERENT:
            return Verdict.UNSEEN if equal else Verdict.SEEN
        case Expected.OPEN:
            return Verdict.EQUAL if equal else Verdict.DIFFERENT
