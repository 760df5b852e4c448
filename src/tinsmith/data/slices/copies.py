"""Papers of a corpus with the title and abstract of an earlier one, such as a preprint and its journal version.

Texts are equal if their letters and digits are, without case; papers without a title or an abstract are no copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tinsmith.data.corpus import Corpus


def find_copies(corpus: Corpus) -> Mapping[str, str]:
    """Return the id of each later paper with the same text -> the id of the first, in the corpus's order."""
    # Abstracts are read only where a title repeats; the hash narrows the search, and the texts decide.
    titles = (
        corpus.scan_papers()
        .select("id", title=letters("title"))
        .with_row_index("row")
        .filter(pl.col("title") != "")
        .select("row", "id", pl.col("title").hash())
        .collect(engine="streaming")
    )
    repeated = titles.filter(pl.col("title").is_duplicated()).select("row", "id")
    if repeated.is_empty():
        return {}
    texts = (
        corpus.scan_papers()
        .filter(pl.col("id").is_in(repeated["id"].implode()))
        .select("id", title=letters("title"), abstract=letters("abstract"))
        .filter(pl.col("abstract") != "")
        .collect(engine="streaming")
    )
    first = pl.col("id").first().over("title", "abstract")
    ordered = repeated.join(texts, on="id").sort("row").select("id", first=first)
    return dict(ordered.filter(pl.col("id") != pl.col("first")).iter_rows())


def letters(column: str) -> pl.Expr:
    """Return the letters and digits of a text, in lower case, with single spaces for everything else."""
    text = pl.col(column).str.normalize("NFKC").str.to_lowercase()
    return text.str.replace_all(r"[^\p{L}\p{N}]+", " ").str.strip_chars()
