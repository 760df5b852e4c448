"""Rendering of pages: one self-contained file that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from tinsmith.data.replacing import replacing
from tinsmith.pages.document import Document
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.version import VERSION


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("tinsmith.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("document.html")


def document_html(document: Document) -> str:
    """Return the HTML of a page; all text but Markup is escaped."""
    code = resource("page.js")
    html = _template().render(
        page=document, css=Markup(resource("page.css")), script=Markup(code), policy=_policy(code), version=VERSION
    )
    return html.lstrip()  # the lines between the macros


def ending(page: Document) -> list[str]:
    """Return a command's last lines: the verdict and the claims."""
    lines = (("result", page.verdict), ("may be claimed", page.claims))
    return [f"{name}: {text}" for name, text in lines if text]


def write(html: str, file: Path, *, field: str = "--out") -> None:
    """Write a page, replacing an old one atomically."""
    if not file.parent.is_dir() or file.is_dir():
        what = "there is no such folder to write to"
        raise ConfigError(what, field=field, value=str(file), allowed="a file in a folder that exists")
    with replacing(file) as part:
        part.write_text(html, encoding="utf-8", newline="\n")


def _policy(code: str) -> str:
    """Return the content security policy: no network, and no script but this one."""
    only = script_hash(code)
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {only}; base-uri 'none'"


def script_hash(code: str) -> str:
    """Return the policy's source expression of an allowed script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def resource(name: str) -> str:
    """Return the text of a template."""
    return (resources.files("tinsmith.pages") / "templates" / name).read_text(encoding="utf-8")


_HEIGHT: Final = 640


def framed(page: str) -> str:
    """Return a page in a sandboxed frame, whose script cannot reach the notebook."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8884"></iframe>'
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text below their headings."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True)
class Plot:
    """Figure as returned by `plot()`."""

    svg: str = field(repr=False)  # A whole SVG file, in the light colours of the pages.

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file, conventionally named *.svg; return the file."""
        write(self.svg, Path(path), field="path")
        return Path(path)

    def _repr_html_(self) -> str:
        return self.svg


def plot_of(svg: Markup | None, missing: str) -> Plot:
    """Return a figure with the colours of its page.

    Raises:
        DataError: there is nothing to draw; `missing` says what.
    """
    if svg is None:
        raise DataError(missing)
    colours = re.search(r":root \{.*?(--.*?)\n\}", resource("page.css"), re.DOTALL)
    assert colours is not None, "the style sheet begins with the light colours"
    head, rest = svg.split(">", 1)
    style = f"<style>svg.figure {{ background: #ffffff; font-family: sans-serif; {colours[1]} }}</style>"
    return Plot(f"{head}>{style}{rest}")
