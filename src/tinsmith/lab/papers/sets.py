"""Papers as Python hands them over: a slice with its splits in memory, or a list with or without labels.

A list has no splits of its own: what it holds out is drawn by seed; half chooses the checkpoint, half is for the test.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import msgspec
import polars as pl

from tinsmith.data.baselines.report import read_report
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.splits import Split
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.task import Item, Paper, Task, items_of, paper_of, scores_of
from tinsmith.lab.papers.worlds import WorldRecipe, open_slice, shuffled, world_slice
from tinsmith.pages.cards.distributions import baselines_figure
from tinsmith.pages.cards.slice import slice_page
from tinsmith.pages.page import Plot, document_html, framed, plot_of
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.visible import visible

AnyPaper = PaperRow | Paper | Mapping[str, object]
"""A row of a slice, or a paper without labels: an object, or its fields by name."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSlice:
    """A frozen slice, verified against its card, with its rows in memory."""

    source: Slice
    train: tuple[PaperRow, ...]
    validation: tuple[PaperRow, ...]
    test: tuple[PaperRow, ...]

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the slice's card, which holds those of its rows."""
        return self.source.card.sha256

    def __repr__(self) -> str:
        sizes = f"{len(self.train)} train, {len(self.validation)} validation, {len(self.test)} test"
        return f"LoadedSlice({str(self.source.folder)!r}: {sizes})"

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each paper, with its split."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        rows = [{"split": split, **msgspec.to_builtins(row)} for split, some in splits.items() for row in some]
        return pl.DataFrame(rows, infer_schema_length=None)

    def plot(self) -> Plot:
        """Draw macro-F1 of the baselines on the test split, which a model must beat."""
        report = read_report(self.source.folder)
        return plot_of(None if report is None else baselines_figure(report.targets[0]), "the slice has no baselines")

    def _repr_html_(self) -> str:
        return framed(document_html(slice_page(self.source)))  # its card


def load_slice(path: str | Path | None = None) -> LoadedSlice:
    """Open what `tinsmith data slice` wrote; without a path, the synthetic world's slice, built once and cached.

    Raises:
        DataError: there is no slice, or it was changed.
    """
    source = world_slice(WorldRecipe(), _told) if path is None else open_slice(Path(path), _told)
    train, validation, test = (tuple(source.rows(split)) for split in Split)
    return LoadedSlice(source, train, validation, test)


def _told(message: str) -> None:
    print(visible(message), file=sys.stderr)


def labelled(papers: Sequence[AnyPaper], y: Sequence[str] | None, task: Task) -> list[Item]:
    """Return papers with the labels of `y`, or without it with those of a slice's rows."""
    listed = _listed(papers)
    if y is None:
        rows = [paper for paper in listed if isinstance(paper, PaperRow)]
        if len(rows) != len(listed):
            raise DataError("papers without labels", field="y", fix="give one label a paper")
        return items_of(rows, task)
    golds = [str(label) for label in y]
    wrong = next((label for label in golds if label not in task.labels), None)
    if wrong is not None:
        raise DataError("no such label", field="y", value=wrong, allowed=", ".join(task.labels))
    if len(golds) != len(listed):
        raise DataError("every paper needs one label", field="y", value=len(golds), allowed=str(len(listed)))
    return [_item(paper, gold) for paper, gold in zip(listed, golds, strict=True)]


def unlabelled(papers: Sequence[AnyPaper], task: Task) -> list[Item]:
    """Return papers to ask about; their gold label is the task's first and means nothing."""
    return [_item(paper, task.labels[0]) for paper in _listed(papers)]


def split_items(items: list[Item], held_out: float, seed: int, *, shuffle_seed: int | None) -> Papers:
    """Hold `held_out` of the papers out: half to choose by, half to test; the order of all splits is the list's."""
    count = round(len(items) * held_out / 2)
    if count < 1 or 2 * count >= len(items):
        what = f"of {len(items)} papers some are for training, some to choose by and some to test"
        raise ConfigError(what, field="held_out", value=held_out, allowed=f"{2 / max(2, len(items)):.2g} to below 1")
    bits = random_bits(derive(seed, "held out"), len(items))
    order = sorted(range(len(items)), key=lambda place: int(bits[place]))
    validation, test, train = (
        [items[place] for place in sorted(places)]
        for places in (order[:count], order[count : 2 * count], order[2 * count :])
    )
    return Papers(train=shuffled(train, shuffle_seed), validation=validation, test=test)


def items_identity(papers: Papers) -> dict[str, object]:
    """Return what says which papers these are, with their labels."""
    splits = {each.name: list(getattr(papers, each.name)) for each in fields(Papers)}
    return {"sha256": sha256_of(splits), "rows": {name: len(items) for name, items in splits.items()}}


def _listed(papers: Sequence[AnyPaper]) -> list[AnyPaper]:
    if isinstance(papers, LoadedSlice):
        raise DataError("name one split of the slice", field="papers", fix="papers.test, for example")
    return list(papers)


def _item(given: AnyPaper, gold: str) -> Item:
    if isinstance(given, PaperRow):
        return Item(paper=paper_of(given), golds=(gold,), hidden=scores_of(given))
    return Item(paper=given if isinstance(given, Paper) else _paper(given), golds=(gold,))


def _paper(paper: Mapping[str, object]) -> Paper:
    known = sorted(each.name for each in fields(Paper))
    if unknown := sorted(set(paper) - set(known)):
        raise DataError("a paper has no such field", field=unknown[0], allowed=", ".join(known))
    try:
        made = msgspec.convert({"id": "", **paper}, Paper)
    except msgspec.ValidationError as error:
        raise DataError(f"this is not a paper: {error}", field="papers") from None
    # Prompts are kept by id: a paper without one is called after its content.
    return made if made.id else replace(made, id=sha256_of(made)[:16])
