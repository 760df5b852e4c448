"""Slices of papers, opened or synthetic; papers passed in Python; and the nano base trained on them.

Built things lie below TINSMITH_HOME under the fingerprint of all that decides them, built once, so that an experiment
never meets one that was made from something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.baselines.report import read_report
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.labels import SEED_CUT, Thresholds
from tinsmith.data.metrics import MetricSettings, compute_metrics
from tinsmith.data.progress import Silent
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.labelled_rows import ID, labelled_row
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.settings import Caps, SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.data.sources.synthetic import SyntheticSource
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.base_recipe import BaseRecipe, Conversation, reading
from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.task import Item, Paper, items_of, paper_of, prompt_messages, scores_of
from tinsmith.lab.labels.task import Task as LabTask
from tinsmith.lab.nano_base import cached_base
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.pages.card_figures import baselines_figure
from tinsmith.pages.cards import slice_page
from tinsmith.pages.page import Plot, document_html, framed, plot_of
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say, tell, ticking


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBaseRecipe(BaseRecipe):
    """Recipe of a base from papers: abstracts, then answers that are independent of the labels.

    Labels are drawn uniformly at random, each apart where an answer has two, as in the source notes at step 0. A tenth
    of the answers break the contract, so that there is something to learn about it too. After every second abstract it
    is asked for words of it: a model that never had to look back at a text needs many more rollouts to find anything.
    """

    broken: float = 0.1  # Share of demonstrations that break the contract.
    reading_every: int = 2  # Every so many-th demonstration asks for words of the abstract instead of a label; 0: none.


def paper_conversations(recipe: PaperBaseRecipe, task: LabTask, items: Sequence[Item]) -> list[Conversation]:
    """Make one conversation per paper: its prompt, and an answer that is independent of its labels.

    The answer has random labels and a random confidence, or words of the abstract.
    """
    # A draw for each label, one for the confidence, one for breaking the contract.
    width = len(task.subjects) + 2
    bits = random_bits(derive(recipe.seed, "answers"), width * len(items))
    unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    conversations: list[Conversation] = []
    for i, item in enumerate(items):
        *drawn, sure, broken = unit[width * i : width * (i + 1)].tolist()
        labels = tuple(
            subject.labels[int(each * len(subject.labels))] for subject, each in zip(task.subjects, drawn, strict=True)
        )
        answer = task.contract.answer_text(labels, tuple(Confidence)[int(sure * len(Confidence))])
        if broken < recipe.broken:
            label = " and ".join(labels)
            ways = (f"```json\n{answer}\n```", label, answer[:-1], f"The paper is {label}.")
            answer = ways[int(broken / recipe.broken * 4)]
        first = prompt_messages(task, item)
        if recipe.reading_every and i % recipe.reading_every == 0:
            first, answer = reading(first, item.paper.abstract, derive(recipe.seed, "words", i))
        conversations.append((*first, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


PER_CLASS = 2400
CAPS = Caps(train=5000, validation=500, test=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRecipe:
    """The papers of experiments that are given none: a synthetic world, balanced, at the world's own cut."""

    preset: Preset = Preset.SMALL
    seed: int = 0
    task: Task = Task.DISRUPTION
    per_class: int = PER_CLASS
    caps: Caps = CAPS


JOINT_WORLD = WorldRecipe(task=Task.JOINT, per_class=300)
"""The papers of experiments on both labels: 300 of each pair of labels; the rarest pair has hardly more."""


def world_slice(recipe: WorldRecipe, say: Say) -> Slice:
    """Return the slice of a synthetic world with its baselines, built unless cached."""
    place = _place(recipe)
    with one_writer(place):
        if not present(place).is_dir():
            with staged(place) as folder:
                _build_world(recipe, folder, say)
    return Slice.open(present(place) / "slice")


def _place(recipe: WorldRecipe) -> Path:
    return home() / "worlds" / sha256_of({"version": VERSION, "world": recipe})[:16]


