"""A page as Markdown: its sentences, tables and claims; a drawing becomes the sentence that names its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from tinsmith.pages import document
from tinsmith.pages.tables import Cell, RowKind, Table

_ROWS: Final = 6  # Of a browser.
_START = re.compile(r"^(\d{1,9}(?=[.)](?: |$))|(?=#{1,6}(?: |$)|[-+] |[-=]{2,}$))")
_LABEL = re.compile(r'aria-label="([^"]*)"')


def document_markdown(page: document.Document) -> str:
    """Return a page as Markdown; of a browser the first rows."""
    parts = [f"# {escaped(page.title)}", escaped(page.question), _pairs(page.facts)]
    for section in page.sections:
        parts += [f"## {escaped(section.title)}", *(_block(one) for one in section.blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; short rows are filled up."""
    width = len(heads)
    lines = [heads, ["---"] * width, *([*row, *[""] * (width - len(row))][:width] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def escaped(text: str) -> str:
    """Escape all markup in a text, and what is markup at a paragraph's start."""
    inline = re.sub(r"([\\|*_`<>\[\]]|~(?=~)|(?<=~)~|&(?=#?\w+;))", r"\\\1", " ".join(text.split()))
    return _START.sub(r"\1\\", inline)


def _block(block: document.Block) -> str:
    match block:
        case document.Words(text=text, tone=tone):
            head = "#### " if tone is document.Tone.HEADING else ""
            return verbatim(text) if tone is document.Tone.VERBATIM else f"{head}{escaped(text)}"
        case document.Story(sentences=sentences) | document.Bullets(items=sentences):
            return "\n".join(f"- {escaped(one)}" for one in sentences)
        case document.Drawing() | document.Plates():
            return _drawn(block)
        case document.Facts(pairs=pairs) | document.Values(pairs=pairs):
            return _pairs(pairs)
        case document.Callout(title=title, blocks=blocks) | document.Fold(title=title, blocks=blocks):
            return "\n\n".join([f"#### {escaped(title)}", *(part for one in blocks if (part := _block(one)))])
        case Table():
            return "\n\n".join(part for part in (escaped(block.caption), _table(block)) if part)
        case document.Browser(table=table):
            return f"{escaped(table.caption)} Here the first {len(table.rows[:_ROWS])}.\n\n{_table(table, _ROWS)}"
        case document.ClaimTable():
            return _claims(block)
        case document.MarkedText(title=title, tokens=tokens):
            return f"{escaped(title)}\n\n{verbatim(''.join(one.text for one in tokens))}"
        case document.Example(title=title, before=before, replies=replies):
            parts = [f"#### {escaped(title)}", *map(_block, before), *map(_reply, replies)]
            return "\n\n".join(part for part in parts if part)


def verbatim(text: str) -> str:
    """Return a text in a code fence longer than any within it."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _reply(reply: document.Reply) -> str:
    right = "" if reply.right is None else "right" if reply.right else "wrong"
    head = ", ".join(escaped(part) for part in (reply.title, right, reply.remark) if part)
    return f"{head}:\n\n{verbatim(reply.text)}"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in pairs)


def _drawn(block: document.Drawing | document.Plates) -> str:
    if isinstance(block, document.Drawing):
        return "\n\n".join(escaped(part) for part in (block.caption, _label(block.svg)) if part)
    plates = (" ".join(part for part in (f"{one.title}:", one.note, _label(one.svg)) if part) for one in block.plates)
    return "\n".join(f"- {escaped(one)}" for one in plates)


def _label(svg: Markup | None) -> str:
    found = None if svg is None else _LABEL.search(str(svg))
    return Markup(found[1]).unescape() if found else ""


def _table(table: Table, most: int | None = None) -> str:
    rows = [
        [f"**{_cell(row.name)}**"] if row.kind is RowKind.GROUP else [_cell(row.name), *map(_cell, row.cells)]
        for row in table.rows[:most]
    ]
    return table_lines([_cell(one) for one in table.heads], rows)


def _cell(cell: Cell) -> str:
    return escaped(f"{cell.text} ({cell.under})" if cell.under else cell.text)


def _claims(table: document.ClaimTable) -> str:
    rows = [[escaped(one.claim), "allowed" if one.allowed else "refused", *_figures(one)] for one in table.rows]
    return f"{escaped(table.caption)}\n\n" + table_lines(["Claim", "Verdict", "difference", "p", "n", "Why"], rows)


def _figures(row: document.ClaimRow) -> list[str]:
    why = "; ".join(row.reasons)
    if row.passed:
        why += f" Passed: {'; '.join(row.passed)}."
    if row.scope:
        why += f" (It is about {row.scope}.)"
    difference = f"{row.difference} ({row.interval})" if row.interval else row.difference
    return [escaped(one) for one in (difference, row.p_holm, row.num_items, why)]
