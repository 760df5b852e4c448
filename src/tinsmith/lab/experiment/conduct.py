"""Runs an experiment from its plan to its run folder: papers, model, server, loop, manifest.

Everything that decides the results goes into the identity; a run is resumed only by the same identity. A run that loses
its server stops with what it has, and can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import tinker

from tinsmith.engine.sampler import NOT_FINITE
from tinsmith.lab.course import Course
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, remember, start_seconds, time_and_disk, unusual
from tinsmith.lab.experiment.experiment import Plan, place_limits
from tinsmith.lab.experiment.manifest import (
    config_of,
    identity_of,
    manifest_of,
    require_same_base,
    require_same_models,
    require_same_run,
    seeds,
)
from tinsmith.lab.experiment.materials import Materials, require_possible, with_model, wrong_key
from tinsmith.lab.live.interrupts import Interrupts
from tinsmith.lab.live.progress import slowdown
from tinsmith.lab.live.teller import Teller, sinks_for
from tinsmith.lab.policy import Agents, new_adapter
from tinsmith.lab.rl import train
from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS
from tinsmith.lab.run import Reached, Run
from tinsmith.lab.runs.files import MANIFEST, STATE, TRACE, IfExists, Status, holds_run, settle
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.records import Manifest, Selected
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.facts import model_identity, weights_sha256
from tinsmith.lab.service.official_client import ready
from tinsmith.lab.service.workers import workers_watched
from tinsmith.models.base import tokenizer_of
from tinsmith.ops.extension import physical_cores
from tinsmith.stats.monitors import Alarm
from tinsmith.types.disk import is_full
from tinsmith.types.errors import BackendError, ConfigError, DiskFullError, JudgeError, LostError, TaskError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.waits import STARTING, Say, ticking, unsaid

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_KEY_REFUSED: Final = (tinker.AuthenticationError, tinker.PermissionDeniedError)
_REFUSALS: Final = (*_KEY_REFUSED, tinker.BadRequestError, tinker.NotFoundError, tinker.UnprocessableEntityError)
"""Errors of a server that is there, and will not do what it is asked."""


_LONG_MINUTES: Final = 1.0  # A run that takes longer is forecast beside other work.


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted:
    """A run that came to its end, or to where it was to stop."""

    folder: Path
    finished: Selected | None  # None: it stopped before its end, at `stop_after`.
    alarms: tuple[Alarm, ...]
    tokenizer: PreTrainedTokenizerBase | None  # The model's; None: it came to its end before, and no server was asked.
    connection: Connection | None  # The one it was trained through; None as above.


def embedded_settings(plan: Plan, models: Mapping[str, str], folder: Path) -> EmbeddedSettings:
    """Return how the server of a run in `folder` is started, to train it or to ask it later."""
    keys = {**asdict(plan.engine), **asdict(plan.circumstances)}
    chosen: dict[str, Any] = {one.name: keys[one.name] for one in fields(EmbeddedSettings) if one.name in keys}
    return EmbeddedSettings(models=models, seed=seeds(plan)["server"], state=folder / STATE, **chosen)


def conduct(
    plan: Plan,
    *,
    say: Say,
    materials: Materials | None = None,
    like: Manifest | None = None,
    reached: Reached | None = None,
    through: Connection | None = None,
    stays: bool = False,
) -> Conducted:
    """Run an experiment to its end, and leave its folder; one to resume that came to its end stays as it is.

    Without `materials` what the plan names is gathered. `like` is an earlier run's manifest: another model than that is
    refused. `reached` is told where the run stands after each evaluation. It trains `through` an open connection, which
    stays open; `stays` leaves its own open for whoever asks the trained model, and closes it.
    """
    where, interrupts = plan.circumstances, Interrupts()
    if where.log_path is None:
        raise ConfigError("a run needs a folder (log_path)", field="log_path", fix="log_path=DIR")
    with interrupts.noticed():
        require_possible(plan)
        if_exists = settle(where.log_path, where.behavior_if_log_dir_exists)
        materials = _gathered(plan, if_exists, say) if materials is None else replace(materials, plan=plan)
        # What a reward makes optimal is computed for these lines.
        with ticking(f"{STARTING}checking settings and reward", say):
            for line in () if say is unsaid else (*place_limits(plan), *unusual(plan), *materials.run_data.before()):
                say(line)
        if resumes := if_exists is IfExists.RESUME:
            if (done := _finished_before(where.log_path, materials)) is not None:
                return done
            require_same_run(RunFolder(where.log_path).manifest(), materials)
        # The folder comes first: a run that may not begin there starts no server.
        folder, mark = RunFolder.begin(where.log_path, config_of(materials), if_exists=if_exists)
        began, connection = time.perf_counter(), through
        try:
            embedded = embedded_settings(plan, materials.models, folder.path)
            connection = connection or open_connection(where.base_url, embedded, say)
            minutes = materials.run_data.minutes()
            is_long = minutes is not None and minutes > _LONG_MINUTES and not where.quiet
            slower = slowdown(where.threads or physical_cores()) if is_long else 1.0  # Other work beside a long run.
            done = _conduct(materials, folder, mark, connection, like, reached, interrupts, slower, say)
        except BaseException as error:
            if connection is not None:
                (connection.abandon if isinstance(error, KeyboardInterrupt) else connection.close)()
            if mark is None and not resumes and (isinstance(error, ConfigError) or not folder.read_json(MANIFEST)):
                folder.abandon()  # nothing was run: the next command finds the folder free
            raise
        finally:
            folder.close()
        if mark is None and done.finished is not None and through is None:
            minutes = materials.run_data.minutes()  # anew: runs beside it may have corrected the forecast meanwhile
            remember(plan, minutes and 60 * minutes * slower, time.perf_counter() - began)
        if done.finished is None:
            further = f"; {going_on(plan)}" if like is None else ""  # a replay that stops has done all it was to do
            say(f"stopped after step {where.stop_after} of {plan.settings.steps}, by stop_after{further}")
    if not stays and through is None:
        connection.close()
    return done


def _gathered(plan: Plan, if_exists: IfExists, say: Say) -> Materials:
    with ticking(f"{STARTING}reading the items", say):
        data = plan.experiment.subject.run_data(plan, say)
        if say is not unsaid and if_exists is not IfExists.RESUME:
            # What a missing base is measured by, runs are.
            base, taken = sum(data.missing_base().values()), data.minutes()
            if taken is not None and (base or taken > _LONG_MINUTES):
                say(f"{'a small base, then ' if base else ''}the run: {time_and_disk(taken + base, RUN_MEGABYTES)}")
    return with_model(plan, data, say)


def _conduct(
    materials: Materials,
    folder: RunFolder,
    mark: Mark | None,
    connection: Connection,
    like: Manifest | None,
    reached: Reached | None,
    interrupts: Interrupts,
    slower: float,
    say: Say,
) -> Conducted:
    plan = materials.plan
    with ticking("asking the server for the hashes of its models", say):
        beside = {name: model_identity(connection, name) for name in materials.run_data.models()}
        manifest = manifest_of(materials, model_identity(connection, materials.model_name), beside)
    for before in (like, None if mark is None else folder.manifest()):
        if before is not None:
            require_same_models(before, msgspec.convert(manifest, Manifest))
    folder.write_json(MANIFEST, manifest)
    materials.run_data.begin(folder)
    run: Run[Any, Any] | None = None
    try:
        run = open_run(materials, folder, mark, connection, reached, interrupts, slower, say)
        with workers_watched(connection, run.teller), run.teller.ticking():
            finished = train(run)
    except KeyboardInterrupt:
        _stopped(folder, manifest, Status.INTERRUPTED)
        raise
    except DiskFullError as error:
        _stopped(folder, manifest, Status.LOST)
        where = str(plan.circumstances.log_path)
        raise LostError(error.what, field="log_path", value=where, fix=f"make room; {going_on(plan)}") from error
    except (tinker.TinkerError, BackendError, JudgeError, TaskError, TimeoutError) as error:
        _stopped(folder, manifest, Status.LOST)
        failure = _ended_by(error, materials, connection, run)
        raise failure from None if isinstance(failure, ConfigError) else error
    finally:
        if run is not None:
            run.teller.close()
            run.course.subject.close()
    assert run is not None
    alarms, tokenizer = run.alarms, _tokenizer(materials, run.trainer)
    folder.write_json(MANIFEST, {**manifest, **_ended(folder, finished, alarms, connection)})
    if finished is None:
        interrupts.end()
    return Conducted(folder=folder.path, finished=finished, alarms=alarms, tokenizer=tokenizer, connection=connection)


def _stopped(folder: RunFolder, manifest: Mapping[str, object], status: Status) -> None:
    """Write why a run stopped, where there is room for it; its lock, which is free then, says that it did."""
    with suppress(DiskFullError):
        folder.write_json(MANIFEST, {**manifest, "status": status.value})


def open_run(
    materials: Materials,
    folder: RunFolder,
    mark: Mark | None,
    connection: Connection,
    reached: Reached | None = None,
    interrupts: Interrupts | None = None,
    slower: float = 1.0,
    say: Say = unsaid,
) -> Run[Any, Any]:
    """Return the run where it stands: at its beginning, or at a checkpoint.

    It is forecast to take `slower` times as long as on a machine without other work.
    """
    plan, service = materials.plan, connection.client
    settings, where = plan.settings, plan.circumstances

    def begin(agent: int) -> tinker.TrainingClient:
        seed = seeds(plan)["adapter"]
        own = derive(seed, "agent", agent) % 2**SEED_BITS if agent else seed
        return new_adapter(service, materials.model_name, settings, own)

    # The wait ends before the run's table opens, which would print what clears the wait's line.
    with ticking("creating the adapter", say):
        if mark is None:
            trainers = [begin(0)]
        else:
            loaded = [service.create_training_client_from_state_with_optimizer(one) for one in mark.state_path.split()]
            trainers = [ready(one, WAIT_SECONDS) for one in loaded]
        tokenizer = _tokenizer(materials, trainers[0])
        course = cast("Course[Any, Any]", materials.run_data.course(tokenizer, folder, connection))
    name, minutes = plan.experiment.name, materials.run_data.minutes()
    sinks = sinks_for(
        name=where.wandb_name or name,
        wandb_project=where.wandb_project,
        trackio_project=where.trackio_project,
        folder=folder.path,
    )
    run = Run(
        service=service,
        trainer=trainers[0],
        model_name=materials.model_name,
        course=course,
        agents=Agents(trainers, course.agents, begin),
        settings=settings,
        folder=folder,
        teller=Teller(name=name, steps=settings.steps, sinks=sinks, quiet=where.quiet),
        connection=connection,
        stop_after=where.stop_after,
        interrupts=interrupts or Interrupts(),
        forecast=minutes and (60 * minutes - start_seconds()) * slower,
        reached=reached,
    )
    if mark is not None:
        run.resume(mark)
    return run


def _tokenizer(materials: Materials, trainer: tinker.TrainingClient) -> PreTrainedTokenizerBase:
    """Return the tokenizer of the model that is trained; one that is here is read once, and nobody is asked."""
    source = materials.models.get(materials.model_name)
    return trainer.get_tokenizer() if source is None else _read_once(source)


_read_once: Final = cache(tokenizer_of)


def _ended_by(
    error: Exception, materials: Materials, connection: Connection, run: Run[Any, Any] | None
) -> LostError | ConfigError:
    """Return what is said of a run that did not come to its end, and how it goes on."""
    when = "before the first step" if run is None else f"at step {run.step}"
    message = next(iter(str(error).splitlines()), type(error).__name__)
    plan, what = materials.plan, f"the server was lost {when}: {message}"
    fix = f"{'make room; ' if is_full(error) else ''}{going_on(plan)}"
    if isinstance(error, JudgeError):
        what = f"the judge failed on every answer {when}: {error.what}"
        fix = f"repair the judge; {fix}"
    elif NOT_FINITE in message:
        what = f"training diverged {when}: {message}"
        fix = "begin again with a lower learning_rate, in another folder (log_path=NEW)"
    elif isinstance(error, TaskError):
        what = f"a function of the task failed on every rollout {when}: {error.what}"
        fix = f"correct the file, which begins a new run; if the cause is outside the file, {fix}"
    elif isinstance(error, _REFUSALS):
        died = connection.server is not None and not connection.server.alive
        if not died and (run is None or isinstance(error, _KEY_REFUSED)):
            return _refused(materials, error)
    return LostError(what, field="log_path", value=str(plan.circumstances.log_path), fix=fix)


def _refused(materials: Materials, error: tinker.APIError) -> ConfigError:
    """Return what is said where a server would not begin: the user's mistake, and not a lost server.

    Further lines of the server's answer are taken by their names where they have one.
    """
    base_url, body = materials.plan.circumstances.base_url, error.body
    if isinstance(error, _KEY_REFUSED) and base_url is not None:
        return wrong_key(base_url)
    message = cast(Mapping[str, object], body).get("error") if isinstance(body, dict) else None
    what, *others = (message if isinstance(message, str) and message else str(error)).splitlines()
    named = dict(line.strip().split(": ", 1) for line in others if ": " in line)
    what = f"the server refuses this run: {what}"
    fix = named.get("do", "use a model that the server has, and an adapter that it trains")
    return ConfigError(what, field="model_name", value=materials.model_name, allowed=named.get("allowed"), fix=fix)


def _ended(
    folder: RunFolder, finished: Selected | None, alarms: tuple[Alarm, ...], connection: Connection
) -> dict[str, object]:
    """Return what a manifest says of a run's end: how, what came out, and the hashes a repeated run has to give."""
    record: dict[str, object] = {"alarms": [asdict(alarm) for alarm in alarms], "trace_links": folder.links(TRACE)}
    record["ended"] = datetime.now(UTC).date().isoformat()
    if finished is None:
        return {"status": Status.INTERRUPTED.value, **record, "hashes": folder.hashes()}
    return {
        "status": Status.FINISHED.value,
        **record,
        "selected": msgspec.to_builtins(finished),
        "hashes": {"weights_sha256": weights_sha256(connection, finished.final_path), **folder.hashes()},
    }


