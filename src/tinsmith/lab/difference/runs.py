"""Comparison of two run folders: bit-equal, or their first difference, as text and as JSON.

What is compared is what a repeated run has to reproduce: rollouts, trace, metrics, final weights. It goes through both
runs in the order of time: at one step what was sampled, how it was rewarded, the gradient, the step that was taken with
it, and what was computed beside. No tolerance anywhere; the size of a difference is told and decides nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, cast

from tinsmith.lab.difference.rollouts import (
    ABSENT,
    FieldDifference,
    RolloutDifference,
    TensorDifference,
    Timeline,
    decode,
    timeline,
    unequal_fields,
    unequal_lines,
    unequal_tensors,
)
from tinsmith.lab.runs.files import METRICS, ROLLOUTS, TRACE
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Manifest, Run
from tinsmith.pages.measures import counted
from tinsmith.types.errors import DataError


class Phase(StrEnum):
    """Part of a step that differs; in the order of time."""

    SAMPLE = "sample"
    REWARD = "reward"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    METRICS = "metrics"  # Something computed beside: all that the training itself left is equal so far.
    BYTES = "bytes"  # Lines that are written in another way: every value that is read is equal.
    WEIGHTS = "weights"  # Only the hash of the final weights.
    LENGTH = "length"  # Equal as far as the shorter one goes.


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDifference:
    """The first unit of gradient that differs."""

    substep: int
    unit: int  # Its number in the optimizer step, from 0.
    of_units: int
    first: str
    second: str  # The SHA-256 of both.


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First difference of two runs; of the details only those of the phase are there."""

    step: int
    phase: Phase
    rollout: RolloutDifference | None = None
    tensor: TensorDifference | None = None
    unit: UnitDifference | None = None  # Of the gradient, where both runs kept its units' hashes.
    metrics: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of comparing two runs; `first` is None if they are equal."""

    folders: tuple[Path, Path]
    first: Difference | None
    steps: int  # Recorded steps that both have, up to the limit; of the last one perhaps a part.
    identity: tuple[FieldDifference, ...]
    circumstances: tuple[FieldDifference, ...]
    notes: tuple[str, ...]  # What could not be compared.

    @property
    def equal(self) -> bool:
        """True if all compared parts are equal."""
        return self.first is None


_FILES: Final = (ROLLOUTS, TRACE, METRICS)
Recorded = Mapping[str, Timeline]  # Lines of a run that are compared, by file.


def recorded(folder: Path, steps: int | None) -> Recorded:
    """Read the compared parts of a run, up to step `steps` (None: all)."""
    return {name: timeline(folder / name, steps) for name in _FILES}


def compare_runs(folders: tuple[Path, Path], *, steps: int | None = None) -> Comparison:
    """Compare two runs; with `steps` only the steps before it, and not their ends."""
    runs = [read_run(folder) for folder in folders]
    lines = [recorded(folder, steps) for folder in folders]
    if not any(each for one in lines for each in one.values()):
        what = "neither run has a recorded step, so that there is nothing to compare"
        raise DataError(what, field="DIR", value=", ".join(map(str, folders)))
    manifests = [run.manifest for run in runs]
    identity, around = (
        unequal_fields(*({} if each is None else getattr(each, part) for each in manifests))
        for part in ("identity", "circumstances")
    )
    notes = [
        f"{run.folder} has no readable manifest.json: nothing is known of what it ran on"
        for run in runs
        if run.manifest is None
    ]
    untraced = [str(run.folder) for run, one in zip(runs, lines, strict=True) if not one[TRACE]]
    if untraced:
        which = " and ".join(untraced)
        notes.append(f"no {TRACE} in {which}: beyond the rollouts it cannot be told in which phase it began")
    faults = [fault for run in runs if steps is None for fault in _final_faults(run)]
    lasts = [max(one[METRICS], default=-1) for one in lines]
    shared = range(1 + min(lasts))
    begun = range(len(shared), 1 + min(max(one[ROLLOUTS], default=-1) for one in lines))
    found = chain(
        (unequal_step(step, *lines, traced=not untraced) for step in shared),
        (_unequal_beginning(step, *lines) for step in begun),
    )
    return Comparison(
        folders=folders,
        first=next((one for one in found if one is not None), None)
        or _ends(lasts, manifests, whole=steps is None)
        or (Difference(step=lasts[0], phase=Phase.WEIGHTS) if faults else None),
        steps=len(shared) + len(begun),
        identity=identity,
        circumstances=tuple(each for each in around if each.name != "log_path"),
        notes=(*faults, *notes),
    )


def _final_faults(run: Run) -> Iterator[str]:
    """Return the faults of the adapter in a run's folder beside its manifest."""
    if run.manifest is not None and run.manifest.selected is not None:
        from tinsmith.lab.runs.saved import final_faults  # torch, which nothing else here needs

        yield from (f"{run.folder}: {fault}" for fault in final_faults(run.folder, run.manifest))


