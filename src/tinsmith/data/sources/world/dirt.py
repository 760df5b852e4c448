"""Dirt of real citation data, added to a synthetic world in known numbers.

Beside its clean references a record may cite an id that no paper has, cite the same paper twice, cite a paper of a
later year, or cite itself. (Records without any references are drawn with the papers.) Every draw belongs to a
reference or a paper, so that chunks do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.sources.world.citations import Citations
from tinsmith.data.sources.world.draws import threshold, words
from tinsmith.data.sources.world.papers import WorldPapers
from tinsmith.types.seeds import derive

_DANGLING: Final = 0.010
_DUPLICATE: Final = 0.005
_FORWARD: Final = 0.003
"""Share of the references."""
_SELF_LOOP: Final = 0.002
"""Share of the papers that cite anything."""
_YEARS_AHEAD: Final = 2
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges between papers by number, sorted by the citing one."""

    citing: NDArray[np.int64]
    cited: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.citing)

    def of(self, start: int, stop: int) -> Edges:
        """Return those whose citing paper is in [start, stop)."""
        low, high = np.searchsorted(self.citing, [start, stop])
        return Edges(self.citing[low:high], self.cited[low:high])


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    """Edges added to the clean references."""

    dangling: Edges
    """Edges to numbers from n up, which no paper has, all distinct."""
    duplicate: Edges
    """Repeated clean references."""
    forward: Edges
    """Edges to papers of the following years; at most one from each paper."""
    self_loop: Edges


def draw_dirt(papers: WorldPapers, citations: Citations, seed: int) -> Dirt:
    """Draw the dirt of a world."""
    offsets, cited = citations.offsets, citations.cited
    chosen = derive(seed, "synthetic", "dirt")
    hits = [_hits(chosen, start, min(_CHUNK, len(cited) - start)) for start in range(0, len(cited), _CHUNK)]
    dangling, duplicate, forward = (
        np.concatenate([hit[kind] for hit in hits] or [np.empty(0, np.int64)]) for kind in range(3)
    )
    citing = np.searchsorted(offsets, np.concatenate([dangling, duplicate, forward]), "right") - 1
    of_dangling, of_duplicate, of_forward = np.split(citing, np.cumsum([len(dangling), len(duplicate)]))
    count = len(papers.field)
    loops = words(derive(seed, "synthetic", "self loops"), 0, count) >> np.uint64(32)
    looping = np.flatnonzero((loops < threshold(_SELF_LOOP)) & (np.diff(offsets) > 0))
    return Dirt(
        dangling=Edges(of_dangling, count + dangling),
        duplicate=Edges(of_duplicate, cited[duplicate].astype(np.int64)),
        forward=_ahead(papers, np.unique(of_forward), derive(seed, "synthetic", "forward")),
        self_loop=Edges(looping, looping),
    )


def _hits(seed: int, start: int, count: int) -> list[NDArray[np.int64]]:
    """Return the references from `start` on that get each kind of dirt."""
    bits = words(seed, start, count)
    parts = (bits >> np.uint64(shift) & np.uint64(0xFFFFF) for shift in (0, 20, 40))
    shares = (_DANGLING, _DUPLICATE, _FORWARD)
    return [start + np.flatnonzero(part < threshold(share) >> 12) for part, share in zip(parts, shares, strict=True)]


def _ahead(papers: WorldPapers, citing: NDArray[np.int64], seed: int) -> Edges:
    """Draw for each of `citing` a paper of the following years; those of the last year have none."""
    starts = papers.year_start
    last = len(starts) - 1
    year = np.searchsorted(starts, citing, "right") - 1
    low, high = (starts[np.minimum(year + 1, last)], starts[np.minimum(year + 1 + _YEARS_AHEAD, last)])
    citing, low, high = (part[low < high] for part in (citing, low, high))
    draws = (words(seed, 0, len(papers.field)) >> np.uint64(32)).astype(np.int64)
    return Edges(citing, low + ((draws[citing] * (high - low)) >> 32))
