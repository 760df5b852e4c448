"""Description of a work for the scheduler: its kind and its rough cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WorkKind(StrEnum):
    """Kind of computation."""

    SAMPLE = "sample"
    """A sampling request: the samples of one prompt."""
    GRADIENT = "gradient"
    """An aligned block of gradient units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A work to be computed by any worker."""

    id: str
    kind: WorkKind
    size: int
    """Tokens (prompt plus the most new tokens times samples), or rows."""
    owner: str = ""
    """Key whose request it is; sampling works of different owners are assigned in turn."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A work that is to be sent to a worker now."""

    worker: str
    id: str


@dataclass(frozen=True, slots=True)
class Given:
    """An abandoned work: it was in progress at two workers when they were lost."""

    id: str
    lost: tuple[str, ...]
    """Causes of both losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the works that one worker has at once."""

    samples: int = 65_536
    """Total size of the sampling works at a worker; a larger work goes to a worker that has none."""
    ahead: int = 1
    """Gradient works queued at a worker behind the current one, so that it need not wait for the next."""
    late: float = 1.0
    """Multiple of the usual time after which a work is also given to an idle worker."""
    passed_over: int = 64
    """Number of larger gradient works that may overtake the oldest one."""
    emptied: float = 0.0625
    """Share of the workers, at least one, reserved at a time for works that must run alone."""
