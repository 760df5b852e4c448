"""A study small enough for tests: papers whose words tell the label, and a base model built from them in seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinsmith.lab.course import Course
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers
from tinsmith.lab.labels.rewards import make_label_reward
from tinsmith.lab.labels.task import Item, Paper, Task, make_task
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.papers.run_data import label_course
from tinsmith.lab.papers.worlds import PaperBaseRecipe, paper_conversations
from tinsmith.lab.rl import train as train_run
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Selected
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.settings import CommonSettings, RlSettings, SftSettings
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.seeds import random_bits

PaperRun = Run[Item, Answer]

TASK: Task = make_task("disruption", prompt="brief", contract="two_key")
WORDS = {
    "disruptive": ("introduce", "replace", "first"),
    "consolidating": ("extend", "benchmark", "review"),
    "neutral": ("report", "case", "survey"),
}
COMMON = ("the", "results", "of", "method", "data", "and", "model", "with")
RECIPE = PaperBaseRecipe(num_layers=1, vocab_size=512, max_positions=256, steps=40, batch_size=16, warm_up=5)
RL = RlSettings(
    steps=3,
    learning_rate=2e-3,
    lora_rank=4,
    group_size=4,
    groups_per_batch=4,
    eval_every=0,
    save_every=1,
    eval_items=6,
    test_items=6,
    max_tokens=24,
    seed=1,
)
"""Of a short run."""
SFT = SftSettings(
    steps=4,
    learning_rate=5e-3,
    lora_rank=4,
    batch_size=8,
    eval_every=0,
    save_every=0,
    eval_items=6,
    test_items=6,
    max_tokens=24,
    seed=1,
)
"""Of a short supervised run."""


def item(number: int) -> Item:
    """Paper `number`: every second word is of its label's lexicon."""
    label = TASK.labels[number % 3]
    bits = [int(bit) for bit in random_bits(number, 12)]
    words = [
        (WORDS[label] if i % 2 else COMMON)[bit % len(WORDS[label] if i % 2 else COMMON)] for i, bit in enumerate(bits)
    ]
    paper = Paper(
        id=f"W{number}",
        title=" ".join(words[:3]),
        abstract=" ".join(words[3:]) + ".",
        year=2000 + number % 7,
        citations=number % 11,
        field="Physics",
    )
    return Item(paper=paper, golds=(label,))


PAPERS = Papers(
    train=[item(n) for n in range(120)],
    validation=[item(n) for n in range(120, 150)],
    test=[item(n) for n in range(150, 180)],
)


def build(folder: Path) -> Path:
    """Build the base these tests run on."""
    build_base(RECIPE, paper_conversations(RECIPE, TASK, PAPERS.train), folder)
    return folder


def connect_to(base: Path, state: Path) -> Connection:
    """Start a server on the base."""
    return open_connection(None, EmbeddedSettings(models={"base": str(base)}, state=state, seed=5))


def open_run(
    connection: Connection,
    folder: Path,
    settings: CommonSettings,
    *,
    reward: str | None = "strong",
    if_exists: IfExists = IfExists.RAISE,
    changed: Callable[[PaperRun], None] | None = None,
) -> PaperRun:
    """Open a run on the small study, or go on with it."""

    def course(tokenizer: Any) -> Course[Item, Answer]:
        study = LabelledPapers(
            task=TASK,
            papers=PAPERS,
            renderer=renderer_for(tokenizer),
            tokenizer=tokenizer,
            reward=None if reward is None else make_label_reward(reward, TASK),
        )
        return label_course(study, settings)

    return opened(connection, folder, settings, course, if_exists, changed)


def opened(
    connection: Connection,
    folder: Path,
    settings: CommonSettings,
    course: Callable[[Any], Course[I, A]],
    if_exists: IfExists,
    changed: Callable[[Run[I, A]], None] | None,
) -> Run[I, A]:
    """Open a run whose course depends on the tokenizer, or go on with it."""
    begun, mark = RunFolder.begin(folder, {"identity_sha256": repr(settings)}, if_exists=if_exists)
    service = connection.client
    if mark is None:
        made = service.create_lora_training_client(base_model="base", rank=4, seed=3)
    else:
        made = service.create_training_client_from_state_with_optimizer(mark.state_path)
    trainer = made.result(WAIT_SECONDS)
    run = Run(
        service=service,
        trainer=trainer,
        model_name="base",
        course=course(trainer.get_tokenizer()),
        settings=settings,
        folder=begun,
        teller=Teller(name="test", steps=settings.steps, quiet=True),
    )
    if mark is not None:
        run.resume(mark)
    if changed is not None:
        changed(run)
    return run


def study_of(run: PaperRun) -> LabelledPapers:
    """Return what the run teaches, as what it is."""
    assert isinstance(run.course.subject, LabelledPapers)
    return run.course.subject


def train(run: PaperRun) -> Selected:
    """Train to the end."""
    finished = train_run(run)
    assert finished is not None
    return finished


def run_once(connection: Connection, folder: Path, settings: CommonSettings, reward: str | None = "strong") -> Selected:
    """Open a run and train to the end."""
    run = open_run(connection, folder, settings, reward=reward)
    finished = train(run)
    run.folder.close()
    return finished


def train_until(run: Run[Any, Any], step: int) -> None:
    """Train, but stop in the middle of a step: what a kill leaves."""

    class Killed(Exception):
        pass

    record = Run.record

    def killed(self: Run[Any, Any], at: int, metrics: dict[str, float]) -> None:
        if at == step:
            raise Killed
        record(self, at, metrics)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "record", killed)
        with pytest.raises(Killed):
            train_run(run)
    run.folder.close()
