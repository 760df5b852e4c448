"""Reader of a corpus's metrics card, which rejects metrics of another corpus."""

from __future__ import annotations

import msgspec

from tinsmith.data.corpus import Corpus
from tinsmith.data.metrics_card import FORMAT, MetricsCard
from tinsmith.data.schema import METRICS_CARD
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE


def read_metrics_card(corpus: Corpus) -> MetricsCard:
    """Return the card of the metrics of `corpus`.

    Raises:
        DataError: it is missing, damaged, of another format, or belongs to another corpus.
    """
    again = f"run: tinsmith data metrics {corpus.folder}"
    file = corpus.folder / METRICS_CARD
    if not file.exists():
        raise DataError("the corpus has no metrics yet", fix=again)
    try:
        card = msgspec.json.decode(file.read_bytes(), type=MetricsCard)
    except UNREADABLE as error:
        raise DataError(f"{file} is damaged: {error}", fix=again) from None
    if card.format != FORMAT:
        raise DataError(
            "the metrics were written in another format",
            field="format",
            value=card.format,
            allowed=str(FORMAT),
            fix=again,
        )
    if card.corpus != corpus.card.fingerprint:
        raise DataError(
            "the metrics belong to another corpus",
            field="corpus",
            value=card.corpus,
            allowed=corpus.card.fingerprint,
            fix=again,
        )
    return card
