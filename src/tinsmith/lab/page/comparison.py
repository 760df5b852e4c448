"""Compares runs, whatever they are on: their subject says how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.table import Table

from tinsmith.lab.page.run_page import Subjects
from tinsmith.lab.runs.reader import read_run
from tinsmith.pages.document import Document
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sentences` say what happened, which claims hold, and what could not be read."""

    page: Document
    table: Table
    """For a terminal."""
    sentences: tuple[str, ...]


COMPARISON: Final = "compare.html"
"""The page, where no other file is named."""


def compare(folders: Sequence[Path], subjects: Subjects, task: str | None = None) -> Comparison:
    """Compare runs of one subject, or runs on papers.

    Args:
        folders: of the runs.
        subjects: what runs can be on.
        task: the label that is compared; runs on two labels take part with what they say of it.
    """
    if len({folder.resolve() for folder in folders}) != len(folders):
        what = "a run is compared with itself"
        raise ConfigError(what, field="DIR", value=[str(folder) for folder in folders], allowed="each folder once")
    found = [subjects[read_run(folder).config.kind] for folder in folders]
    for one in found:
        if one.alone is not None and any(other is not one for other in found):
            alike = [str(f) for f, other in zip(folders, found, strict=True) if other is one]
            raise ConfigError(one.alone, field="DIR", value=alike, allowed="runs of one kind")
    if found[0].alone is not None and task is not None:
        what = "--task does not apply here"
        raise ConfigError(what, field="--task", value=task, allowed="none: these runs have no labels to choose from")
    return found[0].compare(folders, task)
