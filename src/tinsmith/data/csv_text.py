"""Tables as CSV whose texts no spreadsheet takes for formulas."""

from __future__ import annotations

from pathlib import Path

import polars as pl

_FORMULA = r"^([=+\-@\t\r])"
"""Beginning of a text that spreadsheets run as a formula."""


def write_csv(table: pl.DataFrame, path: Path) -> None:
    """Write a table; a text that begins as a formula does gets an apostrophe before it; numbers stay as they are."""
    table.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'${1}")).write_csv(path)
