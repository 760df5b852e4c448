"""Writing of a slice's folder: splits, metrics and card together, and never over another slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.quarantine import QUARANTINE
from tinsmith.data.replacing import replacing
from tinsmith.data.schema import CARD, PAPERS
from tinsmith.data.slices.card import (
    BASELINES,
    PAGE,
    SIDECAR,
    SLICE,
    SliceCard,
    SplitCard,
    read_slice_card,
    split_file,
    write_slice_card,
)
from tinsmith.data.slices.settings import SliceSettings
from tinsmith.data.slices.splits import Split, ids_sha256
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256

_NO_LABEL = "undefined"


def check_own_folder(out: Path, source: Path) -> None:
    """Check that a slice's folder is neither a corpus nor that of the file `source`.

    Raises:
        ConfigError: it is one of them.
    """
    beside = source.is_file() and source.resolve().parent == out.resolve()
    if beside or (out / PAPERS).exists() or (out / CARD).exists():
        raise ConfigError("a slice needs a folder of its own", field="out", value=str(out), fix="name another")


def previous_card(out: Path) -> SliceCard | None:
    """Return the card of the slice in `out`; None without one, or if it is damaged: cutting repairs it."""
    try:
        return read_slice_card(out)
    except DataError:
        return None


def check_same(made_from: tuple[str, str], settings: SliceSettings, there: SliceCard, out: Path) -> None:
    """Check that the slice in `out` has these fingerprints of a corpus and of its metrics, and these settings.

    Raises:
        ConfigError: it is another one.
    """
    differs = (there.corpus.fingerprint, there.corpus.metrics_fingerprint) != made_from
    if differs or there.settings != settings:
        raise _occupied("of another corpus" if differs else "with other settings", out)


def freeze(
    out: Path,
    table: pl.DataFrame,
    write_split: Callable[[pl.DataFrame, Path], None],
    card_of: Callable[[dict[Split, SplitCard]], SliceCard],
    *,
    force: bool,
) -> SliceCard:
    """Write the splits, metrics and card of a slice; a failure leaves the old slice whole.

    `table` has a line for each row: its id, split, labels and metrics; `write_split` writes the rows of one split.

    Raises:
        ConfigError: `out` holds another slice, and `force` is not set.
    """
    there = previous_card(out)
    out.mkdir(parents=True, exist_ok=True)
    splits: dict[Split, SplitCard] = {}
    with ExitStack() as stack:
        described = stack.enter_context(replacing(out / SLICE))  # renamed last
        for split in Split:
            rows = table.filter(pl.col("split") == split.value)
            part = stack.enter_context(replacing(out / split_file(split)))
            write_split(rows, part)
            splits[split] = _split_card(rows, part)
        columns = [name for name in table.columns if name != "cited_by_count"]
        table.select(columns).write_parquet(stack.enter_context(replacing(out / SIDECAR)))
        card = card_of(splits)
        write_slice_card(card, described)
        if there is None or card.sha256 != there.sha256:
            if there is not None and not force:
                checks = card.file != there.file
                raise _occupied("with other checks" if checks else "that another version of tinsmith cut", out)
            for name in (SLICE, BASELINES, BASELINE_ANSWERS, PAGE, QUARANTINE):  # they describe the previous slice
                (out / name).unlink(missing_ok=True)
    return card


def _occupied(what: str, out: Path) -> ConfigError:
    return ConfigError(
        f"this folder already holds a slice {what}, and runs may refer to it",
        field="out",
        value=str(out),
        fix="name another folder, or replace the slice in it with --force",
    )


def _split_card(rows: pl.DataFrame, file: Path) -> SplitCard:
    return SplitCard(
        rows=rows.height,
        disruption=_counts(rows["disruption_label"], Disruption),
        novelty=_counts(rows["novelty_label"], Novelty),
        ids_sha256=ids_sha256(rows["id"].to_list()),
        rows_sha256=file_sha256(file),
    )


def _counts(labels: pl.Series, names: Iterable[Disruption] | Iterable[Novelty]) -> dict[str, int]:
    counts = {str(name): int((labels == name.value).sum()) for name in names}
    missing = labels.null_count()
    return counts | ({_NO_LABEL: missing} if missing else {})
