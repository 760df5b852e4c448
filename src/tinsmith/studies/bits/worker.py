"""A process of a sweep: reads a job on standard input, and answers a line for each cell.

What decides about a whole process (threads, instruction set) is chosen here, before anything is computed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import torch

from tinsmith.models.base import OpenedBase, open_base
from tinsmith.ops.extension import configure
from tinsmith.studies.bits.cells import Cell, cell_of
from tinsmith.studies.bits.laboratory import compute
from tinsmith.studies.bits.outcome import Job, Outcome
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.errors import TinsmithError


def main() -> None:
    """Serve one job."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    cells = [(number, cell_of(words)) for number, words in job.cells]
    base = open_base(job.model)
    for number, cell in cells:
        sys.stdout.buffer.write(msgspec.json.encode(_answer(number, cell, base, job)) + b"\n")
        sys.stdout.buffer.flush()


def _answer(number: int, cell: Cell, base: OpenedBase, job: Job) -> Outcome:
    try:
        _set_up(cell)
        return compute(number, cell, base, job.size, Path(job.folder))
    except TinsmithError as error:
        return Outcome(number=number, unavailable=str(error).splitlines()[0])


def _set_up(cell: Cell) -> None:
    if cell.arithmetic is Arithmetic.FAST:
        torch.set_num_threads(cell.threads)
        return
    configure(threads=cell.threads, isa=None if cell.isa == "best" else Isa(cell.isa))
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)


if __name__ == "__main__":
    main()
