"""Runs an experiment from its plan to its run folder: papers, model, server, loop, manifest.

Everything that decides the results goes into the identity; a run is resumed only by the same identity. A run that loses
its server stops with what it has, and can be resumed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import tinker

from tinsmith.analysis.alarms import Alarm
from tinsmith.data.slice_card import BASELINES as SLICE_BASELINES
from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.base_model import BaseRecipe
from tinsmith.experiments.materials import (
    Told,
    WorldRecipe,
    nano_base,
    open_slice,
    papers_of,
    slice_identity,
    world_slice,
)
from tinsmith.experiments.plan import At, Kind, Plan
from tinsmith.renderers.choose import renderer_for
from tinsmith.tasks.reward_registry import make_reward
from tinsmith.tasks.rewards import Reward
from tinsmith.training.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.training.rl import train_rl
from tinsmith.training.rollouts import SEED_BITS, WAIT_SECONDS
from tinsmith.training.run import Finished, Run
from tinsmith.training.run_folder import BASELINES, MANIFEST, Mark, RunFolder, Status
from tinsmith.training.server_facts import model_identity, weights_sha256
from tinsmith.training.settings import RlSettings, SftSettings
from tinsmith.training.sft import train_sft
from tinsmith.training.sinks import sinks_for
from tinsmith.training.study import Papers, Study
from tinsmith.training.teller import Teller
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION

STATE = "checkpoints"
"""Where a run's embedded server keeps its state, in the run's folder."""

SERVED_NAME = "base"
"""What an embedded server calls a model that was given as a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted:
    """A run that came to its end."""

    folder: Path
    finished: Finished
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    source: Slice
    papers: Papers
    model_name: str
    """As the server knows it, without the adapter's suffix."""
    models: Mapping[str, str]
    """What an embedded server serves; empty where another server is used."""


def gather(plan: Plan, told: Told) -> Materials:
    """Find or build the papers and the model.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
        DataError: the slice cannot be used.
    """
    where = plan.circumstances
    source = (
        world_slice(WorldRecipe(), told) if where.data is None else open_slice(where.data, told)
    )
    shuffle = plan.settings.seed if plan.frame.shuffle_labels else None
    papers = papers_of(source, plan.task, shuffle_seed=shuffle)
    if where.base_url is not None:
        if where.model_name is None:
            raise ConfigError(
                "a server is named, and no model that it serves",
                field="model_name",
                fix="model_name=NAME, as the server lists it",
            )
        return Materials(source=source, papers=papers, model_name=where.model_name, models={})
    if where.model_name is None and plan.frame.at is At.SEED:
        raise ConfigError(
            "the seeds' settings are for a large model, and none is named",
            field="model_name",
            fix="model_name=FOLDER, or base_url=... and model_name=NAME; at=nano builds its own",
        )
    if where.model_name is None:
        # The control reads the same base as what it controls.
        unshuffled = papers_of(source, plan.task, shuffle_seed=None)
        model = str(nano_base(BaseRecipe(), plan.task, unshuffled, told))
    else:
        model = where.model_name
    name = model if model.startswith("tinsmith/") else SERVED_NAME
    return Materials(source=source, papers=papers, model_name=name, models={name: model})


def conduct(plan: Plan, *, told: Told) -> Conducted:
    """Run an experiment to its end, and leave its folder.

    Raises:
        ConfigError, DataError: it cannot begin.
        LostError: the server was lost; the same command with behavior_if_log_dir_exists=resume goes on.
    """
    where = plan.circumstances
    if where.log_path is None:
        raise ConfigError("a run needs a folder", field="log_path", fix="log_path=DIR")
    materials = gather(plan, told)
    state = where.log_path / STATE
    embedded = EmbeddedSettings(
        models=materials.models,
        arithmetic=plan.arithmetic.value,
        device=where.device,
        seed=derive(plan.settings.seed, "server") % 2**SEED_BITS,
        state=state,
        threads=where.threads,
    )
    prepared = _Prepared(plan, materials)
    # The folder comes first: a run that may not begin there starts no server.
    folder, mark = RunFolder.begin(
        where.log_path, prepared.config(), if_exists=where.behavior_if_log_dir_exists
    )
    connection = open_connection(where.base_url, embedded)
    try:
        return _conduct(prepared, folder, mark, connection)
    finally:
        folder.close()
        connection.close()