def unequal_step(step: int, first: Recorded, second: Recorded, *, traced: bool) -> Difference | None:
    """Return the first difference of a step; without traces its training is not compared."""
    other_bytes = False
    for name, compare in ((ROLLOUTS, unequal_rollouts), (TRACE, unequal_training), (METRICS, _beside)):
        lines = [each[name].get(step, []) for each in (first, second)]
        if lines[0] == lines[1] or (name == TRACE and not traced):
            continue
        if (found := compare(step, *lines)) is not None:
            return found
        other_bytes |= name != TRACE  # it also has what was not hashed: norms, and units of one run alone
    return Difference(step=step, phase=Phase.BYTES) if other_bytes else None


def _unequal_beginning(step: int, first: Recorded, second: Recorded) -> Difference | None:
    """Compare the rollouts that both have of a step that one of them did not end: as many as the shorter has."""
    lines = [each[ROLLOUTS].get(step, []) for each in (first, second)]
    first_lines, second_lines = (each[: min(map(len, lines))] for each in lines)
    return None if first_lines == second_lines else unequal_rollouts(step, first_lines, second_lines)


def unequal_rollouts(step: int, first: Sequence[bytes], second: Sequence[bytes]) -> Difference | None:
    """Compare the rollouts of a step: first their samples, then the fields derived from them."""
    lines = [decode(each) for each in first], [decode(each) for each in second]
    rollout, is_sampled = unequal_lines(*lines)
    return rollout and Difference(step=step, phase=Phase.SAMPLE if is_sampled else Phase.REWARD, rollout=rollout)


def unequal_training(step: int, first: Sequence[bytes], second: Sequence[bytes]) -> Difference | None:
    """Compare a step's optimizer steps one by one: first the gradient, then the updated weights."""
    lines = [decode(each) for each in first], [decode(each) for each in second]
    for substep in range(max(map(len, lines))):
        made = [each[substep] if substep < len(each) else {} for each in lines]
        unit = _unequal_unit(substep, *(cast(Sequence[str], each.get("units") or ()) for each in made))
        for phase, name in ((Phase.GRADIENT, "gradient"), (Phase.OPTIMIZER, "weights")):
            marks = (found if isinstance(found := each.get(name), Mapping) else {} for each in made)
            tensor = unequal_tensors(substep, *marks)
            if tensor is not None or unit is not None:
                return Difference(step=step, phase=phase, tensor=tensor, unit=unit)
    return None


def _unequal_unit(substep: int, one: Sequence[str], two: Sequence[str]) -> UnitDifference | None:
    """Return the first unequal unit; None if there is none, or a run has no hashes of units."""
    for unit, pair in enumerate(zip_longest(one, two, fillvalue=ABSENT) if one and two else ()):
        if pair[0] != pair[1]:
            return UnitDifference(
                substep=substep, unit=unit, of_units=max(len(one), len(two)), first=pair[0], second=pair[1]
            )
    return None


def _beside(step: int, one: Sequence[bytes], two: Sequence[bytes]) -> Difference:
    merged = [{key: value for line in lines for key, value in decode(line).items()} for lines in (one, two)]
    return Difference(step=step, phase=Phase.METRICS, metrics=unequal_fields(*merged))


def _ends(lasts: Sequence[int], manifests: Sequence[Manifest | None], *, whole: bool) -> Difference | None:
    if lasts[0] != lasts[1]:
        return Difference(step=1 + min(lasts), phase=Phase.LENGTH)
    hashes = [each and each.hashes.get("weights_sha256") for each in manifests]
    if whole and None not in hashes and hashes[0] != hashes[1]:
        return Difference(step=lasts[0], phase=Phase.WEIGHTS)
    return None


