"""Row of a slice: the twelve fields of the source notes, and its encoding."""

from __future__ import annotations

import msgspec

from tinsmith.data.labels import Disruption, Novelty


class PaperRow(msgspec.Struct, frozen=True, kw_only=True):
    """Paper as given to a model, with its gold labels; one line of a split's file."""

    openalex_id: str
    """Id of the paper in its source, OpenAlex or not."""
    title: str
    abstract: str
    publication_year: int | None
    """Year; None if the slice excludes it."""
    cited_by_count: int | None
    """Citations; None if the slice excludes them, or the source does not report them."""
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
    """Return the row of an invented paper that only has a disruption label."""
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
    """Encode one line with its line feed: compact JSON, UTF-8, shortest exact floats."""
    return _ENCODER.encode(row) + b"\n"


def decode_row(line: bytes) -> PaperRow:
    """Decode one line.

    Raises:
        msgspec.DecodeError: it is not a valid row.
    """
    return _DECODER.decode(line)