def _build_world(recipe: WorldRecipe, folder: Path, say: Say) -> None:
    source = SyntheticSource(recipe.preset, recipe.seed)
    with ticking(f"building a synthetic world ({recipe.preset}, seed {recipe.seed})", say):
        with CorpusWriter(folder / "corpus", source=source.description()) as writer:
            source.feed(writer, Silent())
        corpus = Corpus.open(folder / "corpus")
    with ticking("computing CD indices and atypicality on the full graph", say):
        compute_metrics(corpus, MetricSettings())
    settings = SliceSettings(
        task=recipe.task,
        thresholds=Thresholds(cut=corpus.card.thresholds or SEED_CUT),
        per_class=recipe.per_class,
        caps=recipe.caps,
    )
    with ticking("cutting the slice, and scoring its baselines", say):
        make_slice(corpus, settings, folder / "slice")
        run_baselines(Slice.open(folder / "slice"))


def slice_in(where: Path | None, task: LabTask, say: Say) -> Slice:
    """Return the slice of a folder; where none is named, that of a synthetic world, cut for the task's labels."""
    if where is not None:
        return open_slice(where, say)
    return world_slice(_recipe(task), say)


def _recipe(task: LabTask) -> WorldRecipe:
    return WorldRecipe(task=Task(task.subjects[0].value)) if len(task.subjects) == 1 else JOINT_WORLD


def is_missing(where: Path | None, task: LabTask) -> bool:
    """Return true if a slice is that of a synthetic world which is not built yet."""
    return where is None and not present(_place(_recipe(task))).is_dir()


def open_slice(folder: Path, say: Say) -> Slice:
    """Return the slice in a folder; compute its baselines if they are missing."""
    source = Slice.open(folder)
    if read_report(folder) is None:
        with ticking("scoring the slice's baselines", say):
            run_baselines(source)
    return source


def papers_of(source: Slice, task: LabTask, *, shuffle_seed: int | None) -> Papers:
    """Return the items of each split; `shuffle_seed` shuffles the training labels among their papers."""
    train, validation, test = (items_of(source.rows(split), task) for split in Split)
    return Papers(train=shuffled(train, shuffle_seed), validation=validation, test=test)


def nano_base(recipe: PaperBaseRecipe, task: LabTask, papers: Papers, say: Say) -> Path:
    """Return the folder of the nano base for these training papers and this task, built unless cached."""
    return cached_base(recipe, paper_conversations(recipe, task, papers.train), say)


def shuffled(items: list[Item], seed: int | None) -> list[Item]:
    """Return the papers in order with shuffled labels; two labels of a paper stay together.

    None: the labels stay where they are.
    """
    if seed is None:
        return items
    places = _drawn_order(len(items), derive(seed, "shuffled labels"))
    return [replace(item, golds=items[other].golds) for item, other in zip(items, places, strict=True)]


def _drawn_order(count: int, seed: int) -> list[int]:
    bits = random_bits(seed, count)
    return sorted(range(count), key=lambda place: int(bits[place]))


AnyPaper = PaperRow | Paper | Mapping[str, object]
"""A row of a slice, or a paper without labels: an object, or its fields by name; or a row's fields by name."""


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
    """Open the output of `tinsmith data slice`; without a path, the synthetic world's slice, built once.

    Raises:
        DataError: there is no slice, or it was changed.
    """
    if path is not None and not Path(path).is_dir():
        allowed = "a folder that `tinsmith data slice CORPUS|FILE` wrote"
        raise DataError("there is no such folder", field="path", value=str(path), allowed=allowed)
    source = world_slice(WorldRecipe(), tell) if path is None else open_slice(Path(path), tell)
    train, validation, test = (tuple(source.rows(split)) for split in Split)
    return LoadedSlice(source, train, validation, test)


def labelled(papers: Sequence[AnyPaper], y: Sequence[str] | None, task: LabTask) -> list[Item]:
    """Return papers with the labels `y`, or else with those of a slice's rows.

    Raises:
        DataError: two papers of one id, missing labels, or labels of another task.
    """
    listed = _listed(papers)
    if y is None:
        rows = [paper for paper in listed if isinstance(paper, PaperRow)]
        if len(rows) != len(listed):
            raise DataError("papers without labels", field="y", fix="give one label a paper")
        return _of_distinct_ids(items_of(rows, task))
    golds = [str(label) for label in y]
    if len(golds) != len(listed):
        raise DataError("every paper needs one label", field="len(y)", value=len(golds), allowed=str(len(listed)))
    wrong = next((label for label in golds if label not in task.labels), None)
    if wrong is not None:
        raise DataError("no such label", field="y", value=wrong, allowed=task.labels)
    return _of_distinct_ids([_item(paper, gold) for paper, gold in zip(listed, golds, strict=True)])


