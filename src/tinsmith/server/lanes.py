"""Order of requests: those of one owner run by sequence number, however they arrive; a gap holds later ones back.

The SDK numbers a training client's requests from 1 (0 made the model) and posts the first chunk of a batch last. A
sampling client numbers from 0, copies of it from a multiple of a billion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SAMPLING_BLOCK = 1_000_000_000
"""Sequence numbers reserved for each copy of a sampling client."""

Job = Callable[[], None]


@dataclass(slots=True)
class Lane:
    """Jobs of one owner, released in order."""

    next_seq: int
    waiting: dict[int, Job] = field(default_factory=dict[int, Job])
    excused: set[int] = field(default_factory=set[int])
    """Numbers of requests for which there was no room: others need not wait for them, and they may come again."""

    def add(self, seq: int, job: Job) -> list[Job]:
        """Add a job, and return the jobs that may run now, in order.

        A number that already ran or waits releases nothing: the caller answers a retry from its record.
        """
        if seq in self.excused:
            self.excused.remove(seq)
            if seq < self.next_seq:
                return [job]
            self.waiting.pop(seq, None)
        if seq < self.next_seq or seq in self.waiting:
            return []
        self.waiting[seq] = job
        return self._ready()

    def skip(self, seq: int) -> list[Job]:
        """Skip the number of a refused request, and return the jobs that may run now."""
        return self.add(seq, _nothing)

    def excuse(self, seq: int) -> list[Job]:
        """Skip the number of a request for which there was no room, which runs at once if it comes after all."""
        if seq in self.excused or seq < self.next_seq or seq in self.waiting:
            return []
        ready = self.skip(seq)
        self.excused.add(seq)
        return ready

    def append(self, job: Job) -> list[Job]:
        """Add a job after all others, and return the jobs that may run now, in order."""
        return self.add(max((self.next_seq, *(seq + 1 for seq in self.waiting))), job)

    def close_gap(self) -> list[Job]:
        """Skip missing numbers: continue with the lowest one that waits."""
        if not self.waiting:
            return []
        self.next_seq = min(self.waiting)
        return self._ready()

    def give_up(self) -> list[tuple[int, Job]]:
        """Remove the jobs that wait for missing numbers, and return them in order. Later jobs continue."""
        dropped = sorted(self.waiting.items())
        self.excused.difference_update(self.waiting)
        self.waiting.clear()
        self.next_seq = max((self.next_seq, *(seq + 1 for seq, _ in dropped)))
        return dropped

    def _ready(self) -> list[Job]:
        ready: list[Job] = []
        while self.next_seq in self.waiting:
            ready.append(self.waiting.pop(self.next_seq))
            self.next_seq += 1
        return ready


def _nothing() -> None:
    """Job of a refused request, which does nothing."""
