"""Description of a work for the scheduler: its kind and its rough cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WorkKind(StrEnum):
    """Kind of computation."""

    SAMPLE = "sample"
    """A sampling request: the samples of one prompt."""
    GRADIENT = "gradient"
    """An aligned block of units of gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A work to be computed by any worker."""

    id: str
    kind: WorkKind
    size: int
    """Tokens (prompt, and the most new tokens times samples) or rows."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A work that is to be sent to a worker now."""

    worker: str
    id: str


@dataclass(frozen=True, slots=True)
class Given:
    """A work that is given up: it was under way at two workers when they were lost."""

    id: str
    lost: tuple[str, ...]
    """The causes of both losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the works at a worker at once."""

    samples: int = 65_536
    """Size of the sampling works at a worker; a larger one is given to a worker that has none."""
    ahead: int = 1
    """Gradient works beside the one that is computed, so that a worker need not wait for the next."""
    late: float = 1.0
    """Times the usual time after which a work is given to an idle worker too."""
    passed_over: int = 64
    """Larger gradient works that may go before the one that has waited longest."""
    emptied: float = 0.0625
    """Share of the workers, at least one, that are kept free at a time for works that must run alone."""
