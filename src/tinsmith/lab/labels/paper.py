"""A paper as a prompt may know it, and an item: a paper, its gold labels and what must stay hidden."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.task import Task
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What is known of a paper besides its labels and scores; the only source of a prompt's words."""

    id: str
    title: str
    abstract: str
    year: int | None = None
    citations: int | None = None
    field: str | None = None
    concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A paper with the labels its answer is scored against. No prompt is made from an item."""

    paper: Paper
    golds: tuple[str, ...]
    """One for each subject of the task, in their order."""
    hidden: tuple[float, ...] = ()
    """The row's scores, kept only so that a check can look for them in a prompt."""

    @property
    def gold(self) -> str:
        """The label, where one subject is asked about."""
        (gold,) = self.golds
        return gold

    @property
    def prompt_id(self) -> str:
        """The paper's id: its name in the files of a run."""
        return self.paper.id


def paper_of(row: PaperRow) -> Paper:
    """Return a slice's row without its labels and scores."""
    return Paper(
        id=row.openalex_id,
        title=row.title,
        abstract=row.abstract,
        year=row.publication_year,
        citations=row.cited_by_count,
        field=row.primary_field,
        concepts=row.concepts,
    )


def scores_of(row: PaperRow) -> tuple[float, ...]:
    """Return the scores behind a row's labels."""
    scores = (row.cd_index, row.novelty_score, row.conventionality_score)
    return tuple(score for score in scores if score is not None)


def items_of(rows: Iterable[PaperRow], task: Task) -> list[Item]:
    """Return one item a row, in order."""
    return [_item(row, task) for row in rows]


def _item(row: PaperRow, task: Task) -> Item:
    golds: list[str] = []
    for subject in task.subjects:
        gold = subject.gold(row)
        if gold is None:
            what = f"paper {row.openalex_id} has no label for the task {task.name}"
            fix = f"cut the slice for this task: tinsmith data slice CORPUS --task {task.name}"
            raise DataError(what, field=subject.label_key, value=None, allowed=", ".join(subject.labels), fix=fix)
        golds.append(gold)
    return Item(paper=paper_of(row), golds=tuple(golds), hidden=scores_of(row))
