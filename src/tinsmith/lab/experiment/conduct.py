"""Runs an experiment from its plan to its run folder: papers, model, server, loop, manifest.

Everything that decides the results goes into the identity; a run is resumed only by the same identity. A run that loses
its server stops with what it has, and can be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import tinker

from tinsmith.lab.course import Score
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.going_on import going_on
from tinsmith.lab.experiment.manifest import (
    Json,
    Prepared,
    require_same_models,
    require_same_run,
    seeds,
)
from tinsmith.lab.experiment.materials import Materials, gather
from tinsmith.lab.experiment.opening import Examined, StoppableRun, open_run, train
from tinsmith.lab.experiment.place_limits import place_limits
from tinsmith.lab.experiment.refusals import require_possible
from tinsmith.lab.experiment.same_base import require_same_base
from tinsmith.lab.progress import Told
from tinsmith.lab.run import BestStep, Finished
from tinsmith.lab.runs.existing_run import IfExists, settle
from tinsmith.lab.runs.files import MANIFEST, STATE
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.facts import model_identity, weights_sha256
from tinsmith.lab.service.reach import wrong_key
from tinsmith.stats.alarms import Alarm
from tinsmith.types.errors import BackendError, ConfigError, JudgeError, LostError, TaskError
from tinsmith.types.fingerprints import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_KEY_REFUSED: Final = (tinker.AuthenticationError, tinker.PermissionDeniedError)
_REFUSALS: Final = (
    *_KEY_REFUSED,
    tinker.BadRequestError,
    tinker.NotFoundError,
    tinker.UnprocessableEntityError,
)
"""What a server answers that is there, and will not do what it is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted:
    """A run that came to its end, or to where it was to stop."""

    folder: Path
    finished: Finished | None
    """None: it stopped before its end, as `stop_after` said."""
    alarms: tuple[Alarm, ...]
    tokenizer: PreTrainedTokenizerBase | None
    """The model's; None: it came to its end before, and no server was asked."""
    connection: Connection | None
    """The one it was trained through; None as above."""


def embedded_settings(plan: Plan, models: Mapping[str, str], folder: Path) -> EmbeddedSettings:
    """Return how the server of a run in `folder` is started, to train it or to ask it later."""
    where = plan.circumstances
    return EmbeddedSettings(
        models=models,
        arithmetic=plan.arithmetic.value,
        device=where.device,
        seed=seeds(plan)["server"],
        state=folder / STATE,
        threads=where.threads,
        micro_batch=where.micro_batch,
        deviation=plan.deviation.value,
        gradient_unit=plan.gradient_unit.value,
    )


def conduct(
    plan: Plan,
    *,
    told: Told,
    materials: Materials | None = None,
    like: Json | None = None,
    examined: Examined | None = None,
) -> Conducted:
    """Run an experiment to its end, and leave its folder; one to resume that came to its end stays as it is.

    Without `materials` they are gathered from what the plan names. `like` is an earlier run's manifest, and refuses
    another model than that. `examined` is called after each evaluation.

    Raises:
        ConfigError, DataError: it cannot begin.
        LostError: the server was lost; the same command with behavior_if_log_dir_exists=resume goes on.
    """
    done = conduct_and_stay(plan, told=told, materials=materials, like=like, examined=examined)
    if done.connection is not None:
        done.connection.close()
    return done


def conduct_and_stay(
    plan: Plan,
    *,
    told: Told,
    materials: Materials | None = None,
    like: Json | None = None,
    examined: Examined | None = None,
) -> Conducted:
    """Do what `conduct` does, but leave the connection open for whoever asks the trained model, and closes it."""
    where = plan.circumstances
    if where.log_path is None:
        raise ConfigError("a run needs a folder (log_path)", field="log_path", fix="log_path=DIR")
    require_possible(plan)
    if_exists = settle(where.log_path, where.behavior_if_log_dir_exists)
    materials = materials or gather(plan, told)
    for line in (*place_limits(plan), *materials.matter.before()):
        told(line)
    prepared = Prepared(plan, materials)
    if if_exists is IfExists.RESUME:
        done = _finished_before(where.log_path, prepared)
        if done is not None:
            return done
        require_same_run(RunFolder(where.log_path).read_json(MANIFEST), prepared)
    # The folder comes first: a run that may not begin there starts no server.
    folder, mark = RunFolder.begin(where.log_path, prepared.config(), if_exists=if_exists)
    embedded = embedded_settings(plan, materials.models, where.log_path)
    try:
        connection = open_connection(where.base_url, embedded)
    except (BackendError, LostError, KeyboardInterrupt):
        if if_exists is not IfExists.RESUME:
            folder.abandon()  # nothing was run: the next command finds the folder free
        raise
    try:
        done = _conduct(prepared, folder, mark, connection, like, examined)
    except KeyboardInterrupt:
        connection.abandon()
        raise
    except BaseException as error:
        connection.close()
        if isinstance(error, ConfigError) and mark is None and if_exists is not IfExists.RESUME:
            folder.abandon()  # it was refused before its first step
        raise
    finally:
        folder.close()
    if done.finished is None:
        told(
            f"stopped after step {where.stop_after} of {plan.settings.steps}, as asked; {going_on(plan)}"
        )
    return done