def _finished_before(path: Path, materials: Materials) -> Conducted | None:
    manifest = RunFolder(path).manifest()
    same = manifest.identity_sha256 == sha256_of(identity_of(materials))
    if not same or manifest.status != Status.FINISHED.value or manifest.selected is None:
        return None
    require_same_base(manifest, materials)
    return Conducted(
        folder=path,
        finished=manifest.selected,
        alarms=msgspec.convert(manifest.alarms, tuple[Alarm, ...], from_attributes=True),
        tokenizer=None,
        connection=None,
    )


def going_on(plan: Plan) -> str:
    """Say how a run goes on that did not come to its end."""
    chosen = plan.circumstances.behavior_if_log_dir_exists
    goes_on = chosen in (IfExists.RESUME, IfExists.RESUME_INTERRUPTED, IfExists.ASK)
    with_what = "" if goes_on else " with behavior_if_log_dir_exists=resume"
    return f"the same command{with_what} goes on from the last checkpoint"


def how_to_go_on(plan: Plan) -> str:
    """Say what an interrupted command left, and how to go on."""
    folder = plan.circumstances.log_path
    if folder is None or not holds_run(folder):
        return "nothing was begun; the same command starts the run"
    marks = RunFolder(folder).marks()
    if not marks:
        begins = going_on(plan).replace("goes on from the last checkpoint", "begins again")
        return f"{folder} has no checkpoint yet; {begins}"
    return f"{folder} has the checkpoint of step {marks[-1].step}; {going_on(plan)}"
