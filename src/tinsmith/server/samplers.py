"""Sampling sessions: from a base, a checkpoint or a snapshot; their requests' seeds and order.

An unseeded request's seed is derived from the server's seed, the weights, the prompt, the parameters and how often just
that was asked before, counted in the client's own numbering; so an unseeded script repeats on a fresh server.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from tinsmith.engine.checkpoints import load_adapter, read
from tinsmith.engine.engine import Engine, parse_model_name
from tinsmith.engine.sequences import Group, Policy
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.engine.validation import check_request
from tinsmith.server.conversions import to_sample_request
from tinsmith.server.futures import Futures
from tinsmith.server.lanes import SAMPLING_BLOCK, Job, Lane
from tinsmith.server.messages import CONTENT_TYPE
from tinsmith.server.records import Finished, SamplingSession
from tinsmith.server.requests import CreateSamplingSession, Sample
from tinsmith.server.results import encode_sample
from tinsmith.server.runs import Runs
from tinsmith.server.store import Store
from tinsmith.server.worker import Worker
from tinsmith.types.errors import InputError, TinsmithError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

logger = logging.getLogger(__name__)

GAP_SECONDS = 5.0
"""A number that has not come after so long was given up by its client; what waits for it goes on."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Weights to sample from, and their identity."""

    policy: Policy
    weights: str


@dataclass(slots=True)
class _Live:
    """One sampling session in memory."""

    record: SamplingSession
    name: str
    loaded: Future[_Loaded]
    lanes: dict[int, Lane] = field(default_factory=dict[int, Lane])


