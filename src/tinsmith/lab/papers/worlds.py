"""The papers and the base model of a run that is given none: a synthetic world and a nano base, built once and cached.

Built things lie below TINSMITH_HOME under the fingerprint of all that decides them, so that an experiment never meets
one that was made from something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tinsmith.data.baselines.fitting import run_baselines
from tinsmith.data.baselines.report import read_report
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.labels import SEED_CUT, Thresholds
from tinsmith.data.metrics import MetricSettings, compute_metrics
from tinsmith.data.progress import Silent
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import Caps, SliceSettings, Task
from tinsmith.data.slices.splits import Split
from tinsmith.data.sources.synthetic import SyntheticSource
from tinsmith.data.sources.world.spec import Preset
from tinsmith.lab.base_recipe import BaseRecipe, Conversation, Progress, reading
from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.task import Item, items_of, prompt_messages
from tinsmith.lab.labels.task import Task as LabTask
from tinsmith.lab.nano_base import build_base, cached_base
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive, random_bits
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say, ticking


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBaseRecipe(BaseRecipe):
    """The recipe of a base from papers: it reads abstracts, and after them answers that know nothing of the labels.

    Labels are drawn uniformly at random, each apart where an answer has two, as in the source notes at step 0. A tenth
    of the answers break the contract, so that there is something to learn about it too. After every second abstract it
    is asked for words of it: a model that never had to look back at a text needs many more rollouts to find anything.
    """

    broken: float = 0.1  # Share of demonstrations that break the contract.
    reading_every: int = 2  # Every so many-th demonstration asks for words of the abstract instead of a label; 0: none.


def build_paper_base(
    recipe: PaperBaseRecipe, tasks: Sequence[LabTask], items: Sequence[Item], out: Path, *, say: Progress | None = None
) -> None:
    """Build the base from these papers and write it to `out`; see `build_base`."""
    build_base(recipe, paper_conversations(recipe, tasks, items), out, say=say)


def paper_conversations(recipe: PaperBaseRecipe, tasks: Sequence[LabTask], items: Sequence[Item]) -> list[Conversation]:
    """Make one conversation a paper: its prompt for a task, and an answer that has nothing to do with its labels.

    The answer has random labels and a random confidence, or words of the abstract.
    """
    # A draw for each label, one for the confidence, one for breaking the contract.
    width = max(len(task.subjects) for task in tasks) + 2
    bits = random_bits(derive(recipe.seed, "answers"), width * len(items))
    unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    conversations: list[Conversation] = []
    for i, item in enumerate(items):
        task = tasks[i % len(tasks)]
        *drawn, sure, broken = unit[width * i : width * (i + 1)].tolist()
        said = tuple(
            subject.labels[int(each * len(subject.labels))] for subject, each in zip(task.subjects, drawn, strict=True)
        )
        answer = task.contract.answer_text(said, tuple(Confidence)[int(sure * len(Confidence))])
        if broken < recipe.broken:
            answer = _broken(answer, " and ".join(said), broken / recipe.broken)
        first = prompt_messages(task, item)
        if recipe.reading_every and i % recipe.reading_every == 0:
            first, answer = reading(first, item.paper.abstract, derive(recipe.seed, "words", i))
        conversations.append((*first, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def _broken(answer: str, label: str, unit: float) -> str:
    """An answer that breaks the contract in one of the ways that models do."""
    fenced = f"```json\n{answer}\n```"
    return (fenced, label, answer[:-1], f"The paper is {label}.")[int(unit * 4)]


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
    """Return the slice of a synthetic world, with its baselines; built where it is not cached."""
    place = home() / "worlds" / sha256_of({"version": VERSION, "world": recipe})[:16]
    with one_writer(place):
        if not present(place).is_dir():
            with staged(place) as folder:
                _build_world(recipe, folder, say)
    return Slice.open(present(place) / "slice")


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
    alone = len(task.subjects) == 1
    return world_slice(WorldRecipe(task=Task(task.subjects[0].value)) if alone else JOINT_WORLD, say)


def open_slice(folder: Path, say: Say) -> Slice:
    """Return the slice in a folder; its baselines are computed where nobody did it yet."""
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
    """Return the folder of the nano base for these training papers and this task; built where it is not cached."""
    return cached_base(recipe, paper_conversations(recipe, (task,), papers.train), say)


def slice_identity(source: Slice) -> dict[str, object]:
    """Return what says which papers these are, wherever they lie."""
    return {"sha256": source.card.sha256, "rows": {split.value: source.card.splits[split].rows for split in Split}}


def shuffled(items: list[Item], seed: int | None) -> list[Item]:
    """Return the same papers in the same order, with their labels shuffled among them; two of a paper stay together.

    None: the labels stay where they are.
    """
    if seed is None:
        return items
    bits = random_bits(derive(seed, "shuffled labels"), len(items))
    places = sorted(range(len(items)), key=lambda place: int(bits[place]))
    return [replace(item, golds=items[other].golds) for item, other in zip(items, places, strict=True)]
