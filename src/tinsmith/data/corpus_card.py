"""Content of `card.json`: a corpus's source, its content, and the records dropped, by reason."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tinsmith.data.schema import CARD
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE

FORMAT = 1
"""Version of the corpus folder's format."""

DROPPED = (
    "self_loops",
    "duplicate_edges",
    "dangling_edges",  # an end is not in the corpus
    "forward_edges",  # only where dropping them was asked for
    "superseded_edges",  # references of a stale copy of a paper
    "retracted",
    "paratext",
    "xpac",  # OpenAlex's lower-quality expansion pack
    "no_year",
    "no_id",
    "duplicate_papers",
    "dates_outside_year",  # the paper is kept, its date is not
    "bad_dates",  # the paper is kept, its date is not
    "bad_abstracts",  # the paper is kept, its abstract is not
    "bad_references",  # entries of reference lists that are no ids
    "bad_values",  # the paper is kept, a count, a score or a text is not
    "bad_files",  # the rest of a damaged file
)
"""Counters that every card has, at 0 where nothing was dropped."""

MISSING = ("title", "abstract", "date", "venue", "field")
"""Columns whose nulls a card counts."""


class SourceKind(enum.StrEnum):
    """Source of a corpus."""

    OPENALEX = "openalex"
    SCISCINET = "sciscinet"
    FILES = "files"
    SYNTHETIC = "synthetic"


class SourceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The source and the choices that decide what it gives; no paths, no times."""

    kind: SourceKind
    settings: dict[str, str | int | bool] = {}


class CorpusCard(msgspec.Struct, frozen=True, kw_only=True):
    """Every count of a build; the same input gives the same card, in any order."""

    papers: int
    edges: int
    forward_edges: int
    """Edges in the corpus whose cited paper is strictly later: by date where both have one, else by year."""
    quarantined: int
    """Entries of quarantine.jsonl."""
    dropped: dict[str, int]
    years: dict[int, int]
    """Papers per year."""
    last_year: int
    """Up to it the corpus reaches, and windows are closed (`data/last_year.py`)."""
    later_papers: int
    """Papers dated after it."""
    missing: dict[str, int]
    """Papers without a title, abstract, ..."""
    source: SourceDescription
    thresholds: float | None
    """The |CD| cut that a synthetic preset is tuned for; None for real data."""
    fingerprint: str
    """SHA-256 (hex) over the content of papers and edges; how the files are encoded does not enter it."""
    format: int = FORMAT


def write_card(card: CorpusCard, path: Path) -> None:
    """Write `card` as JSON; not atomic, the caller stages it."""
    plain = msgspec.to_builtins(card, str_keys=True)
    path.write_text(json.dumps(plain, sort_keys=True, indent=2) + "\n", encoding="utf-8")


def read_card(folder: Path) -> CorpusCard:
    """Read the card of a corpus folder.

    Raises:
        DataError: there is none, or it is not a corpus card of this format.
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


def summary(card: CorpusCard) -> Mapping[str, str]:
    """Return what a person wants to see after a build: name -> text, in the order to show it; zeros left out."""
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
        f"dropped: {name.replace('_', ' ')}": f"{count:,}" for name, count in sorted(card.dropped.items()) if count
    }
    rows |= {f"without {name}": f"{count:,}" for name, count in sorted(card.missing.items()) if count}
    return rows | {"fingerprint": card.fingerprint}
