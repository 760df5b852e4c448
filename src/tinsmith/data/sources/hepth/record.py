r"""A paper's record in arXiv's .abs format, as fields: header lines, then the abstract, each closed by two backslashes.

::

    ------------------------------------------------------------------------------
    \\
    Paper: hep-th/9201001
    From: ...
    Date: Tue, 31 Dec 91 23:54:17 MET +0100   (46kb)

    Title: Combinatorics of the Modular Group II: the Kontsevich integrals
    Authors: C. Itzykson and J.-B. Zuber
    Journal-ref: Int.J.Mod.Phys. A7 (1992) 5661-5705
    \\
      We study ...
    \\
"""

from __future__ import annotations

import datetime as dt
import re
from email.utils import parsedate_tz
from enum import StrEnum
from typing import Final

import msgspec

_FIELDS: Final = (
    *("Paper", "From", "Date", "Title", "Author", "Authors", "Comment", "Comments", "Note"),
    *("Report-no", "Journal-ref", "Subj-class", "DOI", "Proxy", "ACM-class", "MSC-class"),
)
_FIELD: Final = re.compile(rf"({'|'.join(_FIELDS)})(?: \([^)]*\))?\s*:(.*)", re.IGNORECASE)
_OFFSET: Final = re.compile(r"([+-])(\d\d)(\d\d)$")
_SIZE: Final = re.compile(r"\s*\(\d+\s*kb\)\s*$", re.IGNORECASE)
_MAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_MAIL_SHOWN: Final = "[email]"
_EARLIEST, _LATEST = dt.timedelta(days=-31), dt.timedelta(days=62)
"""Range of a paper's first date around the first day of its id's month; outside, the header counts as broken."""


class DateSource(StrEnum):
    """Source of a paper's date."""

    HEADER = "header_utc"
    MONTH = "id_month"
    """First day of the id's month, since the header is broken."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Line of papers.jsonl."""

    id: str
    title: str | None
    abstract: str | None
    date: str
    journal_ref: str | None
    authors: str | None
    comments: str | None
    report_no: str | None
    subj_class: str | None
    n_versions: int
    in_graph: bool
    date_source: str


class Unreadable(Exception):
    """Error of a record that cannot be parsed."""


def parse_record(paper: str, text: str, *, in_graph: bool) -> Record:
    """Read the record of the paper with this id.

    Raises:
        Unreadable: it has no header or no abstract.
    """
    blocks = re.split(r"^\s*\\\\\s*$", text, flags=re.MULTILINE)
    if len(blocks) < 3:
        raise Unreadable("header or abstract is missing")
    dates, fields = _header(blocks[1])
    day = _day(dates[0], month_of(paper)) if dates else None
    return Record(
        id=paper,
        title=fields.get("title") or None,
        abstract=_shown(blocks[2]) or None,
        date=(day or month_of(paper)).isoformat(),
        journal_ref=fields.get("journal-ref") or None,
        authors=fields.get("authors", fields.get("author")) or None,
        comments=fields.get("comments", fields.get("comment")) or None,
        report_no=fields.get("report-no") or None,
        subj_class=fields.get("subj-class") or None,
        n_versions=max(len(dates), 1),
        in_graph=in_graph,
        date_source=str(DateSource.HEADER if day else DateSource.MONTH),
    )


def month_of(paper: str) -> dt.date:
    """Return the first day of the month in an id, which has a year of two digits: 92 to 99, then 00 to 03."""
    year, month = int(paper[:2]), int(paper[2:4])
    return dt.date(year + (1900 if year > 50 else 2000), month, 1)


def _header(block: str) -> tuple[list[str], dict[str, str]]:
    """Return all dates, first one first, and each other field's first value with its continuation lines."""
    lines = list[tuple[str, list[str]]]()
    for line in block.splitlines():
        match = _FIELD.match(line)
        if match is not None:
            lines.append((match[1].lower(), [match[2]]))
        elif lines and line.strip():
            lines[-1][1].append(line)
    fields = dict[str, str]()
    for name, parts in lines:
        fields.setdefault(name, _shown(" ".join(parts)))
    return [" ".join(parts) for name, parts in lines if name == "date"], fields


def _shown(text: str) -> str:
    """Join the lines with single spaces, without e-mail addresses."""
    return _MAIL.sub(_MAIL_SHOWN, " ".join(text.split()))


def _day(header: str, month: dt.date) -> dt.date | None:
    """Return the day in UTC; time zones without an e-mail standard count as UTC."""
    text = _SIZE.sub("", header).strip()
    parsed = parsedate_tz(text)
    if parsed is None:
        return None
    try:
        local = dt.datetime(*parsed[:6])
    except ValueError:
        return None
    offset = _OFFSET.search(text)
    seconds = parsed[9] or 0
    if offset is not None:  # "MET +0100": the number counts, and parsedate_tz reads the name
        seconds = int(f"{offset[1]}1") * (int(offset[2]) * 3600 + int(offset[3]) * 60)
    day = (local - dt.timedelta(seconds=seconds)).date()
    return day if _EARLIEST <= day - month <= _LATEST else None
