"""Reads the finished runs of an arm on a task: what held-out items earned at each evaluation, one set a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from tinsmith.lab.runs.files import GENERAL
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.user_task.records import TaskRunRecords, read_task_run
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.stats.parity import ParityRecord
from tinsmith.types.errors import DataError


class _General(msgspec.Struct, frozen=True):
    name: str
    before: float
    after: float


class _Generals(msgspec.Struct, frozen=True):
    texts: tuple[_General, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRead:
    """The runs of one arm, one a seed; they were evaluated on the same items."""

    words: str
    reads: tuple[TaskRunRecords, ...]

    @property
    def clusters(self) -> Mapping[str, str]:
        """Of every item that belongs to a unit of several, the unit."""
        return self.reads[0].units

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps at which every run was evaluated."""
        found = [{one.step for one in read.sampled} for read in self.reads]
        return tuple(sorted(found[0].intersection(*found[1:])))

    def general(self) -> tuple[MeanRuns, MeanRuns] | None:
        """Return how well the base and the trained models foresee each general text; None where none was read."""
        found = [_general(read.run.folder) for read in self.reads]
        if not all(found):
            return None
        before = [{one.name: _exact(one.before) for one in texts} for texts in found]
        after = [{one.name: _exact(one.after) for one in texts} for texts in found]
        return MeanRuns.of(self.words, before), MeanRuns.of(self.words, after)


def read_runs(words: str, folders: Sequence[Path]) -> ArmRead:
    """Read an arm."""
    reads = tuple(read_task_run(read_run(folder)) for folder in folders)
    expected = {(one.id, one.prompt) for one in reads[0].task.items}
    for read in reads:
        if not read.sampled:
            raise DataError("a run was never evaluated", field="cells", value=str(read.run.folder))
        if {(one.id, one.prompt) for one in read.task.items} != expected:
            raise DataError(
                "runs of one study are evaluated on the same items",
                field="cells",
                value=str(read.run.folder),
                fix="hold items out by a rule or a list, not by the seed",
            )
    return ArmRead(words=words, reads=reads)


def parity_of(arms: Iterable[ArmRead]) -> ParityRecord | None:
    """Return sampler against trainer over every step that samples, of all runs; None where they were never compared.

    Supervised steps sample nothing: what the other runs of a study say of its engine holds for them too.
    """
    seen = [
        value
        for arm in arms
        for read in arm.reads
        for row in read.run.metrics.values()
        if (value := row.get("optim/unequal_logprob_bits")) is not None
    ]
    return ParityRecord(steps=len(seen), unequal_bits=int(sum(seen))) if seen else None


def _general(folder: Path) -> tuple[_General, ...]:
    file = folder / GENERAL
    if not file.is_file():
        return ()
    return msgspec.json.decode(file.read_bytes(), type=_Generals).texts


def _exact(value: float) -> Fraction:
    return Fraction(repr(value))
