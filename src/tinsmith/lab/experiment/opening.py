"""Opens a run on a server, fresh or from a checkpoint, and trains it to its end, or to where it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.manifest import seeds
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.labels.course import LabelCourse
from tinsmith.lab.rl import train_rl
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I
from tinsmith.lab.run import Finished, Run
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.lab.sft import train_sft
from tinsmith.lab.sinks import sinks_for
from tinsmith.lab.standing import Standing
from tinsmith.lab.teller import Teller
from tinsmith.types.model_names import ModelName

Examined = Callable[[Standing], None]
"""Takes where a run stands after an evaluation."""


class _Stopped(Exception):
    """A run came to the step that it was to stop after."""


@dataclass(slots=True, kw_only=True)
class StoppableRun(Run[I, A]):
    """A run that may stop early. Its settings, and all that follows from their steps, stay those of the whole run."""

    stop_after: int
    """0: it goes on to its end."""
    examined: Examined | None = None
    """Called after each evaluation, when its step has been written."""

    @property
    def stops_here(self) -> bool:
        """Whether it has come to where it is to stop."""
        return 0 < self.stop_after <= self.step < self.settings.steps

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step as ever; the one to stop after leaves a checkpoint, and ends the loop."""
        Run.record(self, step, metrics)
        if self.examined is not None and any(key.startswith("eval/") for key in metrics):
            self.examined(self.teller.standing(step))
        if self.stops_here:
            self.checkpoint(self.step)
            raise _Stopped


def open_run(
    plan: Plan,
    materials: Materials,
    folder: RunFolder,
    mark: Mark | None,
    connection: Connection,
    examined: Examined | None = None,
) -> StoppableRun[Any, Any]:
    """Return the run where it stands: at its beginning, or at a checkpoint."""
    settings, service, where = plan.settings, connection.client, plan.circumstances
    if mark is None:
        asked = ModelName(
            base=materials.model_name, kind=settings.adapter, alpha=settings.lora_alpha
        )
        trainer = service.create_lora_training_client(
            base_model=str(asked),
            rank=settings.lora_rank,
            seed=seeds(plan)["adapter"],
            train_unembed=settings.train_unembed,
        ).result(WAIT_SECONDS)
    else:
        made = service.create_training_client_from_state_with_optimizer(mark.state_path)
        trainer = made.result(WAIT_SECONDS)
    tokenizer = trainer.get_tokenizer()
    run = StoppableRun(
        service=service,
        trainer=trainer,
        model_name=materials.model_name,
        course=materials.matter.course(tokenizer, folder, connection),
        settings=settings,
        folder=folder,
        teller=Teller(
            name=plan.experiment.name,
            steps=settings.steps,
            sinks=sinks_for(
                name=where.wandb_name or plan.experiment.name,
                wandb_project=where.wandb_project,
                trackio_project=where.trackio_project,
                folder=folder.path,
            ),
            quiet=where.quiet,
        ),
        connection=connection,
        stop_after=where.stop_after,
        examined=examined,
    )
    if mark is not None:
        run.resume(mark)
    return run


def train(run: StoppableRun[Any, Any]) -> Finished | None:
    """Train to the end; None: it stopped where it was told to, and can be resumed from there."""
    settings = run.settings
    if run.stops_here:
        return None
    try:
        if isinstance(settings, RlSettings):
            return train_rl(run, settings)
        assert isinstance(settings, SftSettings)
        assert isinstance(run.course, LabelCourse)
        return train_sft(run, run.course, settings)
    except _Stopped:
        return None
