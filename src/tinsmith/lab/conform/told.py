"""Tells what a server honours: as lines, as a table on a terminal, as JSON, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import tinker

from tinsmith.lab.conform.suite import Found
from tinsmith.lab.conform.verdict import Word
from tinsmith.pages.document import Document, Section, Words
from tinsmith.pages.tables import plain
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

_MEANINGS = (
    "honoured: it computes what the documentation says. differs: it does otherwise, and that can be seen. "
    "refused: it says that it does not. silent difference: it accepts the request, and computes something else."
)
_STYLES: Mapping[Word, str] = {
    Word.HONOURED: "green",
    Word.DIFFERS: "yellow",
    Word.REFUSED: "cyan",
    Word.SILENT: "bold red",
}


def summary(found: Sequence[Found]) -> str:
    """Return how many rows have each word."""
    counts = Counter(one.verdict.word for one in found)
    return ", ".join(f"{counts[word]} {word}" for word in Word)


def line(one: Found) -> str:
    """Return a row as it stands where there is no terminal."""
    return visible(f"{one.verdict.word:17}  {one.check.name:36}  {one.verdict.how}")


def console_table(title: str, found: Sequence[Found]) -> Table:
    """Return the table of a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("asked", ratio=2)
    table.add_column("answer", no_wrap=True)
    table.add_column("how", ratio=3)
    for one in found:
        word = one.verdict.word
        table.add_row(Text(one.check.name), Text(word, _STYLES[word]), Text(visible(one.verdict.how)))
    return table


def as_json(url: str, model: str, found: Sequence[Found]) -> dict[str, object]:
    """Return all that was found."""
    counts = Counter(one.verdict.word for one in found)
    return {
        "url": url,
        "model": model,
        "client": f"tinker {tinker.__version__}",
        "counts": {word.value: counts[word] for word in Word},
        "rows": [
            {
                "name": one.check.name,
                "question": one.check.question,
                "verdict": one.verdict.word.value,
                "how": one.verdict.how,
                "source": one.check.source,
                "seconds": round(one.seconds, 3),
            }
            for one in found
        ],
    }


def document(url: str, model: str, found: Sequence[Found]) -> Document:
    """Return the page: what is not honoured first, then every topic with its rows and sources."""
    heads = ("asked", "answer", "how", "source")
    other = [one for one in found if one.verdict.word is not Word.HONOURED]
    first = (
        plain("What is not honoured", heads, [_cells(one) for one in other], words=True)
        if other
        else Words("Every row is honoured.")
    )
    topics = groupby(found, key=lambda one: one.check.name.partition("/")[0])
    return Document(
        kind="Conformance",
        title=url,
        question="What does this server honour of the Tinker protocol?",
        facts=(
            ("Model", model),
            ("Client", f"tinker {tinker.__version__}"),
            ("Rows", str(len(found))),
            ("Found", summary(found)),
        ),
        sections=[
            Section("summary", "Summary", [Words(_MEANINGS), first]),
            *(
                Section(topic, topic.capitalize(), [plain("", heads, map(_cells, list(rows)), words=True)])
                for topic, rows in topics
            ),
        ],
        foot="from what the server answered to the official client.",
    )


def _cells(one: Found) -> tuple[str, ...]:
    return one.check.question, one.verdict.word.value, one.verdict.how, one.check.source