@dataclass(slots=True)
class _Prepared:
    plan: Plan
    materials: Materials

    def identity(self) -> dict[str, object]:
        """Everything that decides the results but the model's own fingerprint, which only the server knows."""
        plan = self.plan
        return {
            "version": VERSION,
            "experiment": plan.experiment.full_name,
            "frame": plan.frame,
            "settings": plan.settings,
            "reward_settings": dict(plan.reward_settings),
            "prompt_sha256": plan.task.prompt_sha256,
            "arithmetic": plan.arithmetic,
            "data": slice_identity(self.materials.source),
        }

    def config(self) -> dict[str, object]:
        plan, frame = self.plan, self.plan.frame
        return {
            "schema": 1,
            "name": plan.experiment.name,
            "version": plan.experiment.version,
            "title": plan.title,
            "question": plan.experiment.question,
            "parent": plan.experiment.parent,
            "delta": dict(plan.experiment.delta),
            "overrides": dict(plan.overrides),
            "identity_sha256": sha256_of(self.identity()),
            "kind": frame.kind.value,
            "at": frame.at.value,
            "settings": asdict(plan.settings),
            "task": {
                "name": plan.task.name,
                "labels": list(plan.task.labels),
                "prompt": plan.task.prompt,
                "contract": plan.task.contract.name,
                "with_metadata": plan.task.with_metadata,
                "shuffle_labels": frame.shuffle_labels,
            },
            "reward": None
            if frame.kind is Kind.SFT
            else {"name": frame.reward, **plan.reward_settings},
            "model_name": self.materials.model_name,
            "data": {
                "fingerprint": self.materials.source.card.sha256,
                "train": len(self.materials.papers.train),
                "validation": len(self.materials.papers.validation),
                "test": len(self.materials.papers.test),
            },
        }


def _conduct(
    prepared: _Prepared, folder: RunFolder, mark: Mark | None, connection: Connection
) -> Conducted:
    plan, materials = prepared.plan, prepared.materials
    model = model_identity(connection, materials.model_name)
    manifest = {
        "schema": 1,
        "status": Status.RUNNING.value,
        "identity": {
            **prepared.config(),
            "model": None if model is None else dict(model),
        },
        "circumstances": _circumstances(plan),
    }
    folder.write_json(MANIFEST, manifest)
    _copy_baselines(materials.source, folder)
    run = _open(plan, materials, folder, mark, connection)
    try:
        finished = _train(run, plan)
    except KeyboardInterrupt:
        folder.write_json(MANIFEST, {**manifest, "status": Status.INTERRUPTED.value})
        raise
    except (tinker.TinkerError, BackendError, TimeoutError) as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        raise LostError(
            f"the server was lost at step {run.step}: {str(error).splitlines()[0]}",
            field="log_path",
            value=str(folder.path),
            fix="the same command with behavior_if_log_dir_exists=resume goes on from the last checkpoint",
        ) from error
    finally:
        run.teller.close()
    alarms = run.watch.monitor.alarms
    folder.write_json(
        MANIFEST,
        {
            **manifest,
            "status": Status.FINISHED.value,
            "alarms": [asdict(alarm) for alarm in alarms],
            "selected": {
                "step": finished.selected.step,
                "by": plan.settings.select_by.value,
                "sampler_path": finished.sampler_path,
                "final_path": finished.final_path,
            },
            "hashes": {
                "weights_sha256": weights_sha256(connection, finished.final_path),
                **folder.hashes(),
            },
        },
    )
    return Conducted(folder=folder.path, finished=finished, alarms=alarms)


def _open(
    plan: Plan,
    materials: Materials,
    folder: RunFolder,
    mark: Mark | None,
    connection: Connection,
) -> Run:
    settings, service = plan.settings, connection.client
    suffix = "" if settings.adapter is AdapterKind.LORA else f":{settings.adapter}"
    if mark is None:
        trainer = service.create_lora_training_client(
            base_model=materials.model_name + suffix,
            rank=settings.lora_rank,
            seed=derive(settings.seed, "adapter") % 2**SEED_BITS,
        ).result(WAIT_SECONDS)
    else:
        made = service.create_training_client_from_state_with_optimizer(mark.state_path)
        trainer = made.result(WAIT_SECONDS)
    tokenizer = trainer.get_tokenizer()
    reward: Reward | None = None
    if plan.frame.kind is Kind.RL:
        reward = make_reward(plan.frame.reward, plan.task, **plan.reward_settings)
    where = plan.circumstances
    run = Run(
        service=service,
        trainer=trainer,
        model_name=materials.model_name,
        study=Study(
            task=plan.task,
            papers=materials.papers,
            renderer=renderer_for(tokenizer),
            tokenizer=tokenizer,
        ),
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
        reward=reward,
    )
    if mark is not None:
        run.resume(mark)
    return run


def _train(run: Run, plan: Plan) -> Finished:
    settings = plan.settings
    if isinstance(settings, RlSettings):
        assert run.reward is not None
        return train_rl(run, settings, run.reward)
    assert isinstance(settings, SftSettings)
    return train_sft(run, settings)


def _copy_baselines(source: Slice, folder: RunFolder) -> None:
    there = source.folder / SLICE_BASELINES
    if there.exists():
        (folder.path / BASELINES).write_bytes(there.read_bytes())


def _circumstances(plan: Plan) -> dict[str, object]:
    where = plan.circumstances
    return {
        "device": where.device,
        "threads": where.threads,
        "base_url": where.base_url,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "tinker": tinker.__version__,
    }
