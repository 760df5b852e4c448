"""Fills the template and writes the page: one file that loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tinsmith.data.replacing import replacing
from tinsmith.pages.document import Document
from tinsmith.types.errors import ConfigError
from tinsmith.types.version import VERSION


def document_html(document: Document) -> str:
    """Return the HTML of a page; all text in it is escaped but what is Markup already."""
    environment = Environment(
        loader=PackageLoader("tinsmith.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    code = resource("page.js")
    html = environment.get_template("document.html").render(
        page=document, css=Markup(resource("page.css")), script=Markup(code), policy=_policy(code), version=VERSION
    )
    return html.lstrip()  # the lines between the macros


def ending(page: Document) -> list[str]:
    """Return the lines that end a command: the verdict, and what may be claimed."""
    lines = (("result", page.verdict), ("may be claimed", page.claims))
    return [f"{name}: {told}" for name, told in lines if told]


def write(html: str, file: Path) -> None:
    """Write a page; the file is the old one or the new one, never half of it."""
    if not file.parent.is_dir() or file.is_dir():
        what = "there is no such folder to write to"
        raise ConfigError(what, field="--out", value=str(file), allowed="a file in a folder that exists")
    with replacing(file) as part:
        part.write_text(html, encoding="utf-8", newline="\n")


def _policy(code: str) -> str:
    """Return the content security policy: no network at all, and no script but this one."""
    only = script_hash(code)
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {only}; base-uri 'none'"


def script_hash(code: str) -> str:
    """Return how a page's policy names a script that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def resource(name: str) -> str:
    """Return the text of a template."""
    return (resources.files("tinsmith.pages") / "templates" / name).read_text(encoding="utf-8")
