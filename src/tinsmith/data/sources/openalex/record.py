"""How an OpenAlex work becomes a paper, and which works are left out."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Collection, Sequence

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.paper import Paper
from tinsmith.data.sources.lines import Malformed
from tinsmith.data.sources.openalex.schema import Node, Work
from tinsmith.types.errors import DataError

CONCEPTS = 8
"""Names kept of a work's topics, keywords and concepts, in this order."""


class Keep(enum.StrEnum):
    """Kinds of works that are left out unless they are asked for."""

    RETRACTED = "retracted"
    PARATEXT = "paratext"
    XPAC = "xpac"


def node_paper(node: Node, keep: Collection[Keep], partition: str | None) -> Paper:
    """Return the paper of a work without its texts; `partition` dates a record that does not say when it changed.

    Raises:
        Malformed: the id is another entity's.
    """
    excluded = exclusion(node, keep)
    date = day(node.publication_date)
    return Paper(
        id=short_id(node.id),
        year=year_of(node),
        date=date,
        venue=venue(node),
        references=() if excluded else short_references(node.referenced_works),
        updated=node.updated_date or partition,
        excluded=excluded,
    )


def work_paper(work: Work, keep: Collection[Keep], partition: str | None, complain: Callable[[str], None]) -> Paper:
    """Return the paper of a work; `complain` hears of an abstract that cannot be read, and the paper has none then.

    Raises:
        Malformed: the id is another entity's.
    """
    if exclusion(work, keep):
        return node_paper(work, keep, partition)
    abstract = None
    if work.abstract_inverted_index:
        try:
            abstract = from_inverted_index(work.abstract_inverted_index)
        except DataError as error:
            complain(f"{error.what}: {error.value!r:.50}")
    return Paper(
        id=short_id(work.id),
        year=year_of(work),
        title=work.display_name or work.title or None,
        abstract=abstract,
        date=day(work.publication_date),
        venue=venue(work),
        field=_field(work),
        concepts=_concepts(work),
        type=work.type or None,
        language=work.language or None,
        cited_by_count=work.cited_by_count,
        references=short_references(work.referenced_works),
        updated=work.updated_date or partition,
    )


def exclusion(node: Node, keep: Collection[Keep]) -> Keep | None:
    """Return why a work is left out, or None."""
    if node.is_retracted and Keep.RETRACTED not in keep:
        return Keep.RETRACTED
    if node.is_paratext and Keep.PARATEXT not in keep:
        return Keep.PARATEXT
    if node.is_xpac and Keep.XPAC not in keep:
        return Keep.XPAC
    return None


def short_id(url: str | None) -> str:
    """Return the W... of a work's id; empty where there is none.

    Raises:
        Malformed: the id is another entity's.
    """
    short = url.rpartition("/")[2] if url else ""
    if short and short[0] != "W":
        raise Malformed(f"not a work: {short[:50]}")
    return short


def short_references(urls: Sequence[str] | None) -> Sequence[str]:
    """Return the W... of referenced works."""
    return [url.rpartition("/")[2] for url in urls] if urls else ()


def year_of(node: Node) -> int | None:
    """Return the publication's year, from its date where the year is not given; None outside 1 to 9999."""
    year = node.publication_year
    if year is None:
        date = day(node.publication_date)
        return None if date is None else date.year
    return year if 0 < year < 10_000 else None


def day(text: str | None) -> dt.date | None:
    """Return the day of YYYY-MM-DD; None for anything else."""
    if text is None or len(text) != 10 or text[5] == "W":
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def venue(node: Node) -> str | None:
    """Return the name of the source of a work's first location."""
    location, old = node.primary_location, node.host_venue
    if location is not None and location.source is not None:
        return location.source.display_name or None
    return (old.display_name or None) if old is not None else None


def _field(work: Work) -> str | None:
    """The field of the first topic; before there were topics, the level-0 concept of the highest score."""
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