@dataclass(slots=True)
class Samplers:
    """All sampling sessions. Methods are called on the event loop unless they say otherwise."""

    engine: Engine
    store: Store
    futures: Futures
    worker: Worker
    state: Path
    seed: int
    loop: asyncio.AbstractEventLoop
    live: dict[str, _Live] = field(default_factory=dict[str, _Live])
    under_way: dict[int, tuple[str, Sample, Group]] = field(
        default_factory=dict[int, tuple[str, Sample, Group]]
    )
    """Sampling requests by their group's id: touched on the compute thread only."""

    async def create(self, request: CreateSamplingSession, runs: Runs) -> str:
        """Open a session on a base model or a checkpoint, and load it.

        Raises:
            InputError, ConfigError, CheckpointError: the model or checkpoint is not to be had.
        """
        base_model = request.base_model
        if request.model_path is not None:
            path = TinkerPath.parse(request.model_path)
            checkpoint = await asyncio.wrap_future(
                self.worker.call(lambda: read(path.folder(self.state)))
            )
            name = runs.served_base(checkpoint)
            record = self.store.checkpoint(path)
            base_model = record.base_model if record else name
        assert base_model is not None, "checked by the request"
        self.engine.base(parse_model_name(base_model)[0])
        session = self.store.create_sampling_session(
            session_id=request.session_id,
            sampling_session_seq_id=request.sampling_session_seq_id,
            base_model=base_model,
            model_path=request.model_path,
        )
        live = self._open(session)
        await asyncio.wrap_future(live.loaded)
        return session.sampling_session_id

    def hold_snapshot(
        self, session_id: str, seq: int, name: str, policy: Policy, weights: str
    ) -> str:
        """Open a session on weights in memory. Called on the compute thread."""
        session = self.store.create_sampling_session(
            session_id=session_id, sampling_session_seq_id=seq, base_model=name, snapshot=True
        )
        loaded: Future[_Loaded] = Future()
        loaded.set_result(_Loaded(policy, weights))
        self.live[session.sampling_session_id] = _Live(session, name, loaded)
        return session.sampling_session_id

    def sample(self, request: Sample) -> tuple[str, list[str]]:
        """Accept a sampling request; return its id and one id per sequence.

        Raises:
            InputError: for a request that cannot be served; its number is counted all the same.
        """
        live = self._live(request.sampling_session_id)
        lane = live.lanes.setdefault(
            request.seq_id // SAMPLING_BLOCK,
            Lane(request.seq_id // SAMPLING_BLOCK * SAMPLING_BLOCK),
        )
        try:
            check_request(to_sample_request(request, seed=0), self.engine.config(live.name))
        except TinsmithError:
            self._post(lane.skip(request.seq_id))
            raise
        request_id, new = self.futures.accept(
            owner=request.sampling_session_id, seq_id=request.seq_id, kind="sample"
        )
        if new:
            job = self._job(live, request, request_id)
            if request.sampling_params.seed is None:
                self._post(lane.add(request.seq_id, job))
                if lane.waiting:
                    self.loop.call_later(GAP_SECONDS, self._close_gap, lane, lane.next_seq)
            else:
                self.worker.post(job)
                self._post(lane.skip(request.seq_id))
        return request_id, [f"{request_id}:{i}" for i in range(request.num_samples)]

    def record(self, sampling_session_id: str) -> SamplingSession:
        """What a sampling session samples from.

        Raises:
            InputError: there is none.
        """
        record = self.store.sampling_session(sampling_session_id)
        if record is None:
            raise InputError(
                "there is no such sampling session",
                field="sampling_session_id",
                value=sampling_session_id,
                fix="create a sampling client first, on this server",
            )
        return record

    def finished(self, group: Group) -> None:
        """Settle a request whose samples have ended. Called on the compute thread."""
        request_id, request, _ = self.under_way.pop(id(group))
        if group.failure is not None or group.result is None:
            self.futures.fail(request_id, group.failure or InputError("the request was dropped"))
            return
        body = encode_sample(group.result, prompt_logprobs_last_n=request.prompt_logprobs_last_n)
        self.futures.finish(request_id, Finished(body=body, media_type=CONTENT_TYPE))

    def _job(self, live: _Live, request: Sample, request_id: str) -> Job:
        """The submission to the engine's sampler, on the compute thread."""

        def job() -> None:
            try:
                loaded = live.loaded.result()
                asked = to_sample_request(request, seed=self._seed(live, request, loaded.weights))
                group = self.engine.sampler(live.name).submit(asked, loaded.policy)
                self.under_way[id(group)] = (request_id, request, group)
            except TinsmithError as error:
                self.futures.fail(request_id, error)

        return job

    def _seed(self, live: _Live, request: Sample, weights: str) -> int:
        if request.sampling_params.seed is not None:
            return 0
        asked = request.model_dump(mode="json", exclude={"sampling_session_id", "seq_id"})
        key = sha256_of({"base": live.record.base_model, "weights": weights, "asked": asked})
        return derive(self.seed, "sample", key, self.store.occurrence(key))

    def _live(self, sampling_session_id: str) -> _Live:
        if sampling_session_id in self.live:
            return self.live[sampling_session_id]
        record = self.record(sampling_session_id)
        if record.snapshot:
            raise InputError(
                "this snapshot was held in memory, and the server was restarted",
                field="sampling_session_id",
                value=sampling_session_id,
                fix="save the weights with a name to sample from them after a restart",
            )
        return self._open(record)

    def _open(self, record: SamplingSession) -> _Live:
        """Load a session's weights on the compute thread; a session that was opened before goes on."""
        name, kind = parse_model_name(record.base_model)

        def load() -> _Loaded:
            if record.model_path is None:
                policy = self.engine.base_policy(name, quantised=kind.quantised)
                return _Loaded(policy, self.engine.base(name).fingerprint)
            checkpoint = read(TinkerPath.parse(record.model_path).folder(self.state))
            adapter = load_adapter(
                self.engine.decoder(name, quantised=checkpoint.spec.kind.quantised),
                checkpoint,
                base=self.engine.base(name),
            )
            return _Loaded(Policy(adapter.decoder, adapter.low), sha256_of(dict(checkpoint.files)))

        if record.sampling_session_id not in self.live:
            live = _Live(record, name, self.worker.call(load))
            for seq in self.store.seq_ids(record.sampling_session_id):
                live.lanes.setdefault(
                    seq // SAMPLING_BLOCK, Lane(seq // SAMPLING_BLOCK * SAMPLING_BLOCK)
                ).skip(seq)
            self.live[record.sampling_session_id] = live
        return self.live[record.sampling_session_id]

    def _post(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.worker.post(job)

    def _close_gap(self, lane: Lane, expected: int) -> None:
        if lane.next_seq == expected and lane.waiting:
            logger.warning("request %d never came; what waits for it goes on", expected)
            self._post(lane.close_gap())