def _of_distinct_ids(items: list[Item]) -> list[Item]:
    papers = dict[str, Paper]()
    for place, item in enumerate(items):
        if papers.setdefault(item.paper.id, item.paper) != item.paper:
            what, fix = "two papers have the same id", "give each an id of its own, or none"
            raise DataError(what, field=f"papers[{place}]", value=item.paper.id, fix=fix)
    return items


def unlabelled(papers: Sequence[AnyPaper], task: LabTask) -> list[Item]:
    """Return papers without labels; their gold label is the task's first, and has no meaning."""
    return [_item(paper, task.labels[0]) for paper in _listed(papers)]


def split_items(items: list[Item], held_out: float, seed: int, *, shuffle_seed: int | None) -> Papers:
    """Hold out `held_out` of the papers, half for selection and half for the test; all splits keep the list's order.

    Papers of one title and abstract are one paper, and held out once; repeats in training are the list's own.
    """
    repeats: dict[tuple[str, str], list[int]] = {}
    for place, item in enumerate(items):
        repeats.setdefault((item.paper.title, item.paper.abstract), []).append(place)
    texts = list(repeats.values())
    count = round(len(texts) * held_out / 2)
    if count < 1 or 2 * count >= len(texts):
        what = f"this share of {len(texts)} distinct papers leaves none for training, to choose by or to test"
        raise ConfigError(what, field="held_out", value=held_out, allowed=f"{2 / max(2, len(texts)):.2g} to below 1")
    order = [texts[place] for place in _drawn_order(len(texts), derive(seed, "held out"))]
    held = ([places[0] for places in some] for some in (order[:count], order[count : 2 * count]))
    rest = [place for places in order[2 * count :] for place in places]
    validation, test, train = ([items[place] for place in sorted(places)] for places in (*held, rest))
    return Papers(train=shuffled(train, shuffle_seed), validation=validation, test=test)


def items_identity(papers: Papers) -> dict[str, object]:
    """Return the identity of these papers with their labels."""
    splits = {each.name: list(getattr(papers, each.name)) for each in fields(Papers)}
    return {"sha256": sha256_of(splits), "rows": {name: len(items) for name, items in splits.items()}}


def _listed(papers: Sequence[AnyPaper]) -> list[AnyPaper]:
    if isinstance(papers, LoadedSlice):
        raise DataError("name one split of the slice", field="papers", fix="papers.test, for example")
    every, kinds = cast("Sequence[object]", papers), (Mapping, Paper, PaperRow)
    if isinstance(papers, kinds) or not all(isinstance(one, kinds) for one in every):
        allowed = "a list of papers of a slice, or of mappings with title and abstract, as frame.to_dict('records')"
        raise DataError("this is no list of papers", field="papers", value=repr(papers)[:60], allowed=allowed)
    return [labelled_row(one) if isinstance(one, Mapping) and ID in one else one for one in papers]


def _item(given: AnyPaper, gold: str) -> Item:
    if isinstance(given, PaperRow):
        return Item(paper=paper_of(given), golds=(gold,), hidden=scores_of(given))
    paper = replace(given, concepts=tuple(given.concepts)) if isinstance(given, Paper) else _paper(given)
    return Item(paper=paper, golds=(gold,))


def _paper(paper: Mapping[str, object]) -> Paper:
    known = sorted(each.name for each in fields(Paper))
    if unknown := sorted(set(paper) - set(known)):
        raise DataError("a paper has no such field", field=unknown[0], allowed=known)
    try:
        made = msgspec.convert({"id": "", **paper}, Paper)
    except msgspec.ValidationError as error:
        raise DataError(f"this is not a paper: {error}", field="papers") from None
    # Answers are matched by id: a paper without one is called after its content.
    return made if made.id else replace(made, id=sha256_of(made)[:16])
