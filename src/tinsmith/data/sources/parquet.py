"""Reader of parquet tables batch by batch, which reports any failure of its library as damage."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from tinsmith.data.sources.lines import DamagedFile


def parquet_columns(path: Path, name: str) -> list[str]:
    """Return the names of a table's columns; errors name it `name`.

    Raises:
        DamagedFile: it cannot be read.
    """
    with _readable(name, [0]):
        return _scan(path).collect_schema().names()


def parquet_frames(path: Path, name: str, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
    """Yield `columns` of a table in order, in batches of about this many rows.

    Raises:
        DamagedFile: it cannot be read to its end.
    """
    read = [0]
    with _readable(name, read):
        expected = _scan(path).select(pl.len()).collect().item()
        for batch in _scan(path).select(columns).collect_batches(chunk_size=rows, maintain_order=True):
            yield batch
            read[0] += batch.height
    if read[0] != expected:
        raise DamagedFile(name, f"it says that it has {expected:,} rows", read[0] + 1, "")


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


@contextmanager
def _readable(name: str, read: list[int]) -> Generator[None, None, None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = (str(error).strip().splitlines() or ["it cannot be read"])[0][:200]
        raise DamagedFile(name, why, read[0] + 1, "") from None
