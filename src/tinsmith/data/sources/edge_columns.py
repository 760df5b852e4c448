"""Citing and cited columns of a table of edges, by their many names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.data.sources.names import plain, suggested
from tinsmith.types.errors import DataError

_CITING = (
    "citing", "citingid", "citingpaperid", "citingpaper", "citingwork", "citingworkid", "citer", "citerid",
    "referencing",
)  # fmt: skip
_CITED = (
    "cited", "citedid", "citedpaperid", "citedpaper", "citedwork", "citedworkid", "citee", "reference", "references",
    "referenceid", "referenced", "referencedid", "referencedpaperid", "referencedworkid", "referencedwork",
    "referencepaperid", "paperreferenceid", "refid", "ref",
)  # fmt: skip
_FROM = ("source", "sourceid", "src", "from", "fromid", "fromnode", "fromnodeid")
_TO = ("target", "targetid", "dst", "dest", "destination", "to", "toid", "tonode", "tonodeid")
_PAPER = ("paperid", "paper", "id", "workid", "work", "openalexid")
"""Names of an end without further qualification."""


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """Positions of both ends among the columns."""

    citing: int
    cited: int
    by_name: bool
    """True if the names tell the citing end; otherwise the first column cites, or the names are `from` and `to`."""


def edge_columns(table: str, columns: Sequence[str]) -> EdgeColumns | None:
    """Return the columns of the ends; None if no name of an end is among them.

    Raises:
        DataError: one end is named without another, or an end is named twice.
    """
    names = [plain(column) for column in columns]
    citing = [place for place, name in enumerate(names) if name in _CITING]
    cited = [place for place, name in enumerate(names) if name in _CITED]
    papers = [place for place, name in enumerate(names) if name in _PAPER]
    if citing or cited:
        citing, cited = citing or papers, cited or papers
        by_name = True
    else:
        citing = [place for place, name in enumerate(names) if name in _FROM]
        cited = [place for place, name in enumerate(names) if name in _TO]
        by_name = False
        if not citing and not cited:
            return None
    if len(citing) == 1 and len(cited) == 1:
        return EdgeColumns(citing[0], cited[0], by_name)
    missing = _CITED if len(citing) == 1 else _CITING
    raise DataError(
        f"{table}: its columns do not say which end of an edge cites and which is cited",
        field="columns",
        value=" ".join(columns)[:100],
        allowed="one column for each, such as citing and cited, or source and target",
        fix=suggested(names, missing),
    )
