"""The adversarial pair small enough for tests: the small study's papers with cues, and a base that has read debates."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from small_study import PAPERS, opened

from tinsmith.data.labels import Disruption
from tinsmith.lab.course import Course
from tinsmith.lab.labels.task import Task, make_task
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import IfExists
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.dialogue import Earned
from tinsmith.lab.user_task.items import UserItem, split_items
from tinsmith.lab.user_task.subject import FrozenModel, UserSubject
from tinsmith.lab.user_task.task import Model
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.debate.challenge import Challenger, Cue, Cues, load_script
from tinsmith.studies.debate.planted_debates import DebateBaseRecipe, debate_conversations
from tinsmith.studies.debate.rewards import debate_reward
from tinsmith.studies.debate.task import Debate

DebateRun = Run[UserItem, Earned]

TASK: Task = make_task("disruption", prompt="brief", contract="two_key")
SCRIPT = load_script("brief")
CUES = Cues(
    {
        Disruption.DISRUPTIVE.value: (Cue(("introduce",)), Cue(("replace",))),
        Disruption.CONSOLIDATING.value: (Cue(("extend",)), Cue(("benchmark",))),
        Disruption.NEUTRAL.value: (Cue(("report",)), Cue(("case",))),
    }
)
RECIPE = DebateBaseRecipe(num_layers=1, vocab_size=512, max_positions=320, steps=60, batch_size=12, warm_up=5)
SCRIPTED = Challenger(labels=TASK.labels, script=SCRIPT, cues=CUES)
SETTINGS = RlSettings(
    steps=3,
    learning_rate=2e-3,
    lora_rank=4,
    group_size=3,
    groups_per_batch=3,
    eval_every=0,
    save_every=0,
    eval_items=4,
    max_tokens=28,
    seed=1,
)


def build(folder: Path) -> Path:
    """Build the base these tests run on."""
    build_base(RECIPE, debate_conversations(RECIPE, TASK, SCRIPT, PAPERS.train), folder)
    return folder


def debated(
    connection: Connection,
    challenger: Challenger | None = SCRIPTED,
    reward: str = "adversarial/gated",
    *,
    forks: int = 1,
    model: FrozenModel | None = None,
    **parts: Any,
) -> UserSubject:
    """Return the pair's papers, in the base's tokens; it tests on a few only."""
    made = connection.client.create_lora_training_client(base_model="base", rank=1, seed=0)
    about = Debate(
        question=TASK,
        reward=debate_reward(reward),
        challenger=challenger,
        cues=CUES,
        forks=forks,
        model=None if model is None else Model(),
    )
    task = replace(about.task(PAPERS.train, PAPERS.validation, PAPERS.test[:3]), **parts)
    renderer = renderer_for(made.result(WAIT_SECONDS).get_tokenizer())
    return UserSubject(task=task, split=split_items(task, Path(), 0), renderer=renderer, model=model)


def open_debate(
    connection: Connection,
    folder: Path,
    settings: RlSettings = SETTINGS,
    *,
    reward: str = "adversarial/gated",
    forks: int = 1,
    challenger: Challenger | None = SCRIPTED,
    if_exists: IfExists = IfExists.RAISE,
    changed: Callable[[DebateRun], None] | None = None,
    **parts: Any,
) -> DebateRun:
    """Open a run of the pair, or go on with it; it tests on a few papers only."""

    def course(_tokenizer: object) -> Course[UserItem, Earned]:
        subject = debated(connection, challenger, reward, forks=forks, **parts)
        return Course(subject=subject, settings=settings, forks=forks)

    return opened(connection, folder, settings, course, if_exists, changed)