_FIELDS: Final = 4  # Lines for the fields of the identity, or of the circumstances.
_NOTES: Final = 3
_CODE: Final = ("tinsmith", "source_sha256")  # Fields of the identity that say which package ran.
_WIDTH: Final = 40  # Characters of a value that are shown.

_WHAT: Final = {
    Phase.SAMPLE: "what was sampled",
    Phase.REWARD: "how it was read and rewarded",
    Phase.GRADIENT: "the gradient",
    Phase.OPTIMIZER: "the weights after the optimizer's step",
    Phase.METRICS: "metrics alone, computed beside the training",
    Phase.BYTES: "how a line of rollouts or metrics is written: its values are equal",
    Phase.WEIGHTS: "the final weights alone, or their hash",
    Phase.LENGTH: "only one of them goes on from here",
}


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return the differences as lines, the most important first."""
    first = comparison.first
    steps = counted(comparison.steps, "recorded step")  # the last of them may be an evaluation alone
    lines = [f"equal: {steps}, bit for bit"] if first is None else difference_lines(first)
    code = tuple(each for each in comparison.identity if each.name in _CODE)
    changed = tuple(each for each in comparison.identity if each not in code)
    identity_lines = [*_fields("asked differently: ", changed), *_fields("other code: ", code)]
    lines = [*lines, *identity_lines] if first is None else [*identity_lines, *lines]
    lines += comparison.notes[:_NOTES]
    return lines + _fields("circumstances ", comparison.circumstances)


def difference_lines(first: Difference) -> list[str]:
    """Return the first difference of two runs as text."""
    return [f"different: first at step {first.step}, phase {first.phase}: {_WHAT[first.phase]}", *_details(first)]


def comparison_json(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as JSON values."""
    return {"equal": comparison.equal, **dataclasses.asdict(comparison), "folders": [*map(str, comparison.folders)]}


def _details(first: Difference) -> Iterator[str]:
    if first.rollout is not None:
        yield from _rollout(first.rollout)
    if first.tensor is not None:
        yield from _tensor(first.tensor)
    if (unit := first.unit) is not None:
        substep = f", substep {unit.substep}" if unit.substep else ""
        yield f"  unit of gradient {unit.unit} of {unit.of_units}{substep}: {unit.first[:16]} | {unit.second[:16]}"
    if first.metrics:
        yield from _fields("metrics ", first.metrics[:2])


def _rollout(found: RolloutDifference) -> Iterator[str]:
    place = f"{found.split}, prompt {found.prompt_id}, sample {found.sample}"
    turn = "" if found.turn is None else f", turn {found.turn}"
    token = "" if found.token is None else f", token {found.token}"
    yield f"  {place}{turn}{token}: {found.field} {_short(found.first)} | {_short(found.second)}"
    extent = f"  in this step: {found.rollouts} of {counted(found.of_rollouts, 'rollout')}"
    yield f"{extent}, {found.tokens} of {counted(found.of_tokens, 'token')}"
    sizes = (("logprob", found.max_logprob), ("reward", found.max_reward))
    largest = [f"max |d {name}| {size:.3g}" for name, size in sizes if size is not None]
    if largest:
        yield f"  {', '.join(largest)}"


def _tensor(found: TensorDifference) -> Iterator[str]:
    substep = f", substep {found.substep}" if found.substep else ""
    yield f"  tensor {found.tensor}{substep}: |a - b| / |a| {_size(found.size)}"
    yield f"  largest: {found.largest}: {_size(found.largest_size)}"
    extent = f"{found.tensors} of {counted(found.of_tensors, 'tensor')}"
    yield f"  in this step: {extent}; all as one vector: {_size(found.all_size)}"


def _size(value: float | None) -> str:
    if value is None:
        return "not known"
    return f"about {value:.2g}" if value > 0.0 else "too small for the sketches"


def _fields(name: str, fields: Sequence[FieldDifference]) -> list[str]:
    shown = fields if len(fields) <= _FIELDS else fields[: _FIELDS - 1]
    lines = [f"{name}{each.name}: {_short(each.first)} | {_short(each.second)}" for each in shown]
    left = len(fields) - len(shown)
    return [*lines, f"{name}{left} more, see --json"] if left else lines


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = text.replace("\n", " ")
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
