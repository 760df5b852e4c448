"""Conversion of an OpenAlex work to a paper, and the rules of exclusion."""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Callable, Collection, Sequence

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.paper import Paper
from tinsmith.data.sources.kinds import FIRST_YEAR, Malformed, as_date, written
from tinsmith.data.sources.openalex.schema import URL, Node, Work
from tinsmith.types.errors import DataError

CONCEPTS = 8
"""Most names of a work's topics, keywords and concepts, in this order."""
Complain = Callable[[str, str], None]
"""Callback for an unreadable value: its counter on the card, and the reason."""


_WORKS = f"{URL}W"
_NUMBER = len(URL)
_REFERENCE = re.compile(
    r"(?:https?://\S*/(?=W)|(?:https?://)?(?:www\.|api\.)?openalex\.org/(?:works/)?)?(W?\d+|(?<=org/)W[^/]+)/?", re.I
)
"""Number of a work, after W or an address: OpenAlex's own forms."""


class Keep(enum.StrEnum):
    """Kinds of works that are excluded by default."""

    RETRACTED = "retracted"
    PARATEXT = "paratext"
    XPAC = "xpac"


def node_paper(node: Node, keep: Collection[Keep], partition: str | None, complain: Complain) -> Paper:
    """Return the paper of a work without its texts; `partition` is the default for its time of change.

    Raises:
        Malformed: the id is another entity's.
    """
    excluded = exclusion(node, keep)
    date = date_of(node, complain)
    return Paper(
        id=short_id(node.id),
        year=year_of(node, date),
        date=date,
        venue=venue(node),
        references=() if excluded else short_references(node.referenced_works, complain),
        updated=node.updated_date or partition,
        excluded=excluded,
    )


def work_paper(work: Work, keep: Collection[Keep], partition: str | None, complain: Complain) -> Paper:
    """Return the paper of a work, without its unreadable values.

    Raises:
        Malformed: the id is another entity's.
    """
    if exclusion(work, keep):
        return node_paper(work, keep, partition, complain)
    abstract = None
    if work.abstract_inverted_index:
        try:
            abstract = from_inverted_index(work.abstract_inverted_index)
        except DataError as error:
            complain("bad_abstracts", f"{error.what}: {error.value!r:.50}")
    date = date_of(work, complain)
    return Paper(
        id=short_id(work.id),
        year=year_of(work, date),
        title=work.display_name or work.title or None,
        abstract=abstract,
        date=date,
        venue=venue(work),
        field=_field(work),
        concepts=_concepts(work),
        type=work.type or None,
        language=work.language or None,
        cited_by_count=work.cited_by_count,
        references=short_references(work.referenced_works, complain),
        updated=work.updated_date or partition,
    )


def exclusion(node: Node, keep: Collection[Keep]) -> Keep | None:
    """Return the reason to exclude a work, or None."""
    if node.is_retracted and Keep.RETRACTED not in keep:
        return Keep.RETRACTED
    if node.is_paratext and Keep.PARATEXT not in keep:
        return Keep.PARATEXT
    if node.is_xpac and Keep.XPAC not in keep:
        return Keep.XPAC
    return None


def short_id(url: str | None) -> str:
    """Return the W... of a work's id, also from its number alone; empty without an id.

    Raises:
        Malformed: the id is another entity's.
    """
    short = url.rpartition("/")[2] if url else ""
    if short and short[0] != "W":
        short = _work_number(short)
        if short[:1] != "W":
            raise Malformed(f"not a work: {short[:50]}")
    return short


def short_references(urls: Sequence[str] | None, complain: Complain) -> Sequence[str]:
    """Return the W... of referenced works; other values are reported."""
    if not urls:
        return ()
    short = [url[_NUMBER:] for url in urls if url.startswith(_WORKS)]  # the usual case of OpenAlex's own files
    if len(short) == len(urls) and "/" not in "".join(short):
        return short
    found: list[str] = []
    for url in urls:
        named = _REFERENCE.fullmatch(url.strip())
        if named is None:
            complain("bad_references", f"no work: {url[:50]}")
        else:
            found.append(_work_number(named[1]))
    return found


def _work_number(text: str) -> str:
    text = text.strip().upper()
    return f"W{text}" if text.isdecimal() else text


def year_of(node: Node, date: dt.date | None) -> int | None:
    """Return the year of publication, from its date if necessary; None outside 1000 to 9999."""
    year = node.publication_year
    if year is None:
        return None if date is None else date.year
    return year if FIRST_YEAR <= year < 10_000 else None


def date_of(node: Node, complain: Complain) -> dt.date | None:
    """Return the day of publication; None if unknown, or for a year only."""
    text = node.publication_date
    if text is None:
        return None
    if len(text) == 10 and text[5] != "W" and text[0] != "0":
        try:
            return dt.date.fromisoformat(text)
        except ValueError:
            pass
    try:
        found = as_date(text, node.publication_year)
    except Malformed as error:
        complain("bad_dates", str(error))
        return None
    return None if found is None else found[0]


def venue(node: Node) -> str | None:
    """Return the name of the source of a work's first location."""
    location, source = node.primary_location, node.host_venue
    if location is not None and location.source is not None:
        source = location.source
    return None if source is None else written(source.display_name)


def _field(work: Work) -> str | None:
    """Return the field of the first topic; in older records, the level-0 concept of the highest score."""
    topic = work.primary_topic
    if topic is not None and topic.field is not None and topic.field.display_name:
        return topic.field.display_name
    roots = [c for c in work.concepts or () if c.level == 0 and c.display_name]
    best = min(roots, key=lambda c: (-(c.score or 0.0), c.display_name), default=None)
    return None if best is None else best.display_name


def _concepts(work: Work) -> list[str]:
    names: dict[str | None, None] = {}
    for topic in work.topics or ():
        names[topic.display_name] = None
    for keyword in work.keywords or ():
        names[keyword.display_name or keyword.keyword] = None
    for concept in work.concepts or ():
        names[concept.display_name] = None
    return [name for name in names if name][:CONCEPTS]
