"""Synthetic citation graphs for the benchmarks: preferential attachment, closure, classics, 12 % without references.

Papers are numbered in time order over 46 years that grow by 4 % a year. References go to earlier years only.
The tail of the in-degree is heavy: the most cited of 200,000 papers has 6,000 citations, of 2,000,000 it has 36,000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIRST_YEAR, YEARS, GROWTH = 1975, 46, 0.04
NO_REFERENCES, COPY, CLOSE, CLASSIC = 0.12, 0.45, 0.2, 0.01


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges sorted by (citing, cited), unique, without self-loops."""

    years: NDArray[np.int32]
    citing: NDArray[np.uint32]
    cited: NDArray[np.uint32]


def paper_years(papers: int) -> NDArray[np.int32]:
    """Return the year of each paper, ascending."""
    share = (1 + GROWTH) ** np.arange(YEARS)
    ends = np.rint(np.cumsum(share) / share.sum() * papers).astype(np.int64)
    return np.repeat(np.arange(YEARS), np.diff(ends, prepend=0)).astype(np.int32) + FIRST_YEAR


def citation_graph(papers: int, mean_references: float, seed: int = 0) -> Graph:
    """Draw a graph year by year; duplicates fall away, so about 5 % of the references are lost."""
    rng = np.random.default_rng(seed)
    years = paper_years(papers)
    starts = np.searchsorted(years, np.arange(FIRST_YEAR, FIRST_YEAR + YEARS + 1))
    capacity = int(papers * mean_references * 1.1) + 1000
    keys = np.empty(capacity, np.uint64)
    pointer = np.zeros(papers + 1, np.int64)
    filled = 0
    for year in range(YEARS):
        begin, end = int(starts[year]), int(starts[year + 1])
        counts = _counts(rng, end - begin, mean_references, begin)
        rows = np.repeat(np.arange(begin, end, dtype=np.uint64), counts)
        targets = _targets(rng, counts, begin, keys[:filled], pointer)
        fresh = np.sort(rows << np.uint64(32) | targets)
        fresh = fresh[np.diff(fresh, prepend=np.uint64(2**64 - 1)) != 0]
        keys[filled : filled + len(fresh)] = fresh
        pointer[begin + 1 : end + 1] = filled + np.searchsorted(
            fresh, np.arange(begin + 1, end + 1, dtype=np.uint64) << np.uint64(32)
        )
        filled += len(fresh)
    keys = keys[:filled]
    return Graph(years, (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32))


def _counts(rng: np.random.Generator, papers: int, mean: float, earlier: int) -> NDArray[np.int64]:
    if earlier == 0:
        return np.zeros(papers, np.int64)
    sigma = 0.6
    drawn = rng.lognormal(np.log(mean / (1 - NO_REFERENCES)) - sigma**2 / 2, sigma, papers)
    counts = np.minimum(np.rint(drawn), min(120, earlier)).astype(np.int64)
    counts[rng.random(papers) < NO_REFERENCES] = 0
    return counts


def _targets(
    rng: np.random.Generator,
    counts: NDArray[np.int64],
    earlier: int,
    keys: NDArray[np.uint64],
    pointer: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """A recent paper, a target of earlier citations (by in-degree), a reference's reference, or a classic."""
    total = int(counts.sum())
    age = rng.exponential(0.15, total) % 1.0
    targets = (earlier - 1 - (age * earlier).astype(np.int64)).astype(np.uint64)
    if len(keys) == 0:
        return targets
    kind = rng.random(total)
    copied = np.flatnonzero(kind < COPY)
    targets[copied] = keys[rng.integers(0, len(keys), len(copied))] & np.uint64(0xFFFFFFFF)
    classic = np.flatnonzero((kind > COPY) & (kind < COPY + CLASSIC))
    targets[classic] = (earlier * rng.random(len(classic)) ** 4).astype(np.uint64)
    # The reference before it in the same list is the one whose references are looked at.
    first = np.zeros(total, bool)
    first[np.cumsum(counts)[counts > 0] - counts[counts > 0]] = True
    closing = np.flatnonzero((kind > 1 - CLOSE) & ~first)
    via = targets[closing - 1].astype(np.int64)
    degree = pointer[via + 1] - pointer[via]
    closing, via, degree = closing[degree > 0], via[degree > 0], degree[degree > 0]
    pick = pointer[via] + (rng.random(len(via)) * degree).astype(np.int64)
    targets[closing] = keys[pick] & np.uint64(0xFFFFFFFF)
    return targets
