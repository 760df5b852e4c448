"""Pages and tables as the HTML of a notebook's cell: nothing of it fetches anything, and nothing leaves its frame."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

_HEIGHT: Final = 640


def framed(page: str) -> str:
    """Return a whole page in a frame of its own, whose script cannot reach the notebook."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8884"></iframe>'
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text below their headings."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
