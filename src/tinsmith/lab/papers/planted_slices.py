"""Papers that were made up as a slice on disk, so that every verb takes them as if they had been cut from a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.labels import SEED_CUT, Disruption, Thresholds
from tinsmith.data.slices.card import (
    SIDECAR,
    SLICE,
    CorpusReference,
    SliceCard,
    SplitCard,
    split_file,
    write_slice_card,
)
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow, encode_row
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.slices.splits import Split, ids_sha256
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.live.progress import Say
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.home import home

_LABELS = Subject.DISRUPTION.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Papers with labels of disruption, by split."""

    rows: Mapping[Split, Sequence[PaperRow]]
    causes: Mapping[Split, Sequence[str]]
    """What made each paper what it is."""
    rule: str
    """How the labels came about, in a line."""
    fingerprint: str
    """Of all that the papers were made from."""


def planted(key: str, make: Callable[[], Planted], say: Say) -> Slice:
    """Return the slice of made-up papers, with its baselines; made where none is cached under `key`."""
    place = home() / "worlds" / key[:16]
    with one_writer(place):
        if not present(place).is_dir():
            say("building a planted world")
            with staged(place) as folder:
                _write(make(), folder)
                run_baselines(Slice.open(folder))
    return Slice.open(present(place))


def _write(made: Planted, folder: Path) -> None:
    cards: dict[Split, SplitCard] = {}
    frames: list[pl.DataFrame] = []
    for split in Split:
        rows = made.rows[split]
        file = folder / split_file(split)
        file.write_bytes(b"".join(encode_row(row) for row in rows))
        cards[split] = _split_card(rows, file)
        frames.append(_sidecar(rows, made.causes[split], split))
    pl.concat(frames).write_parquet(folder / SIDECAR)
    write_slice_card(_card(made, cards), folder / SLICE)


def _split_card(rows: Sequence[PaperRow], file: Path) -> SplitCard:
    counted = Counter(row.disruption_label for row in rows)
    return SplitCard(
        rows=len(rows),
        disruption={label: counted[Disruption(label)] for label in _LABELS},
        novelty={},
        ids_sha256=ids_sha256([row.openalex_id for row in rows]),
        rows_sha256=file_sha256(file),
    )


def _sidecar(rows: Sequence[PaperRow], causes: Sequence[str], split: Split) -> pl.DataFrame:
    labels = [None if row.disruption_label is None else row.disruption_label.value for row in rows]
    return pl.DataFrame(
        {
            "id": [row.openalex_id for row in rows],
            "split": [split.value] * len(rows),
            "cause": list(causes),
            "disruption_label": labels,
            "novelty_label": pl.Series([None] * len(rows), dtype=pl.String),
        }
    )


def _card(made: Planted, cards: Mapping[Split, SplitCard]) -> SliceCard:
    pool = {label: sum(card.disruption[label] for card in cards.values()) for label in _LABELS}
    return SliceCard(
        settings=SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=SEED_CUT), per_class=None),
        disruption_rule=made.rule,
        novelty_rule="there are no labels of novelty",
        citations_from="source",
        corpus=CorpusReference(
            fingerprint=made.fingerprint,
            source="planted",
            papers=sum(card.rows for card in cards.values()),
            edges=0,
            metrics={},
            metrics_fingerprint="",
        ),
        removed={},
        pool=pool,
        oversampled={},
        splits=dict(cards),
        legacy_sha256=None,
    ).sealed()
