"""Runs an experiment from its plan to its run folder: papers, model, server, loop, manifest.

Everything that decides the results goes into the identity; a run is resumed only by the same identity. A run that loses
its server stops with what it has, and can be resumed.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import tinker

from tinsmith.analysis.alarms import Alarm
from tinsmith.data.slice_card import BASELINES as SLICE_BASELINES
from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.base_model import BaseRecipe
from tinsmith.experiments.forecast import forecast
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
from tinsmith.training.run_folder import (
    BASELINES,
    MANIFEST,
    METRICS,
    IfExists,
    Mark,
    RunFolder,
    Status,
)
from tinsmith.training.server_facts import model_identity, weights_sha256
from tinsmith.training.settings import RlSettings, Selection, SftSettings
from tinsmith.training.sft import train_sft
from tinsmith.training.sinks import sinks_for
from tinsmith.training.study import Papers, Study
from tinsmith.training.teller import Teller
from tinsmith.training.watch import BestStep, Score
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
    tokenizer: PreTrainedTokenizerBase | None
    """The model's; None: it came to its end before, and no server was asked."""
    connection: Connection | None
    """The one it was trained through; None as above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    papers: Papers
    data: Mapping[str, object]
    """Which papers these are, wherever they lie; `sha256` is over all of them."""
    source: Slice | None
    """Where the papers are from, with its baselines; None: they were handed over."""
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
    return with_model(
        plan,
        papers_of(source, plan.task, shuffle_seed=shuffle_seed(plan)),
        slice_identity(source),
        told,
        source=source,
    )


def shuffle_seed(plan: Plan) -> int | None:
    """Return the seed to shuffle a plan's training labels with; None: they stay where they are."""
    return plan.settings.seed if plan.frame.shuffle_labels else None


def with_model(
    plan: Plan,
    papers: Papers,
    data: Mapping[str, object],
    told: Told,
    *,
    source: Slice | None = None,
) -> Materials:
    """Find or build the model for these papers.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
    """
    where = plan.circumstances
    models: dict[str, str] = {}
    if where.base_url is not None:
        if where.model_name is None:
            raise ConfigError(
                "a server is named, and no model that it serves",
                field="model_name",
                fix="model_name=NAME, as the server lists it",
            )
        name = where.model_name
    elif where.model_name is not None:
        named = where.model_name.startswith("tinsmith/")
        name = where.model_name if named else SERVED_NAME
        models[name] = where.model_name
    elif plan.frame.at is At.SEED:
        raise ConfigError(
            "the seeds' settings are for a large model, and none is named",
            field="model_name",
            fix="model_name=FOLDER, or base_url=... and model_name=NAME; at=nano builds its own",
        )
    else:
        # It reads papers and no labels: a control with shuffled ones has the same base as what it controls.
        name = SERVED_NAME
        models[name] = str(nano_base(BaseRecipe(), plan.task, papers, told))
    return Materials(papers=papers, data=data, source=source, model_name=name, models=models)


def embedded_settings(plan: Plan, models: Mapping[str, str], folder: Path) -> EmbeddedSettings:
    """Return how the server of a run in `folder` is started, to train it or to ask it later."""
    where = plan.circumstances
    return EmbeddedSettings(
        models=models,
        arithmetic=plan.arithmetic.value,
        device=where.device,
        seed=derive(plan.settings.seed, "server") % 2**SEED_BITS,
        state=folder / STATE,
        threads=where.threads,
    )


def conduct(plan: Plan, *, told: Told, materials: Materials | None = None) -> Conducted:
    """Run an experiment to its end, and leave its folder; one to resume that came to its end stays as it is.

    Without `materials` they are gathered from what the plan names.

    Raises:
        ConfigError, DataError: it cannot begin.
        LostError: the server was lost; the same command with behavior_if_log_dir_exists=resume goes on.
    """
    done = conduct_and_stay(plan, told=told, materials=materials)
    if done.connection is not None:
        done.connection.close()
    return done


def conduct_and_stay(plan: Plan, *, told: Told, materials: Materials | None = None) -> Conducted:
    """Do what `conduct` does, but leave the connection open for whoever asks the trained model, and closes it."""
    where = plan.circumstances
    if where.log_path is None:
        raise ConfigError("a run needs a folder", field="log_path", fix="log_path=DIR")
    materials = materials or gather(plan, told)
    if materials.source is not None:
        for line in forecast(plan, materials.source):
            told(line)
    prepared = _Prepared(plan, materials)
    if where.behavior_if_log_dir_exists is IfExists.RESUME:
        done = _finished_before(where.log_path, prepared)
        if done is not None:
            return done
    # The folder comes first: a run that may not begin there starts no server.
    folder, mark = RunFolder.begin(
        where.log_path, prepared.config(), if_exists=where.behavior_if_log_dir_exists
    )
    embedded = embedded_settings(plan, materials.models, where.log_path)
    connection = open_connection(where.base_url, embedded)
    with ExitStack() as stack:
        stack.callback(connection.close)
        stack.callback(folder.close)
        done = _conduct(prepared, folder, mark, connection)
        folder.close()
        stack.pop_all()
    return done


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
            "data": dict(self.materials.data),
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
                "fingerprint": self.materials.data["sha256"],
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
    if materials.source is not None:
        _copy_baselines(materials.source, folder)
    run: Run | None = None
    try:
        run = _open(plan, materials, folder, mark, connection)
        finished = _train(run, plan)
    except KeyboardInterrupt:
        folder.write_json(MANIFEST, {**manifest, "status": Status.INTERRUPTED.value})
        raise
    except (tinker.TinkerError, BackendError, TimeoutError) as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        when = "before the first step" if run is None else f"at step {run.step}"
        raise LostError(
            f"the server was lost {when}: {str(error).splitlines()[0]}",
            field="log_path",
            value=str(folder.path),
            fix="the same command with behavior_if_log_dir_exists=resume goes on from the last checkpoint",
        ) from error
    finally:
        if run is not None:
            run.teller.close()
    assert run is not None
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
    return Conducted(
        folder=folder.path,
        finished=finished,
        alarms=alarms,
        tokenizer=run.study.tokenizer,
        connection=connection,
    )


def _finished_before(path: Path, prepared: _Prepared) -> Conducted | None:
    """Return the run in a folder, if it is this one and came to its end."""
    folder = RunFolder(path)
    manifest = cast(Mapping[str, Any], folder.read_json(MANIFEST))
    same = manifest and manifest["identity"]["identity_sha256"] == sha256_of(prepared.identity())
    if not same or manifest["status"] != Status.FINISHED.value:
        return None
    selected, by = manifest["selected"], prepared.plan.settings.select_by
    line = next(line for line in folder.read_lines(METRICS) if line["step"] == selected["step"])
    value = selected["step"] if by is Selection.LAST else line[f"eval/{by}"]
    score = msgspec.convert((value, line["eval/min_class_recall"]), tuple[float, float])
    path_of_selected = selected["sampler_path"]
    return Conducted(
        folder=path,
        finished=Finished(
            selected=BestStep(selected["step"], Score(*score), path_of_selected),
            sampler_path=path_of_selected,
            final_path=selected["final_path"],
        ),
        alarms=tuple(msgspec.convert(alarm, Alarm) for alarm in manifest["alarms"]),
        tokenizer=None,
        connection=None,
    )


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
