"""Atypicality: our closed form against pyscisci's ten random networks, and against 300 networks of our own, one thread.

20,000 citing papers in 20 years, 500 journals. pyscisci is no dependency: without it (pip install pyscisci) its row is
left out. Ours and pyscisci's compute the same quantity, a median and a 10th percentile of z per paper.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from tinsmith.data.indices.atypicality import Atypicality, Null, NullModel, score_atypicality
from tinsmith.data.indices.journal_pairs import JournalReferences
from tinsmith.ops.extension import configure

CITING, OLDER, FIELDS, JOURNALS = 20_000, 30_000, 25, 20
FIRST_YEAR, FIRST_CITING, LAST_YEAR = 1970, 2000, 2019
REFERENCES, ROUNDS, NULLS = 19.0, 7, 300
SPEED_UP, SPEARMAN_P10, SPEARMAN_MEDIAN = 50, 0.99, 0.98


@dataclass(frozen=True, slots=True)
class World:
    """Papers in row order, the older ones cited only; edges sorted."""

    years: NDArray[np.int32]
    journals: NDArray[np.int64]
    citing: NDArray[np.uint32]
    cited: NDArray[np.uint32]


def world(seed: int = 0) -> World:
    """Draw papers of fields with journals of their own, citing their own field and, less often, others."""
    rng = np.random.default_rng(seed)
    older = np.sort(rng.integers(FIRST_YEAR, FIRST_CITING, OLDER))
    newer = np.repeat(np.arange(FIRST_CITING, LAST_YEAR + 1), CITING // 20)
    years = np.concatenate([older, newer]).astype(np.int32)
    field = rng.integers(0, FIELDS, len(years))
    share = 1.0 / np.arange(1, JOURNALS + 1)
    journals = field * JOURNALS + rng.choice(JOURNALS, len(years), p=share / share.sum())
    counts = np.clip(rng.lognormal(np.log(REFERENCES) - 0.18, 0.6, CITING), 0, 100).astype(int)
    citing = np.repeat(np.arange(OLDER, OLDER + CITING), counts)
    earlier = np.searchsorted(years, years[citing])
    recent = (earlier * (1 - rng.exponential(0.2, len(citing)) % 1.0)).astype(np.int64)
    # Move to the nearest paper of the own field, where the own field is what is cited.
    by_field = [np.flatnonzero(field == f) for f in range(FIELDS)]
    own = rng.random(len(citing)) < 0.8
    cited = recent.copy()
    for f, rows in enumerate(by_field):
        chosen = own & (field[citing] == f)
        cited[chosen] = rows[np.searchsorted(rows, recent[chosen], "right") - 1]
    keys = np.unique((citing << 32 | cited)[cited < earlier])
    return World(years, journals, (keys >> 32).astype(np.uint32), (keys & (2**32 - 1)).astype(np.uint32))


def ours(drawn: World, null: Null) -> tuple[float, Atypicality]:
    """CPU-seconds, journal names to scores, and the scores."""
    names = pl.Series([f"J{j:03d}" for j in drawn.journals.tolist()])
    start = time.process_time()
    references = JournalReferences.of(drawn.years, names, drawn.citing, drawn.cited)
    scores = score_atypicality(references, null)
    return time.process_time() - start, scores


def theirs(drawn: World) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """CPU-seconds of pyscisci with ten nulls, and its p10 and median by row (NaN: none)."""
    import pandas as pd
    from pyscisci.methods.novelty import novelty_conventionality

    rows = np.arange(len(drawn.years))
    pub = pd.DataFrame({"PublicationId": rows, "Year": drawn.years, "JournalId": drawn.journals})
    edges = {"CitingPublicationId": drawn.citing, "CitedPublicationId": drawn.cited}
    pub2ref = pd.DataFrame(edges).astype(np.int64)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        novelty_conventionality(pub, pub2ref[:2000], n_samples=1)  # compiles what it compiles
        start = time.process_time()
        table = novelty_conventionality(pub, pub2ref, n_samples=10)
        seconds = time.process_time() - start
    p10, median = (np.full(len(rows), np.nan) for _ in range(2))
    p10[table["PublicationId"]] = table["NoveltyScore"].astype(float)
    median[table["PublicationId"]] = table["ConventionalityScore"].astype(float)
    return seconds, p10, median


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    both = ~np.isnan(a) & ~np.isnan(b)
    return float(spearmanr(a[both], b[both]).statistic)


def goal(reached: bool, text: str) -> str:
    return f"(goal {text}: {'reached' if reached else 'NOT reached'})"


def main() -> None:
    configure(threads=1)
    drawn = world()
    runs = [ours(drawn, Null()) for _ in range(ROUNDS)]
    seconds, closed = float(np.median([s for s, _ in runs])), runs[0][1]
    pairs = int(closed.pairs.sum())
    print(f"  {CITING:,} citing papers, {len(drawn.citing):,} references, {pairs:,} pairs", end="")
    print(f", {closed.cells:,} pairs of journals")
    print(f"  closed form: {seconds:.3f} CPU-s, {seconds / pairs * 1e9:.0f} ns per pair", end="")
    print(f", {CITING / seconds:,.0f} papers/s")
    ten, _ = ours(drawn, Null(model=NullModel.SWITCHING))
    many, drawn_nulls = ours(drawn, Null(model=NullModel.SWITCHING, nulls=NULLS))
    print(f"  switching: 10 nulls {ten:.2f} CPU-s, {NULLS} nulls {many:.1f} CPU-s")
    if importlib.util.find_spec("pyscisci") is None:
        print("  pyscisci is not installed: no comparison")
    else:
        peer, p10, median = theirs(drawn)
        ratio = peer / seconds
        print(f"  pyscisci, 10 nulls: {peer:.1f} CPU-s, {CITING / peer:,.0f} papers/s", end="")
        print(f"; Spearman with {NULLS} nulls {spearman(p10, drawn_nulls.z_p10):.3f} (p10)", end="")
        print(f", {spearman(median, drawn_nulls.z_median):.3f} (median)")
        reached = ratio >= SPEED_UP
        print(f"atypicality, speed-up {ratio:.0f}x", goal(reached, f">= {SPEED_UP}x"))
    for name, a, b, limit in (
        ("p10", closed.z_p10, drawn_nulls.z_p10, SPEARMAN_P10),
        ("median", closed.z_median, drawn_nulls.z_median, SPEARMAN_MEDIAN),
    ):
        rho = spearman(a, b)
        print(f"closed form and {NULLS} nulls, {name}: Spearman {rho:.4f}", end=" ")
        print(goal(rho >= limit, f">= {limit}"))


if __name__ == "__main__":
    main()
