"""CD_5: our kernel against the `cdindex` package on 200,000 papers, then 2,000,000 papers alone, one thread.

The peer computes a sample of the papers, whose values must be ours bit for bit, and is extrapolated to all of them: its
time per paper does not depend on how many are asked for. Building its graph counts apart, as does building ours.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cdindex
import numpy as np
import polars as pl
from numpy.typing import NDArray

from graphs import FIRST_YEAR, YEARS, Graph, citation_graph
from tinsmith.data.indices.cd import cd_frame, count_cd, count_citers
from tinsmith.data.indices.graph import CitationGraph
from tinsmith.data.indices.windows import Windows
from tinsmith.ops.extension import configure

WINDOW = 5
PAPERS, REFERENCES, SAMPLE, ROUNDS = 200_000, 22.8, 1500, 5
MANY = 2_000_000
SPEED_UP, CPU_S, RSS_GB = 200, 60, 1.5


def cpu() -> float:
    return time.process_time()


def goal(reached: bool, text: str) -> str:
    return f"(goal {text}: {'reached' if reached else 'NOT reached'})"


def two_paths(graph: Graph) -> int:
    """Count (paper, reference, citer of the reference in the paper's window)."""
    papers, width = len(graph.years), YEARS + WINDOW
    cells = graph.cited.astype(np.int64) * width + graph.years[graph.citing] - FIRST_YEAR
    until = np.bincount(cells, minlength=papers * width).reshape(papers, width).cumsum(1)
    year = graph.years[graph.citing] - FIRST_YEAR
    return int((until[graph.cited, year + WINDOW] - until[graph.cited, year]).sum())


def ours(graph: Graph) -> tuple[float, float, NDArray[np.float64]]:
    """CPU-seconds of building and of counting, and CD (NaN: undefined)."""
    start = cpu()
    built = CitationGraph.from_edges(graph.citing, graph.cited, len(graph.years))
    counting = cpu()
    counts = count_citers(built, Windows.after(graph.years, WINDOW))
    cd = cd_frame(counts)["cd"].fill_null(np.nan).to_numpy()
    return counting - start, cpu() - counting, cd


def theirs(graph: Graph, sample: NDArray[np.int64]) -> tuple[float, float, NDArray[np.float64]]:
    """CPU-seconds of building and of the sample, and the sample's CD."""
    start = cpu()
    peer = cdindex.Graph()
    for row, year in enumerate(graph.years.tolist()):
        peer.add_vertex(row, year)
    for citing, cited in zip(graph.citing.tolist(), graph.cited.tolist(), strict=True):
        peer.add_edge(citing, cited)
    counting = cpu()
    cd = [peer.cdindex(row, WINDOW) for row in sample.tolist()]
    return counting - start, cpu() - counting, np.array(cd, np.float64)


def against_the_peer() -> None:
    graph = citation_graph(PAPERS, REFERENCES)
    paths = two_paths(graph)
    sample = np.sort(np.random.default_rng(0).choice(PAPERS, SAMPLE, replace=False))
    ours(graph)
    rounds = [ours(graph) for _ in range(ROUNDS)]
    peer_build, peer_sample, peer_cd = theirs(graph, sample)
    rounds += [ours(graph) for _ in range(ROUNDS)]
    build, count = np.median([(b, c) for b, c, _ in rounds], axis=0).tolist()
    same = (rounds[0][2][sample].view(np.uint64) == peer_cd.view(np.uint64)) | np.isnan(peer_cd)
    if not same.all() or (np.isnan(peer_cd) != np.isnan(rounds[0][2][sample])).any():
        raise SystemExit("the values are not the peer's")
    edges = len(graph.citing)
    print(f"  {PAPERS:,} papers, {edges:,} edges, {paths / edges:.1f} two-paths per edge")
    print(f"  tinsmith: build {build:.2f} CPU-s, count {count:.2f} CPU-s", end="")
    print(f" ({count / paths * 1e9:.2f} ns per two-path, all else included)")
    peer_count = peer_sample / SAMPLE * PAPERS
    print(f"  cdindex: build {peer_build:.1f} CPU-s, count {peer_count:.0f} CPU-s", end="")
    print(f" (from {SAMPLE:,} papers, equal bit for bit)")
    whole = (peer_build + peer_count) / (build + count)
    ratio = peer_count / count
    print(f"CD compute, speed-up {ratio:.0f}x", goal(ratio >= SPEED_UP, f">= {SPEED_UP}x"))
    print(f"  with building: {whole:.0f}x")


def generate(folder: Path) -> None:
    graph = citation_graph(MANY, REFERENCES)
    edges = pl.DataFrame({"citing": graph.citing, "cited": graph.cited})
    edges.write_parquet(folder / "edges.parquet", compression="zstd")
    pl.DataFrame({"year": graph.years}).write_parquet(folder / "papers.parquet")


def stage(folder: Path) -> None:
    """Read a graph from files, compute, and print CPU-seconds (reading apart), peak GB, edges."""
    configure(threads=1)
    start = cpu()
    years = pl.read_parquet(folder / "papers.parquet")["year"].to_numpy()
    edges = pl.read_parquet(folder / "edges.parquet")
    citing, cited = edges["citing"].to_numpy(), edges["cited"].to_numpy()
    read = cpu()
    frame = cd_frame(count_cd(citing, cited, years, WINDOW))
    done = cpu()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(read - start, done - read, peak, len(citing), frame["cd"].null_count())


def alone() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        for step in ("generate", "stage"):
            run = [sys.executable, __file__, step, temporary]
            out = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    read, count, peak, edges, undefined = (float(x) for x in out.split())
    print(f"  {MANY:,} papers, {edges:,.0f} edges, {undefined:,.0f} undefined", end="")
    print(f"; reading {read:.1f} CPU-s")
    reached = count <= CPU_S
    print(f"CD of 2 million papers: {count:.1f} CPU-s", goal(reached, f"<= {CPU_S} CPU-s"))
    reached = peak <= RSS_GB
    print(f"CD of 2 million papers: {peak:.2f} GB peak", goal(reached, f"<= {RSS_GB} GB"))


def main() -> None:
    configure(threads=1)
    against_the_peer()
    alone()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"generate": generate, "stage": stage}[sys.argv[1]](Path(sys.argv[2]))
    else:
        main()
