"""The adversarial pair small enough for tests: the small study's papers with cues, and a base that has read debates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_study import PAPERS

from tinsmith.data.labels import Disruption
from tinsmith.lab.course import Course
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import Task, make_task
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.run import Run
from tinsmith.lab.runs.existing_run import IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.debate.cues import Cue, Cues
from tinsmith.studies.debate.debated_papers import DebatedPapers
from tinsmith.studies.debate.demonstrations import DebateBaseRecipe, debate_conversations
from tinsmith.studies.debate.exchange import Exchange
from tinsmith.studies.debate.opponent import Opponent, ScriptedOpponent
from tinsmith.studies.debate.rewards import Credit, debate_reward
from tinsmith.studies.debate.script import load_script

DebateRun = Run[Item, Exchange]

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
SCRIPTED = ScriptedOpponent(labels=TASK.labels, script=SCRIPT, cues=CUES)
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
    connection: Connection, opponent: Opponent | None = SCRIPTED, reward: str = "adversarial/gated"
) -> DebatedPapers:
    """Return the pair's papers, in the base's tokens; it tests on a few only."""
    made = connection.client.create_lora_training_client(base_model="base", rank=1, seed=0)
    renderer = renderer_for(made.result(WAIT_SECONDS).get_tokenizer())
    return DebatedPapers(
        task=TASK,
        renderer=renderer,
        script=SCRIPT,
        opponent=opponent,
        papers=dataclasses.replace(PAPERS, test=PAPERS.test[:3]),
        reward=debate_reward(reward),
        cues=CUES,
    )


def open_debate(
    connection: Connection,
    folder: Path,
    settings: RlSettings = SETTINGS,
    *,
    reward: str = "adversarial/gated",
    forks: int = 1,
    opponent: Opponent | None = SCRIPTED,
    if_exists: IfExists = IfExists.RAISE,
    changed: Callable[[DebateRun], None] | None = None,
) -> DebateRun:
    """Open a run of the pair, or go on with it; it tests on a few papers only."""
    told = {"identity_sha256": repr(settings)}
    opened, mark = RunFolder.begin(folder, told, if_exists=if_exists)
    service: Any = connection.client
    if mark is None:
        made = service.create_lora_training_client(base_model="base", rank=4, seed=3)
    else:
        made = service.create_training_client_from_state_with_optimizer(mark.state_path)
    run: DebateRun = Run(
        service=service,
        trainer=made.result(WAIT_SECONDS),
        model_name="base",
        course=Course(
            subject=debated(connection, opponent, reward),
            settings=settings,
            forks=forks,
            by_turn=debate_reward(reward).credit is Credit.TURN,
        ),
        settings=settings,
        folder=opened,
        teller=Teller(name="test", steps=settings.steps, quiet=True),
    )
    if mark is not None:
        run.resume(mark)
    if changed is not None:
        changed(run)
    return run
