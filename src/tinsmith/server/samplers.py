"""Sampling sessions: on a base, a checkpoint or a snapshot; with the seeds and order of their requests.

An unseeded request's seed is derived from the server's seed, the weights, the prompt, the parameters and the number of
earlier equal requests, in the order of the client's numbering; so an unseeded script repeats on a fresh server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoints import read
from tinsmith.engine.sequences import Group, Policy
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.models.adapter import Adapter
from tinsmith.models.slots import values
from tinsmith.server.access.caller import DEFAULT, caller, caller_limits, is_own, owner_of
from tinsmith.server.access.turns import Turns
from tinsmith.server.database.records import Finished, NoResult, SamplingSession
from tinsmith.server.database.store import Store
from tinsmith.server.futures import SAMPLE, Futures
from tinsmith.server.lanes import SAMPLING_BLOCK, Job, Lane
from tinsmith.server.live_samplers import GroupDone, LiveSampler, UnderWay
from tinsmith.server.runs import Runs
from tinsmith.server.sampling_requests import checked, num_drawn, outcome_of, size_of
from tinsmith.server.snapshots import Snapshots
from tinsmith.server.weights import Loaded, adapter_of, check_name, load_base, named_by_path, weights_of
from tinsmith.server.wire.conversions import to_sample_request
from tinsmith.server.wire.places import Place
from tinsmith.server.wire.requests import CreateSamplingSession, Sample
from tinsmith.server.worker import Worker
from tinsmith.types.errors import BackendError, InputError, TinsmithError
from tinsmith.types.fingerprints import sha256_of, tensors_sha256
from tinsmith.types.model_names import ModelName
from tinsmith.types.sampling import SampleRequest
from tinsmith.types.seeds import derive

logger = logging.getLogger(__name__)

GAP_SECONDS = 5.0
"""Seconds after which a missing number counts as abandoned by its client; later requests continue."""
MOST_OPEN = 65_536
"""Most open sampling sessions per key (each step of a run may open one), and most copies of their clients."""


@dataclass(slots=True)
class Samplers:
    """Sampling sessions. Methods are called on the event loop unless stated otherwise."""

    engine: Bases
    store: Store
    futures: Futures
    worker: Worker
    state: Path
    seed: int
    loop: asyncio.AbstractEventLoop
    snapshots: Snapshots
    live: dict[str, LiveSampler] = field(default_factory=dict[str, LiveSampler])
    """Sessions by id. The compute thread may add some; only the event loop removes them."""
    held: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Ids of the sessions of each key."""
    num_copies: Counter[str] = field(default_factory=Counter[str])
    """Number of client copies of each key."""
    under_way: dict[int, UnderWay] = field(default_factory=dict[int, UnderWay])
    """Sampling requests in progress by their group's id: touched on the compute thread only."""
    requested: dict[str, Group] = field(default_factory=dict[str, Group])
    """Group of each protocol request in progress: touched on the compute thread only."""
    cancelled: set[str] = field(default_factory=set[str])
    """Requests cancelled before they started: touched on the compute thread only."""
    followers: dict[str, list[LiveSampler]] = field(default_factory=dict[str, "list[LiveSampler]"])
    """Sessions that follow a model's weights, by its id: touched on the compute thread only."""
    watched: dict[int, UnderWay] = field(default_factory=dict[int, UnderWay])
    """Those whose tokens are streamed as they are drawn."""
    outcomes: list[tuple[str, Finished | TinsmithError]] = field(
        default_factory=list[tuple[str, Finished | TinsmithError]]
    )
    """Finished requests of the protocol that are not settled yet: touched on the compute thread only."""
    gap_seconds: float = GAP_SECONDS
    num_tokens: int = 0
    """Tokens drawn by finished requests, counted on the compute thread."""

    async def create(self, request: CreateSamplingSession, runs: Runs, turns: Turns) -> str:
        """Open a session on a base model or a checkpoint, and load it.

        Raises:
            InputError, ConfigError, CheckpointError: the model or checkpoint is not available, or is not the one named.
        """
        session = self._known(request) or await self._recorded(request, runs, turns)
        live = self._open(session)
        if isinstance(live.source, Future):
            await asyncio.wrap_future(live.source)
        return session.sampling_session_id

    def _known(self, request: CreateSamplingSession) -> SamplingSession | None:
        """Return the session that the same request opened before; its checkpoint may be gone."""
        known = self.store.sampling_session(f"{request.session_id}:sample:{request.sampling_session_seq_id}")
        if known is None or known.snapshot or known.model_path != request.model_path:
            return None
        return known if request.base_model in (None, known.base_model) else None

    async def _recorded(self, request: CreateSamplingSession, runs: Runs, turns: Turns) -> SamplingSession:
        """Record a session."""
        base_model, weights = request.base_model, None
        if request.model_path is not None:
            checkpoint = await runs.read_checkpoint(request.model_path)
            own = runs.served_name(checkpoint, base_model)
            record = self.store.checkpoint(TinkerPath.parse(request.model_path))
            base_model, weights = record.base_model if record else own.base, weights_of(checkpoint)
        assert base_model is not None, "checked by the request"
        check_name(self.engine, ModelName.parse(base_model))
        create = partial(
            self.store.create_sampling_session,
            session_id=request.session_id,
            sampling_session_seq_id=request.sampling_session_seq_id,
            base_model=base_model,
            model_path=request.model_path,
            weights=weights,
        )
        return await turns.run(create)  # on a thread: it waits for the disk

    def hold_snapshot(self, session_id: str, seq: int, name: str, adapter: Adapter, follows: str | None) -> str:
        """Open a session on weights in memory. Called on the compute thread.

        With `follows`, the id of a model, the session and all others that follow it use these weights from now on. A
        request uses the weights current when it enters the sampler, from its first token to its last.

        Raises:
            InputError: its key has reached the limit on sampling sessions, or the number was used before.
            DiskFullError: older weights cannot be moved to a file.
        """
        self._require_room(owner_of(session_id))
        session = self.store.create_sampling_session(
            session_id=session_id, sampling_session_seq_id=seq, base_model=name, snapshot=True
        )
        held = session.sampling_session_id
        tensors = {each: t.cpu().numpy() for each, t in values(adapter.slots).items()}
        self.snapshots.hold(held, name, adapter.spec, tensors_sha256(tensors), lambda: adapter)
        live = LiveSampler(session, name, held)
        self._keep(live)
        if follows is not None:
            others = self.followers.setdefault(follows, [])
            for old in {str(other.source) for other in others}:
                self.snapshots.forget(old)
            for other in others:
                other.source = held
            others.append(live)
        return held

    def close_session(self, session_id: str) -> None:
        """Release the weights that a session's samplers hold; accepted requests keep theirs."""

        def close_later() -> None:
            self.loop.call_soon_threadsafe(self._close, session_id)

        self._close(session_id)
        self.worker.post(close_later)  # jobs that are queued now may still add snapshots

    def _close(self, session_id: str) -> None:
        """Close the samplers that a session has now; requests that wait for a missing number run at once."""
        mine = tuple(self.held.get(owner_of(session_id), ()))  # the compute thread may add some meanwhile
        closed = [key for key in mine if key.startswith(f"{session_id}:")]
        for key in closed:
            self._release(key)

        def let_go() -> None:
            for key in closed:
                self.snapshots.forget(key)
            for model_id in tuple(self.followers):
                if model_id.rpartition(":train:")[0] == session_id:
                    del self.followers[model_id]

        self.worker.post(let_go)  # after the accepted requests

    def _release(self, key: str) -> None:
        owner, live = owner_of(key), self.live.pop(key, None)
        self.held[owner].discard(key)
        if live is not None:
            self.num_copies[owner] -= live.num_copies
            for lane in live.lanes.values():
                while lane.waiting:
                    self._post(lane.close_gap())

    def join(self, sampling_session_id: str) -> int:
        """Assign a number to a copy of this session's client; the original is 0.

        Raises:
            InputError: there is no such session.
        """
        self.record(sampling_session_id)
        return 1 + self.store.occurrence(f"join {sampling_session_id}")

    def cancel(self, request_id: str) -> None:
        """Cancel a sampling request, and free its resources before the next step; a finished one stays.

        Raises:
            InputError: it is not a sampling request of this server.
        """
        if not request_id.endswith(":sample") or self.store.result(request_id) is NoResult.UNKNOWN:
            raise InputError(
                "only sampling requests can be cancelled",
                field="request_id",
                value=request_id,
                allowed="the id of an asample request",
            )
        self.worker.post(lambda: self._cancel(request_id))

    def _cancel(self, request_id: str) -> None:
        """Drop the request, or mark it to be dropped when its turn comes."""
        if self.store.result(request_id) is not NoResult.PENDING:
            return
        group = self.requested.pop(request_id, None)
        if group is None:
            self.cancelled.add(request_id)
        else:
            self.drop(group)
        self.futures.fail(request_id, InputError("the request was cancelled by its client"))

    async def sample(self, request: Sample, turns: Turns) -> tuple[str, list[str]]:
        """Accept a sampling request; return its id and one id per sequence.

        Raises:
            InputError: for a request that cannot be served; its number is used up all the same.
        """
        live = self._live(request.sampling_session_id)
        lane = self._lane(live, request.seq_id)
        try:
            check = partial(checked, self.engine, live.name, request)
            max_tokens, grammar = await turns.run(check, size=size_of(request))
            caller_limits().check_sampling(request.num_samples, max_tokens)
        except TinsmithError as error:
            async with self.store.on_the_loop():
                self.count_refused(Place(request.sampling_session_id, request.seq_id), error)
            raise
        async with self.store.on_the_loop():
            if self.live.get(request.sampling_session_id) is not live:  # the session has ended meanwhile
                live = self._live(request.sampling_session_id)
                lane = self._lane(live, request.seq_id)
            request_id, new = self.futures.accept(
                owner=request.sampling_session_id, seq_id=request.seq_id, kind=SAMPLE, num_samples=request.num_samples
            )
            if new:
                self._queue(lane, request, self._job(live, request, request_id, grammar))
        return request_id, [f"{request_id}:{i}" for i in range(request.num_samples)]

    def _queue(self, lane: Lane, request: Sample, job: Job) -> None:
        """Let an unseeded request run after those before it; a seeded one runs at once."""
        late = request.seq_id < lane.next_seq  # its number was skipped: it runs at once
        if request.sampling_params.seed is None and not late:
            self._go_on(lane, lane.add(request.seq_id, job))
        else:
            self.worker.post(job)
            self._go_on(lane, lane.skip(request.seq_id))

    def count_refused(self, place: Place, error: TinsmithError) -> None:
        """Mark a refused request's number as used, unless it was used before; its session may not be in memory yet."""
        live, known = self.live.get(place.owner), self.store.sampling_session(place.owner)
        counted = known is not None and self.store.refuse(owner=place.owner, seq_id=place.seq_id, message=str(error))
        if live is not None and counted:
            lane = self._lane(live, place.seq_id)
            self._go_on(lane, lane.skip(place.seq_id))

    def record(self, sampling_session_id: str) -> SamplingSession:
        """Return the record of a sampling session.

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

    def start(
        self,
        name: str,
        policy: Policy,
        request: SampleRequest,
        *,
        owner: str,
        ended: GroupDone,
        drawn: GroupDone | None = None,
    ) -> Group:
        """Submit a request of key `owner` to the sampler of base model `name`. Called on the compute thread.

        `ended` is called once, unless the group is dropped; `drawn` after every step before that.

        Raises:
            InputError: for a request that cannot be served; no callback is called.
        """
        group = self.engine.sampler(name).submit(request, policy, owner=owner)
        entry = UnderWay(group, name, ended, drawn)
        self.under_way[id(group)] = entry
        if drawn is not None:
            self.watched[id(group)] = entry
        return group

    def drop(self, group: Group) -> None:
        """Cancel a request that may still be in progress. Called on the compute thread."""
        self.watched.pop(id(group), None)
        entry = self.under_way.pop(id(group), None)
        if entry is not None:
            self.num_tokens += num_drawn(group)
            self.engine.sampler(entry.name).cancel(group)

    def stepped(self) -> None:
        """Notify followers of their requests. Called on the compute thread after every step."""
        for entry in self.watched.values():
            if entry.drawn is not None:
                entry.drawn(entry.group)

    def finished(self, groups: Sequence[Group]) -> None:
        """Settle finished requests with one wait for the disk. Called on the compute thread."""
        entries = [self.under_way.pop(id(group)) for group in groups]
        for group in groups:
            self.num_tokens += num_drawn(group)
            self.watched.pop(id(group), None)
        self._end(entries)

    def abandon(self, error: Exception) -> None:
        """Fail all sampling in progress, and free its resources. Called on the compute thread."""
        entries = tuple(self.under_way.values())
        self.under_way.clear()
        self.watched.clear()
        for entry in entries:
            self.num_tokens += num_drawn(entry.group)
            self.engine.sampler(entry.name).cancel(entry.group)
            entry.group.failure = BackendError(f"the server failed while sampling: {type(error).__name__}")
        self._end(entries)

    def _end(self, entries: Sequence[UnderWay]) -> None:
        """Hand each group over exactly once, then settle the requests of the protocol in one transaction."""
        for entry in entries:
            try:
                entry.ended(entry.group)
            except Exception:  # the boundary of a request: the others are handed over all the same
                logger.exception("a request ended without a record")
        outcomes, self.outcomes = self.outcomes, []
        self.futures.settle(outcomes)

    def _job(self, live: LiveSampler, request: Sample, request_id: str, grammar: object) -> Job:
        """Return the submission to the engine, for the compute thread; it holds the compiled `grammar` until then."""
        held = [grammar]

        def ended(group: Group) -> None:
            self.requested.pop(request_id, None)
            self.futures.attempt(request_id, lambda: self.outcomes.append((request_id, outcome_of(request, group))))

        def submit() -> None:
            loaded = self._loaded(live)
            owner = owner_of(live.record.session_id)
            seed = self.seed_of(live.record.base_model, loaded.weights, request, owner=owner)
            if request_id in self.cancelled:  # its seed is counted all the same, independent of the time of arrival
                self.cancelled.discard(request_id)
                return
            sample_request = to_sample_request(request, seed=seed)
            group = self.start(live.name, loaded.policy, sample_request, owner=owner, ended=ended)
            held.clear()
            self.requested[request_id] = group

        return lambda: self.futures.attempt(request_id, submit)

    def seed_of(self, base: str, weights: str, request: Sample, *, owner: str, route: str | None = None) -> int:
        """Derive an unseeded request's seed, and count it; a seeded one keeps its own.

        Requests are counted separately for each `route` and each key (`owner`: its name), since others may come at any
        time between them. The owner has no other effect.
        """
        if request.sampling_params.seed is not None:
            return 0
        apart = {} if route is None else {"route": route}
        key = sha256_of({"base": base, "weights": weights, "asked": request.content(), **apart})
        counted = key if owner == DEFAULT else f"{owner} {key}"
        return derive(self.seed, "sample", key, self.store.occurrence(counted))

    def _loaded(self, live: LiveSampler) -> Loaded:
        """Return the weights that a session samples from now. On the compute thread."""
        if isinstance(live.source, str):
            return self.snapshots.loaded(live.source, live.name)
        return live.source.result() or self.snapshots.loaded(live.record.sampling_session_id, live.name)

    def _live(self, sampling_session_id: str) -> LiveSampler:
        live = self.live.get(sampling_session_id)
        if live is not None and is_own(sampling_session_id):
            return live
        record = self.record(sampling_session_id)
        if record.snapshot:
            raise InputError(
                "this snapshot was held in memory, and the server was restarted or its session has ended",
                field="sampling_session_id",
                value=sampling_session_id,
                fix="save the weights with a name to sample from them later",
            )
        return self._open(record)

    def _open(self, record: SamplingSession) -> LiveSampler:
        """Load a session's weights on the compute thread, or reuse those loaded before."""
        live = self.live.get(record.sampling_session_id)
        if live is not None:
            return live
        self.store.check_open(record.session_id)  # what an ended session loads would never be freed
        parsed = ModelName.parse(record.base_model)
        name, kind = parsed.base, parsed.kind
        reader = caller()  # the checkpoint may have been withdrawn since the session was created

        def load() -> Loaded | None:
            if record.model_path is None:
                return load_base(self.engine, name, kind)
            path = TinkerPath.parse(record.model_path)
            with named_by_path(record.model_path, self.state):
                checkpoint = read(self.store.require_checkpoint(path, reader=reader))
                load = partial(adapter_of, self.engine, name, checkpoint)
                weights = weights_of(checkpoint)
                if record.weights not in (None, weights):
                    raise InputError(
                        "the checkpoint of this sampling session was overwritten, and holds other weights now",
                        field="model_path",
                        value=record.model_path,
                        fix="create another sampling client to sample from these",
                    )
                self.snapshots.hold(record.sampling_session_id, name, checkpoint.spec, weights, load)
            return None

        self._require_room(owner_of(record.sampling_session_id))
        loading = self.worker.call(load)
        live = LiveSampler(record, name, loading)
        for seq in self.store.seq_ids(record.sampling_session_id):
            self._lane(live, seq).skip(seq)
        self._keep(live)

        def loaded(done: Future[Loaded | None]) -> None:
            if done.exception() is not None:  # a repeated request loads them again
                self.loop.call_soon_threadsafe(self._release, record.sampling_session_id)

        loading.add_done_callback(loaded)
        return live

    def _lane(self, live: LiveSampler, seq_id: int) -> Lane:
        """Return the lane of a number: the client's own, or that of a copy of it.

        Raises:
            InputError: its key has too many copies of clients.
        """
        block = seq_id // SAMPLING_BLOCK
        if block and block not in live.lanes:
            owner = owner_of(live.record.session_id)
            if self.num_copies[owner] >= MOST_OPEN:
                raise InputError(
                    "this key has too many copies of sampling clients",
                    field="seq_id",
                    value=seq_id,
                    allowed=f"{MOST_OPEN} copies in sessions that have not ended",
                    fix="close clients that are not used any more",
                )
            self.num_copies[owner] += 1
        return live.lanes.setdefault(block, Lane(block * SAMPLING_BLOCK))

    def _require_room(self, owner: str) -> None:
        """Reject a new sampling session if its key has reached the limit."""
        if len(self.held.get(owner, ())) >= MOST_OPEN:
            raise InputError(
                "this key has too many sampling sessions",
                field="sampling_session_seq_id",
                value=MOST_OPEN,
                allowed=f"{MOST_OPEN} in sessions that have not ended",
                fix="close clients that are not used any more",
            )

    def _keep(self, live: LiveSampler) -> None:
        key = live.record.sampling_session_id
        self.live[key] = live
        self.held.setdefault(owner_of(key), set()).add(key)

    def _post(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.worker.post(job)

    def _go_on(self, lane: Lane, jobs: list[Job]) -> None:
        """Post the jobs that may run now, and set a time limit for the number that others wait for."""
        self._post(jobs)
        if lane.waiting:
            self.loop.call_later(self.gap_seconds, self._close_gap, lane, lane.next_seq)

    def _close_gap(self, lane: Lane, expected: int) -> None:
        if lane.next_seq == expected and lane.waiting:
            logger.warning("request %d never came; what waits for it goes on", expected)
            self._go_on(lane, lane.close_gap())
