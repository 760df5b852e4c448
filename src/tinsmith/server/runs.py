"""Training runs in memory: their creation and loading, requests in order, saves and snapshots."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoints import Checkpoint, load_session, read, restore, save
from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import Adapter, check_router
from tinsmith.server.access.caller import caller, caller_limits, is_own, owner_of, without_owner
from tinsmith.server.custom_losses import CustomLosses
from tinsmith.server.database.records import Finished
from tinsmith.server.database.store import Store
from tinsmith.server.external import External
from tinsmith.server.futures import Futures, json_result
from tinsmith.server.lanes import Job, Lane
from tinsmith.server.weights import named_by_path
from tinsmith.server.wire.conversions import to_adam, to_adapter_spec
from tinsmith.server.wire.messages import CONTENT_TYPE
from tinsmith.server.wire.places import Place
from tinsmith.server.wire.requests import (
    CreateModel,
    LoadWeights,
    OptimStep,
    SaveWeights,
    SaveWeightsExternal,
    SaveWeightsForSampler,
)
from tinsmith.server.wire.results import encode_forward_backward
from tinsmith.server.wire.training_request import ForwardBackwardCall
from tinsmith.server.worker import Worker
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, ConfigError, DiskFullError, InputError, TinsmithError
from tinsmith.types.model_names import ModelName
from tinsmith.types.seeds import derive

logger = logging.getLogger(__name__)

GAP_SECONDS = 120.0
"""Seconds that a request waits for a missing earlier one; a large batch's chunks arrive one after another."""

Snapshot = Callable[[str, int, str, Adapter, str | None], str]
"""Function (session id, sampling_session_seq_id, base name, weights, followed model) -> sampling session id."""


@dataclass(slots=True)
class LiveRun:
    """Model in training."""

    model_id: str
    name: str
    """Name of the served base model, without suffix."""
    spec: AdapterSpec
    lane: Lane
    session: TrainingSession | None = None
    """Training session; None until it is created on the compute thread."""
    waiting: dict[int, str] = field(default_factory=dict[int, str])
    """Ids of the requests that wait for an earlier one, by number."""


