"""Content of `card.json`: a corpus's source, its content, and the dropped records by reason."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.data.schema import CARD
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE

FORMAT = 1
"""Version of the corpus folder's format."""

DROPPED: Final[Mapping[str, str]] = {
    "self_loops": "a paper that cites itself",
    "duplicate_edges": "the same citation once more",
    "dangling_edges": "a citation of or by a paper outside the corpus",
    "forward_edges": "a citation of a later paper, by --drop-forward",
    "superseded_edges": "references of further copies of a paper, of which the newest stays",
    "retracted": "retracted papers",
    "paratext": "covers, indexes and the like",
    "xpac": "OpenAlex's expansion pack of lower quality",
    "no_year": "papers without a year",
    "no_id": "papers without an id",
    "duplicate_papers": "further copies of a paper, of which the newest stays",
    "dates_outside_year": "dates that contradict the year; the papers stay",
    "bad_dates": "dates that cannot be read; the papers stay",
    "bad_abstracts": "abstracts that cannot be read; the papers stay",
    "bad_references": "entries of reference lists that are no ids",
    "bad_values": "counts, scores or texts that cannot be read; the papers stay",
    "bad_files": "the rest of a damaged file",
}
"""Counters on every card, 0 by default, with their meanings."""

MISSING = ("title", "abstract", "date", "venue", "field")
"""Columns whose nulls a card counts."""


class SourceKind(enum.StrEnum):
    """Source of a corpus."""

    OPENALEX = "openalex"
    SCISCINET = "sciscinet"
    FILES = "files"
    SYNTHETIC = "synthetic"


class SourceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Source and the choices that determine its content; no paths, no times."""

    kind: SourceKind
    settings: dict[str, str | int | bool] = {}


class CorpusCard(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a build; the same input gives the same card, in any order."""

    papers: int
    edges: int
    forward_edges: int
    """Edges to a strictly later paper in the corpus: by date if both have one, else by year."""
    quarantined: int
    """Number of entries in quarantine.jsonl."""
    dropped: dict[str, int]
    years: dict[int, int]
    """Papers per year."""
    last_year: int
    """Last year that the corpus covers; windows are closed up to it (`data/last_year.py`)."""
    later_papers: int
    """Number of papers dated after it."""
    missing: dict[str, int]
    """Number of papers without a title, abstract, ..."""
    source: SourceDescription
    thresholds: float | None
    """Cut on |CD| for which a synthetic preset is tuned; None for real data."""
    fingerprint: str
    """SHA-256 (hex) over the content of papers and edges, independent of the files' encoding."""
    format: int = FORMAT


def write_card(card: CorpusCard, path: Path) -> None:
    """Write `card` as JSON; not atomic, the caller stages it."""
    plain = msgspec.to_builtins(card, str_keys=True)
    path.write_text(json.dumps(plain, sort_keys=True, indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> CorpusCard:
    """Read the card of a corpus folder.

    Raises:
        DataError: it is missing, or not a corpus card of this format.
    """
    try:
        content = (folder / CARD).read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"{folder} is not a corpus: it has no {CARD}", fix=f"tinsmith data build --source ... --out {folder}"
        ) from None
    try:
        card = msgspec.json.decode(content, type=CorpusCard)
    except UNREADABLE as error:
        raise DataError(f"{folder / CARD} is damaged: {error}", fix="build it again") from None
    if card.format != FORMAT:
        raise DataError(
            "the corpus was written in another format",
            field="format",
            value=card.format,
            allowed=str(FORMAT),
            fix="build it again",
        )
    return card


VALUE_WIDTH: Final = 14  # Columns of a figure in a summary, followed by its explanation.


def summary(card: CorpusCard) -> Mapping[str, str]:
    """Return a summary of the build: name -> text in display order, without zeros."""
    years = sorted(card.years)
    rows = {
        "papers": f"{card.papers:,}",
        "edges": f"{card.edges:,}",
        "years": f"{years[0]} to {years[-1]}" if years else "none",
        "forward edges": f"{card.forward_edges:,}",
        **({f"papers after {card.last_year}, its end": f"{card.later_papers:,}"} if card.later_papers else {}),
        "quarantined lines": f"{card.quarantined:,}",
    }
    rows |= {
        f"dropped: {name.replace('_', ' ')}": f"{count:>{VALUE_WIDTH},}  {DROPPED.get(name, '')}".rstrip()
        for name, count in sorted(card.dropped.items())
        if count
    }
    rows |= {f"without {name}": f"{count:,}" for name, count in sorted(card.missing.items()) if count}
    return rows | {"fingerprint": card.fingerprint}
