"""Compares runs, whatever they are on: which comparison serves them, its page, and its table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rich.table import Table

from tinsmith.studies.disruption.comparison import (compare_labels, comparison_document,)
from tinsmith.studies.disruption.summary import summary_table
from tinsmith.studies.debate.pages.comparison import compare_debates
from tinsmith.studies.debate.pages.comparison_page import (debates_document, debates_summary,)
from tinsmith.pages.document import Document
from tinsmith.studies.rubrics.pages.comparison import compare_rubrics
from tinsmith.studies.rubrics.pages.comparison_page import (rubrics_document, rubrics_summary,)
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.labels.subjects import Subject
from tinsmith.types.errors import ConfigError

COMPARISON: Final = "compare.html"
"""The page, where no other file is named."""
_ALONE: Final = MappingProxyType(
    {
        Kind.RLVR: "runs on rubrics and runs on papers have no score in common",
        Kind.DEBATE: "runs under challenge and others have no figure in common",
    }
)
"""Kinds that are compared with their like alone, and why."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison shows: `sentences` say what happened, which claims hold, and what could not be read."""

    page: Document
    table: Table
    sentences: tuple[str, ...]


def compare(folders: Sequence[Path], task: Subject | None = None) -> Comparison:
    """Compare runs of one kind, or runs on the labels of papers.

    Args:
        folders: of the runs.
        task: the label that is compared; runs on two labels take part with what they say of it.

    Raises:
        DataError: a folder holds no run.
        ConfigError: the same folder twice, kinds that are not compared with each other, or a task where there is no
            choice of one.
    """
    if len({folder.resolve() for folder in folders}) != len(folders):
        raise ConfigError(
            "a run is compared with itself",
            field="DIR",
            value=[str(folder) for folder in folders],
            allowed="each folder once",
        )
    kind = shared_kind(folders)
    if kind is not None and task is not None:
        raise no_choice(task)
    if kind is Kind.RLVR:
        rubrics = compare_rubrics(folders)
        page, table, found = rubrics_document(rubrics), rubrics_summary(rubrics), rubrics
    elif kind is Kind.DEBATE:
        debates = compare_debates(folders)
        page, table, found = debates_document(debates), debates_summary(debates), debates
    else:
        labels = compare_labels(folders, task)
        page, table, found = comparison_document(labels), summary_table(labels), labels
        return Comparison(page, table, (*found.headline, *found.story[-1:], *found.notes))
    return Comparison(page, table, (*found.story, *found.notes))


def shared_kind(folders: Sequence[Path]) -> Kind | None:
    """Return the kind of runs that are compared with their like alone; None where they are on labels.

    Raises:
        DataError: a folder holds no run.
        ConfigError: some are of such a kind and some are not.
    """
    kinds = [read_run(folder).config.kind for folder in folders]
    for kind, why in _ALONE.items():
        if kind in kinds and any(other is not kind for other in kinds):
            alike = [str(one) for one, found in zip(folders, kinds, strict=True) if found is kind]
            raise ConfigError(why, field="DIR", value=alike, allowed="runs of one kind")
    return kinds[0] if kinds[0] in _ALONE else None


def no_choice(task: str) -> ConfigError:
    """Return the error of a choice of a label where there is none."""
    return ConfigError(
        "there is no such choice of a label here",
        field="--task",
        value=task,
        allowed=f"{' or '.join(Subject)}, with several runs on papers; the page of one run has both labels",
    )