@dataclass(slots=True)
class Runs:
    """Models in training. Methods are called on the event loop; computations are posted to the worker."""

    engine: Bases
    store: Store
    futures: Futures
    worker: Worker
    state: Path
    seed: int
    live: dict[str, LiveRun]
    snapshot: Snapshot
    external: External
    losses: CustomLosses
    loop: asyncio.AbstractEventLoop
    gap_seconds: float = GAP_SECONDS
    unit_hashes: bool = False
    """True if a model's trace digests each gradient unit."""
    num_steps: int = 0
    """Optimizer steps so far, counted on the compute thread, as is the next field."""
    num_tokens: int = 0
    """Target tokens of the training and forward requests executed so far."""

    def create(self, request: CreateModel) -> tuple[str, str]:
        """Create a model; return (request id, model id). A retry returns those of the first request.

        Raises:
            InputError, ConfigError: for an unavailable model or adapter; nothing was created.
        """
        parsed = ModelName.parse(request.base_model)
        self.engine.base(parsed.base)
        self.engine.check_kind(parsed.kind)
        model_id = _model_id(request)
        self._require_room(model_id, "create_model")
        seed = derive(self.seed, "adapter", without_owner(model_id)) >> 1
        spec = to_adapter_spec(
            request.lora_config, kind=parsed.kind, alpha=parsed.alpha, router=parsed.router, seed=seed
        )
        check_router(spec, self.engine.config(parsed.base))
        make = partial(self.engine.create_session, parsed.base, spec)
        return self._begin(request, "create_model", request.base_model, spec, make), model_id

    def created_before(self, request: LoadWeights) -> tuple[str, str] | None:
        """Return what `create_from` did for the same request earlier; its checkpoint may be gone.

        Raises:
            InputError: the number was used for another request.
        """
        model_id = _model_id(request)
        request_id = self.futures.repeated(owner=model_id, seq_id=0, kind="load_weights")
        return None if request_id is None else (request_id, model_id)

    def create_from(self, request: LoadWeights, checkpoint: Checkpoint) -> tuple[str, str]:
        """Create a model from a checkpoint; return (request id, model id).

        Raises:
            InputError, ConfigError, CheckpointError: the checkpoint's base is not served, or not the requested one.
        """
        own, spec = self.served_name(checkpoint, request.base_model), checkpoint.spec
        name, base_model = own.base, str(own)
        self.engine.check_kind(spec.kind)
        model_id = _model_id(request)
        self._require_room(model_id, "load_weights")

        def make() -> TrainingSession:
            with named_by_path(request.path, self.state):
                return load_session(
                    self.engine.decoder(name, quantised=spec.kind.quantised),
                    checkpoint,
                    base=self.engine.base(name),
                    with_optimizer=request.optimizer,
                )

        return self._begin(request, "load_weights", base_model, spec, make, path=request.path), model_id

    def _begin(
        self,
        request: CreateModel | LoadWeights,
        kind: str,
        base_model: str,
        spec: AdapterSpec,
        make: Callable[[], TrainingSession],
        **answer: str,
    ) -> str:
        """Record a model, and let the compute thread make its session; return the request's id."""
        assert request.session_id is not None
        assert request.model_seq_id is not None
        model_id = _model_id(request)
        self.store.create_training_run(
            session_id=request.session_id,
            model_seq_id=request.model_seq_id,
            base_model=base_model,
            spec=spec,
            user_metadata=request.user_metadata,
        )
        request_id, new = self.futures.accept(owner=model_id, seq_id=0, kind=kind)
        if new:
            run = self.live[model_id] = LiveRun(model_id, ModelName.parse(base_model).base, spec, Lane(1))

            def compute() -> Finished:
                try:
                    session = make()
                    session.trace = Trace(self.engine.kernels, marks_units=self.unit_hashes)
                    self.engine.prepare(session)
                except BaseException:
                    self.loop.call_soon_threadsafe(self.live.pop, model_id, None)
                    raise
                run.session = session
                return json_result({**answer, "model_id": model_id, "type": kind})

            self.worker.post(lambda: self.futures.run(request_id, compute))
        return request_id

    def served_name(self, checkpoint: Checkpoint, requested: str | None) -> ModelName:
        """Return the name of a checkpoint's base and adapter, which a request may repeat.

        Raises:
            InputError: another one is requested.
            CheckpointError: no served base computes the same function.
        """
        spec = checkpoint.spec
        own = ModelName(base=self.served_base(checkpoint), kind=spec.kind, alpha=spec.alpha, router=spec.train_router)
        if requested is not None and ModelName.parse(requested) != own:
            raise InputError(
                "the checkpoint was trained on another base model",
                field="base_model",
                value=requested,
                allowed=str(own),
            )
        return own

    def served_base(self, checkpoint: Checkpoint) -> str:
        """Return the served name of the base that a checkpoint was trained on.

        Raises:
            CheckpointError: no served base computes the same function.
        """
        for name in self.engine.names:
            if self.engine.base(name).fingerprint == checkpoint.base.fingerprint:
                return name
        raise CheckpointError(
            "the base model of this checkpoint is not served here",
            field="base",
            value=checkpoint.base.name,
            allowed=", ".join(self.engine.names),
            fix="start the server with --model NAME=PATH of that base model",
        )

    async def read_checkpoint(self, text: str) -> Checkpoint:
        """Read a checkpoint by its tinker:// path, on the compute thread.

        Raises:
            InputError, CheckpointError: it does not exist, or is damaged.
        """
        path = TinkerPath.parse(text)
        reader = caller()
        found = self.worker.call(lambda: read(self.store.require_checkpoint(path, reader=reader)))
        with named_by_path(text, self.state):
            return await asyncio.wrap_future(found)

    def forward_backward(self, call: ForwardBackwardCall) -> str:
        """Compute a loss and, unless forward only, add its gradient."""

        def compute(run: LiveRun, session: TrainingSession) -> Finished:
            del run
            loss, settings = self.losses.named(call.model_id, call.loss_fn, call.loss_fn_config)
            carry_out = session.forward if call.forward_only else session.forward_backward
            result = carry_out(call.datums, loss, settings)
            self.num_tokens += sum(output.logprobs.size for output in result.outputs)
            body = encode_forward_backward(result.outputs, result.metrics, "logprobs")
            return Finished(body=body, media_type=CONTENT_TYPE)

        kind = "forward" if call.forward_only else "forward_backward"
        return self._submit(call.model_id, call.seq_id, kind, compute, num_bytes=call.num_bytes)

    def optim_step(self, request: OptimStep) -> str:
        """Step with the accumulated gradient."""
        params = to_adam(request)

        def compute(run: LiveRun, session: TrainingSession) -> Finished:
            del run
            metrics = session.optim_step(params)
            self.num_steps += 1
            return json_result({"metrics": metrics, "type": "optim_step"})

        return self._submit(request.model_id, request.seq_id, "optim_step", compute)

    def trace(self, model_id: str, after: int) -> tuple[StepTrace, ...]:
        """Return the traced optimizer steps of a model in memory after number `after`.

        Raises:
            InputError, ConfigError: the model is not in memory.
        """
        session = self._run(model_id).session
        return () if session is None or session.trace is None else session.trace.after(after)

    def save(self, request: SaveWeights) -> str:
        """Save weights and the optimizer's state."""
        path = TinkerPath(
            session=request.model_id, kind=CheckpointKind.WEIGHTS, name=request.path or f"checkpoint-{request.seq_id}"
        )

        def compute(run: LiveRun, session: TrainingSession) -> Finished:
            self._write(run, session, path, request, overwrite=request.overwrite)
            return json_result({"path": str(path), "type": "save_weights"})

        return self._submit(request.model_id, request.seq_id, "save_weights", compute)

    def save_for_sampler(self, request: SaveWeightsForSampler) -> str:
        """Save weights for sampling, or hold a snapshot of them in memory as a sampling session."""
        kind = "save_weights_for_sampler"
        if request.path is not None:
            path = TinkerPath(session=request.model_id, kind=CheckpointKind.SAMPLER_WEIGHTS, name=request.path)

            def named(run: LiveRun, session: TrainingSession) -> Finished:
                self._write(run, session, path, request, overwrite=False)
                return json_result({"path": str(path), "type": kind})

            return self._submit(request.model_id, request.seq_id, kind, named)
        seq = request.sampling_session_seq_id
        assert seq is not None, "checked by the request"

        def held(run: LiveRun, session: TrainingSession) -> Finished:
            owner = run.model_id.rpartition(":train:")[0]
            follows = run.model_id if request.kind == "inflight" else None
            adapter = session.adapter.snapshot()
            sampler = self.snapshot(owner, seq, run.name, adapter, follows)
            return json_result({"sampling_session_id": sampler, "type": kind})

        return self._submit(request.model_id, request.seq_id, kind, held)

    def save_external(self, request: SaveWeightsExternal) -> str:
        """Export weights in a public format.

        Raises:
            InputError: for an unsupported option.
        """
        if request.age_encryption_recipients or request.ttl_seconds is not None:
            raise InputError(
                "exports here cannot be encrypted and do not expire",
                field="age_encryption_recipients, ttl_seconds",
                allowed="none",
            )

        def compute(run: LiveRun, session: TrainingSession) -> Finished:
            base_name = self.engine.base(run.name).name
            path = self.external.save(session, run.model_id, request.path, base_name)
            return json_result({"path": path, "type": "save_weights_external"})

        return self._submit(request.model_id, request.seq_id, "save_weights_external", compute)

    def load_into(self, request: LoadWeights) -> str:
        """Load a checkpoint into an existing model."""
        assert request.model_id is not None
        assert request.seq_id is not None

        reader = caller()

        def compute(run: LiveRun, session: TrainingSession) -> Finished:
            path = TinkerPath.parse(request.path)
            with named_by_path(request.path, self.state):
                checkpoint = read(self.store.require_checkpoint(path, reader=reader))
                base = self.engine.base(run.name)
                restore(session, checkpoint, base=base, with_optimizer=request.optimizer)
            return json_result({"path": request.path, "model_id": run.model_id, "type": "load_weights"})

        return self._submit(request.model_id, request.seq_id, "load_weights", compute)

    def of_session(self, session_id: str) -> list[str]:
        """Return the ids of a session's models in memory."""
        return sorted(each for each in self.live if each.rpartition(":train:")[0] == session_id)

    def count_refused(self, place: Place, error: TinsmithError) -> None:
        """Mark a refused request's number as used, unless it was used before; on a full disk it may come again."""
        run = self.live.get(place.owner)
        if run is None or not is_own(place.owner):
            return
        full = isinstance(error, DiskFullError)
        try:
            counted = not full and self.store.refuse(owner=place.owner, seq_id=place.seq_id, message=str(error))
        except DiskFullError:
            self._release(run, run.lane.excuse(place.seq_id))
            raise
        if full or counted:
            self._release(run, (run.lane.excuse if full else run.lane.skip)(place.seq_id))

    def unload(self, model_id: str, job: Job) -> None:
        """Free a model's memory after its earlier requests; it accepts no more."""
        run = self.live.pop(model_id, None)
        if run is None:
            self.worker.post(job)
            return
        self._release(run, run.lane.append(job))

    def _write(
        self,
        run: LiveRun,
        session: TrainingSession,
        path: TinkerPath,
        request: SaveWeights | SaveWeightsForSampler,
        *,
        overwrite: bool,
    ) -> None:
        record = self.store.training_run(run.model_id)
        with self.store.changing_checkpoints:
            with self.store.overwriting(path) if overwrite else nullcontext():
                save(
                    session,
                    path.folder(self.state),
                    base=self.engine.base(run.name),
                    with_optimizer=path.kind is CheckpointKind.WEIGHTS,
                    overwrite=overwrite,
                    user_metadata=request.user_metadata,
                )
            self.store.record_checkpoint(
                path,
                base_model=record.base_model if record else run.name,
                rank=None if run.spec.kind is AdapterKind.FULL else run.spec.rank,
                ttl_s=request.ttl_seconds,
                user_metadata=request.user_metadata,
            )

    def _require_room(self, model_id: str, kind: str) -> None:
        """Reject a new model, before it is recorded, if its key has reached a limit on models or requests."""
        if is_own(model_id) and self.futures.repeated(owner=model_id, seq_id=0, kind=kind) is None:
            name = owner_of(model_id)
            caller_limits().check_models(sum(owner_of(each) == name for each in self.live))
            self.futures.require_room(model_id, kind)

    def _run(self, model_id: str) -> LiveRun:
        if model_id in self.live and is_own(model_id):
            return self.live[model_id]
        record = self.store.training_run(model_id)
        if record is None:
            raise ConfigError("there is no such model", field="model_id", value=model_id)
        raise InputError(
            "this model is not in memory: it could not be made, was unloaded, its session has ended, or the server was"
            " restarted",
            field="model_id",
            value=model_id,
            fix="create a training client from one of its checkpoints",
        )

    def _submit(
        self,
        model_id: str,
        seq_id: int,
        kind: str,
        compute: Callable[[LiveRun, TrainingSession], Finished],
        *,
        num_bytes: int = 0,
    ) -> str:
        repeated = self.futures.repeated(owner=model_id, seq_id=seq_id, kind=kind)
        if repeated is not None:
            return repeated  # its result may outlive the model
        run = self._run(model_id)
        request_id, new = self.futures.accept(owner=model_id, seq_id=seq_id, kind=kind, num_bytes=num_bytes)
        if new and seq_id < run.lane.next_seq and seq_id not in run.lane.excused:
            self._fail(request_id, _gap(seq_id, "it came too late: the requests after it were given up"))
        elif new:

            def with_session() -> Finished:
                if run.session is None:
                    raise InputError("the model could not be made", field="model_id", value=model_id)
                return compute(run, run.session)

            def job() -> None:
                self.futures.run(request_id, with_session)
                self.store.mark_applied(model_id, seq_id)

            self._add(run, seq_id, request_id, job)
        return request_id

    def _add(self, run: LiveRun, seq_id: int, request_id: str, job: Job) -> None:
        """Queue a request by its number, with a time limit on the wait for earlier ones."""
        ready = run.lane.add(seq_id, job)
        if seq_id in run.lane.waiting:
            run.waiting[seq_id] = request_id
        self._release(run, ready)

    def _release(self, run: LiveRun, jobs: list[Job]) -> None:
        """Post the requests that may run now, and set a time limit for the number that others wait for."""
        for seq in [seq for seq in run.waiting if seq < run.lane.next_seq] if jobs else ():
            del run.waiting[seq]
        for job in jobs:
            self.worker.post(job)
        if run.lane.waiting:
            self.loop.call_later(self.gap_seconds, self._give_up, run, run.lane.next_seq)

    def _give_up(self, run: LiveRun, expected: int) -> None:
        """Fail the requests that wait for a missing number: continuing without it would train another model."""
        if run.lane.next_seq != expected or not run.lane.waiting:
            return
        logger.warning("%s: request %d never came; what waits for it fails", run.model_id, expected)
        for seq, job in run.lane.give_up():
            if seq in run.waiting:
                reason = f"request {expected} of this model never reached the server"
                self._fail(run.waiting.pop(seq), _gap(seq, reason))
            else:
                self.worker.post(job)  # an unload request is still wanted

    def _fail(self, request_id: str, error: InputError) -> None:
        """Fail a request on the compute thread, since that waits for the disk."""
        self.worker.post(lambda: self.futures.fail(request_id, error))


def _model_id(request: CreateModel | LoadWeights) -> str:
    return f"{request.session_id}:train:{request.model_seq_id}"


def _gap(seq_id: int, reason: str) -> InputError:
    return InputError(
        f"nothing was computed: {reason}",
        field="seq_id",
        value=seq_id,
        fix="load the last checkpoint and go on from there",
    )
