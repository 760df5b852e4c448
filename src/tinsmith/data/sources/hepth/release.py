"""Pinned files of SNAP for the corpus, and the hashes of their content.

SNAP publishes no checksums. Therefore the content is pinned: the edges and the papers' ids must match exactly. A
changed text in a record gives another corpus, but not a wrong one, so it is only reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Published state of a corpus."""

    name: str
    title: str
    site: str
    """Address of the files; ends in a slash."""
    edges: str
    abstracts: str
    edge_count: int
    paper_count: int
    edges_sha256: str
    """Digest of the lines `citing<TAB>cited`, sorted."""
    ids_sha256: str
    """Digest of the papers' ids in order of submission, one per line."""
    papers_sha256: str
    """Digest of the lines of papers.jsonl."""


HEPTH: Final = Release(
    name="hepth",
    title="cit-HepTh",
    site="https://snap.stanford.edu/data/",
    edges="cit-HepTh.txt.gz",
    abstracts="cit-HepTh-abstracts.tar.gz",
    edge_count=352_807,
    paper_count=29_555,
    edges_sha256="58eb3a117dcea5aaf001d3e00d2fbc043e0f5c7fccb83e45bb0279907f59b5cc",
    ids_sha256="353d26ec6494fe94193fd63312cd1a05ad06437457baeeeb797b4828c5ef777d",
    papers_sha256="cec8bb0acb975e2fd827d2eec84f1213985871e44224d138a409cb425da4fdf2",
)


def release_named(name: str) -> Release:
    """Return the corpus with this name.

    Raises:
        ConfigError: there is none.
    """
    if name != HEPTH.name:
        raise ConfigError(
            "there is no corpus to fetch under this name",
            field="NAME",
            value=name,
            allowed=f"{HEPTH.name} (arXiv's hep-th, 1992 to 2003)",
        )
    return HEPTH
