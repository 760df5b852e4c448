"""Papers of a synthetic world before citations: time, field, cause and fitness.

Papers are numbered in time order. Every draw is a word of a stream named by its purpose, so that a new kind of draw
changes none of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.sources.world.draws import lognormal_values, normal_grid, threshold, weighted, words, zipf
from tinsmith.data.sources.world.spec import Cause, WorldSpec
from tinsmith.types.seeds import derive

FIRST_YEAR: Final = 1975
YEARS: Final = 46
_GROWTH: Final = (104, 100)
"""Growth of papers per year: 4 %."""

CAUSES: Final = tuple(Cause)
"""Causes; `WorldPapers.cause` holds positions in this."""
_DEATH: Final = (0.6, 0.6, 1.5)
"""Factor on the mortality, by cause."""
_FITNESS: Final = (1.5, 1.1, 0.5)
"""Sigma of a lognormal fitness and its factor, by cause, in units of 2**-16."""
_FITNESS_SIGMA: Final = "1.2"
_FITNESS_UNIT: Final = 1 << 16
_LENGTH_SIGMA: Final = "0.6"
_LONGEST_LIST: Final = 120
_UNRECORDED: Final = 0.06
_NOVEL: Final = 0.12
_NOVEL_WANDERS: Final = (0.3, 0.7)
_OTHERS_WANDER: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPapers:
    """One entry per paper, in time order; n papers."""

    year_start: NDArray[np.int64]
    """[YEARS + 1] first paper of each year; the last entry is n."""
    field: NDArray[np.int32]
    topic: NDArray[np.int32]
    """Topic, numbered over all fields."""
    cause: NDArray[np.uint8]
    fitness: NDArray[np.uint32]
    """Fitness in units of 2**-16; 0 means that nobody picks the paper."""
    wander: NDArray[np.uint32]
    """Threshold for a pick from any field."""
    num_references: NDArray[np.int32]
    """Number of references it makes."""
    recorded: NDArray[np.bool_]
    """False if its record has lost all references."""
    second_field: NDArray[np.int32]
    """Field whose words a novel paper mixes in; the own field otherwise."""


def draw_papers(spec: WorldSpec, seed: int) -> WorldPapers:
    """Draw the papers of a world; see WorldPapers."""

    def bits(what: str) -> NDArray[np.uint64]:
        return words(derive(seed, "synthetic", what), 0, spec.papers)

    field = zipf(spec.fields, "0.6").draw(bits("field"))
    cause = weighted(spec.shares).draw(bits("cause"))
    death = np.array([threshold(spec.mortality * factor) for factor in _DEATH])
    values = lognormal_values(_FITNESS_SIGMA, _FITNESS_UNIT)
    by_cause = np.array([[int(value * f) for value in values.tolist()] for f in _FITNESS])
    fitness = by_cause[cause, normal_grid().draw(bits("fitness"))]
    fitness[_high(bits("death")) < death[cause]] = 0
    lengths = lognormal_values(_LENGTH_SIGMA, spec.references).clip(1, _LONGEST_LIST)
    novel = _high(bits("novel")) < threshold(_NOVEL)
    low, high = (threshold(share) for share in _NOVEL_WANDERS)
    wander = low + _scaled(bits("wander"), high - low)
    other = (field + 1 + _scaled(bits("second field"), max(1, spec.fields - 1))) % spec.fields
    return WorldPapers(
        year_start=_year_starts(spec.papers),
        field=field.astype(np.int32),
        topic=(field * spec.topics + _scaled(bits("topic"), spec.topics)).astype(np.int32),
        cause=cause.astype(np.uint8),
        fitness=fitness.astype(np.uint32),
        wander=np.where(novel, wander, threshold(_OTHERS_WANDER)).astype(np.uint32),
        num_references=lengths[normal_grid().draw(bits("references"))].astype(np.int32),
        recorded=_high(bits("recorded")) >= threshold(_UNRECORDED),
        second_field=np.where(novel, other, field).astype(np.int32),
    )


def _year_starts(papers: int) -> NDArray[np.int64]:
    up, down = _GROWTH
    sizes = [up**year * down ** (YEARS - 1 - year) for year in range(YEARS)]
    total = sum(sizes)
    return np.array([papers * sum(sizes[:year]) // total for year in range(YEARS + 1)])


def _high(bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the upper halves."""
    return (bits >> np.uint64(32)).astype(np.int64)


def _scaled(bits: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Return draws from 0 .. bound - 1, from the upper halves."""
    return (_high(bits) * bound) >> 32