def _conduct(
    prepared: Prepared,
    folder: RunFolder,
    mark: Mark | None,
    connection: Connection,
    like: Json | None,
    examined: Examined | None,
) -> Conducted:
    plan, materials = prepared.plan, prepared.materials
    beside = {name: model_identity(connection, name) for name in materials.matter.models()}
    manifest = prepared.manifest(model_identity(connection, materials.model_name), beside)
    if like is not None:
        require_same_models(like, manifest)
    if mark is not None:
        require_same_models(folder.read_json(MANIFEST), manifest)
    folder.write_json(MANIFEST, manifest)
    materials.matter.begin(folder)
    run: StoppableRun[Any, Any] | None = None
    try:
        run = open_run(plan, materials, folder, mark, connection, examined)
        finished = train(run)
    except KeyboardInterrupt:
        folder.write_json(MANIFEST, {**manifest, "status": Status.INTERRUPTED.value})
        raise
    except _REFUSALS as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        died = connection.server is not None and not connection.server.alive
        if died or (run is not None and not isinstance(error, _KEY_REFUSED)):
            when = "before the first step" if run is None else f"at step {run.step}"
            raise _lost(plan, f"the server was lost {when}", error) from error
        raise _refused(plan, materials, error) from None
    except JudgeError as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        when = "before the first step" if run is None else f"at step {run.step}"
        raise LostError(
            f"the judge failed on every response {when}: {error.what}",
            field="log_path",
            value=str(folder.path),
            fix=f"repair the judge; {going_on(plan)}",
        ) from error
    except TaskError as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        when = "before the first step" if run is None else f"at step {run.step}"
        raise LostError(
            f"a function of the task failed on every rollout {when}: {error.what}",
            field="log_path",
            value=str(folder.path),
            fix=f"where the cause is outside the file, {going_on(plan)}; a mended file is another run",
        ) from error
    except (tinker.TinkerError, BackendError, TimeoutError) as error:
        folder.write_json(MANIFEST, {**manifest, "status": Status.LOST.value})
        when = "before the first step" if run is None else f"at step {run.step}"
        raise _lost(plan, f"the server was lost {when}", error) from error
    finally:
        if run is not None:
            run.teller.close()
            run.course.close()
    assert run is not None
    alarms = tuple(run.course.alarms)
    folder.write_json(MANIFEST, {**manifest, **_ended(plan, folder, finished, alarms, connection)})
    return Conducted(
        folder=folder.path,
        finished=finished,
        alarms=alarms,
        tokenizer=run.trainer.get_tokenizer(),
        connection=connection,
    )


def _lost(plan: Plan, what: str, error: Exception) -> LostError:
    return LostError(
        f"{what}: {str(error).splitlines()[0]}",
        field="log_path",
        value=str(plan.circumstances.log_path),
        fix=going_on(plan),
    )


def _refused(plan: Plan, materials: Materials, error: tinker.APIError) -> ConfigError:
    """Return what is said where a server would not begin: the user's mistake, and not a lost server."""
    where = plan.circumstances
    if isinstance(error, _KEY_REFUSED) and where.base_url is not None:
        return wrong_key(where.base_url)
    what, told = _said_by_server(error)
    return ConfigError(
        f"the server refuses this run: {what}",
        field="model_name",
        value=materials.model_name,
        allowed=told.get("allowed"),
        fix=told.get("do", "name a model that the server has, and an adapter that it trains"),
    )


def _said_by_server(error: tinker.APIError) -> tuple[str, Mapping[str, str]]:
    """Return the first line of a refusal, and its further lines by their names where they have one."""
    body = error.body
    said = cast(Mapping[str, object], body).get("error") if isinstance(body, dict) else None
    first, *others = (said if isinstance(said, str) and said else str(error)).splitlines()
    return first, dict(line.strip().split(": ", 1) for line in others if ": " in line)


def _ended(
    plan: Plan,
    folder: RunFolder,
    finished: Finished | None,
    alarms: tuple[Alarm, ...],
    connection: Connection,
) -> dict[str, object]:
    """Return what a manifest says of a run's end: how, what came out, and the hashes a repeated run has to give."""
    told = {"alarms": [asdict(alarm) for alarm in alarms]}
    if finished is None:
        return {"status": Status.INTERRUPTED.value, **told, "hashes": folder.hashes()}
    return {
        "status": Status.FINISHED.value,
        **told,
        "selected": {
            "step": finished.selected.step,
            "score": asdict(finished.selected.score),
            "by": plan.settings.select_by.value,
            "sampler_path": finished.sampler_path,
            "final_path": finished.final_path,
        },
        "hashes": {
            "weights_sha256": weights_sha256(connection, finished.final_path),
            **folder.hashes(),
        },
    }


def _finished_before(path: Path, prepared: Prepared) -> Conducted | None:
    """Return the run in a folder, if it is this one and came to its end.

    Raises:
        ConfigError: it was trained on another base.
    """
    folder = RunFolder(path)
    manifest = cast(Mapping[str, Any], folder.read_json(MANIFEST))
    if manifest.get("identity_sha256") != sha256_of(prepared.identity()):
        return None
    if manifest["status"] != Status.FINISHED.value:
        return None
    require_same_base(manifest, prepared.materials)
    selected = manifest["selected"]
    score = msgspec.convert(selected["score"], Score)
    path_of_selected = selected["sampler_path"]
    return Conducted(
        folder=path,
        finished=Finished(
            selected=BestStep(selected["step"], score, path_of_selected),
            sampler_path=path_of_selected,
            final_path=selected["final_path"],
        ),
        alarms=tuple(msgspec.convert(alarm, Alarm) for alarm in manifest["alarms"]),
        tokenizer=None,
        connection=None,
    )
