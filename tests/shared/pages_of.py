"""Pages and comparisons of run folders, whatever they are on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from markupsafe import Markup

from tinsmith.lab.page.comparison import Comparison
from tinsmith.lab.page.report import compare, run_page
from tinsmith.lab.runs.files import REPORT
from tinsmith.pages import curves
from tinsmith.pages.document import Document
from tinsmith.pages.page import document_html, write


def document_of(folder: Path) -> Document:
    return run_page(folder)


def page_of(folder: Path) -> str:
    return document_html(document_of(folder))


def report_of(folder: Path, out: Path | None = None) -> Path:
    file = out or folder / REPORT
    write(page_of(folder), file)
    return file


def compared(folders: Sequence[Path], task: str | None = None) -> Comparison:
    return compare(folders, task)


@contextmanager
def undrawn() -> Iterator[None]:
    """Draw no curves, but say of what: a picture takes as long as a short run, and is looked at in tests of pages."""

    def draw(name: str, label: str, *_: object, **__: object) -> Markup:
        del name
        return Markup('<svg aria-label="{}"></svg>').format(label)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "draw", draw)
        yield
