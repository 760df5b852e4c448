"""A row of a slice: the twelve fields of the source notes, and how it is written."""

from __future__ import annotations

import msgspec

from tinsmith.data.labels import Disruption, Novelty


class PaperRow(msgspec.Struct, frozen=True, kw_only=True):
    """One paper as a model meets it, with the labels it is scored against; one line of a split's file."""

    openalex_id: str
    """The paper's id in its source, OpenAlex or not."""
    title: str
    abstract: str
    publication_year: int | None
    """None where the slice leaves it out."""
    cited_by_count: int | None
    """None where the slice leaves it out, or the source does not know it."""
    cd_index: float | None
    novelty_score: float | None
    conventionality_score: float | None
    disruption_label: Disruption | None
    novelty_label: Novelty | None
    primary_field: str | None
    concepts: tuple[str, ...]


def planted_row(
    name: str, title: str, abstract: str, label: str, *, year: int | None = None, citations: int | None = None
) -> PaperRow:
    """Return the row of a made-up paper that only has a disruption label."""
    return PaperRow(
        openalex_id=name,
        title=title,
        abstract=abstract,
        publication_year=year,
        cited_by_count=citations,
        cd_index=None,
        novelty_score=None,
        conventionality_score=None,
        disruption_label=Disruption(label),
        novelty_label=None,
        primary_field=None,
        concepts=(),
    )


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(PaperRow)


def encode_row(row: PaperRow) -> bytes:
    """Return one line with its line feed: compact JSON, UTF-8, shortest exact floats."""
    return _ENCODER.encode(row) + b"\n"


def decode_row(line: bytes) -> PaperRow:
    """Read one line.

    Raises:
        msgspec.DecodeError: it is no such row.
    """
    return _DECODER.decode(line)
