"""Citations of a synthetic world, with the dirt of real citation data.

The only mechanism that makes a paper disruptive or consolidating is the bypass: its citers also cite some of its
references, often for a developer, rarely for a pioneer. No label is stored; it follows from the CD index of the
finished graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.sources.world.draws import exponential_ages, threshold
from tinsmith.data.sources.world.papers import YEARS, WorldPapers
from tinsmith.data.sources.world.spec import WorldSpec
from tinsmith.ops.extension import module
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Citing habits of the papers of one cause, as probabilities."""

    hub: float
    """Probability of citing one to three of the own field's hubs; their many citers reduce |CD|."""
    topic: float
    """Probability that a pick comes from the own topic, ..."""
    field: float
    """... or else from the own field, or else from anywhere."""
    bypass: float
    """Probability that a citer of this paper also cites one or two of its references."""
    timeless: bool
    """Probability that candidates come uniformly from all earlier papers; otherwise their age is exponential."""


HABITS: Final = (
    Habit(hub=0.05, topic=0.30, field=0.35, bypass=0.03, timeless=True),
    Habit(hub=0.60, topic=0.70, field=0.22, bypass=0.85, timeless=False),
    Habit(hub=0.90, topic=0.70, field=0.22, bypass=0.35, timeless=False),
)
"""Habits by cause, in the order of world_papers.CAUSES."""

_CANDIDATES: Final = 5
"""Candidates per pick: the best of them by fitness times a uniform draw."""
_MEAN_AGE: Final = 3
"""Mean age in years."""
_HUB_SLOTS: Final = 4
"""Hubs of a field at a time; ..."""
_HUB_TENURE: Final = 3
"""... one of them is replaced each time this many years have passed."""
_MOST_HUBS: Final = 3


@dataclass(frozen=True, slots=True)
class Citations:
    """Recorded references in CSR form: those of paper i are cited[offsets[i] : offsets[i + 1]]."""

    offsets: NDArray[np.int64]
    cited: NDArray[np.uint32]


def draw_citations(spec: WorldSpec, papers: WorldPapers, seed: int) -> Citations:
    """Draw every paper's references, in time order; all point to earlier papers, none twice.

    A record that has lost its references has none here; later papers still cite through it.
    """
    habits = np.array(
        [[*map(threshold, (h.hub, h.topic, h.topic + h.field, h.bypass)), int(h.timeless)] for h in HABITS],
        dtype=np.uint32,
    )
    ages = exponential_ages(_MEAN_AGE, YEARS).below >> np.uint64(32)
    offsets = np.zeros(spec.papers + 1, dtype=np.int64)
    cited = module().world_references(
        papers.year_start,
        papers.topic,
        papers.field,
        papers.cause,
        papers.fitness,
        papers.wander,
        papers.num_references,
        topics=spec.fields * spec.topics,
        fields=spec.fields,
        habits=habits,
        age_below=np.append(ages, 2**32 - 1).astype(np.uint32),
        candidates=_CANDIDATES,
        hub_slots=_HUB_SLOTS,
        hub_tenure=_HUB_TENURE,
        max_hubs=_MOST_HUBS,
        seed=derive(seed, "synthetic", "references"),
        offsets=offsets,
    )
    made = np.diff(offsets)
    np.cumsum(np.where(papers.recorded, made, 0), out=offsets[1:])
    return Citations(offsets, cited[np.repeat(papers.recorded, made)])
