"""Writes the card of a corpus or a slice: one HTML page that stands alone, the same bytes every time."""

from __future__ import annotations

from pathlib import Path

from tinsmith.data.corpus import Corpus
from tinsmith.data.schema import CARD
from tinsmith.data.slices.card import PAGE, SLICE
from tinsmith.data.slices.reader import Slice
from tinsmith.pages.cards.corpus import corpus_page
from tinsmith.pages.cards.slice import slice_page
from tinsmith.pages.page import document_html, write
from tinsmith.types.errors import DataError


def write_page(folder: Path) -> Path:
    """Write `card.html` into a corpus or slice folder and return its path."""
    if (folder / SLICE).exists():
        page = slice_page(Slice.open(folder))
    elif (folder / CARD).exists():
        page = corpus_page(Corpus.open(folder))
    else:
        raise DataError(
            f"{folder} is neither a corpus nor a slice",
            allowed=f"a folder that holds {CARD} or {SLICE}",
            fix="make one with: tinsmith data build ..., or tinsmith data slice ...",
        )
    write(document_html(page), folder / PAGE)
    return folder / PAGE
