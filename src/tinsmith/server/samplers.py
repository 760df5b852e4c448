"""Sampling sessions: from a base, a checkpoint or a snapshot; their requests' seeds and order.

An unseeded request's seed is derived from the server's seed, the weights, the prompt, the parameters and how often just
that was asked before, counted in the client's own numbering; so an unseeded script repeats on a fresh server.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
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
from tinsmith.server.access.caller import DEFAULT, caller_limits, is_own, owner_of
from tinsmith.server.access.turns import LARGE, Turns
from tinsmith.server.database.records import Finished, NoResult, SamplingSession
from tinsmith.server.database.store import Store
from tinsmith.server.futures import SAMPLE, Futures
from tinsmith.server.lanes import SAMPLING_BLOCK, Job, Lane
from tinsmith.server.runs import Runs
from tinsmith.server.snapshots import Snapshots
from tinsmith.server.weights import Loaded, adapter_of, load_base, weights_of
from tinsmith.server.wire.conversions import to_sample_request, to_targets
from tinsmith.server.wire.messages import CONTENT_TYPE
from tinsmith.server.wire.places import Place
from tinsmith.server.wire.requests import CreateSamplingSession, Sample
from tinsmith.server.wire.results import encode_sample
from tinsmith.server.worker import Worker
from tinsmith.types.errors import BackendError, DiskFullError, InputError, TinsmithError
from tinsmith.types.fingerprints import sha256_of, tensors_sha256
from tinsmith.types.model_names import ModelName
from tinsmith.types.sampling import SampleRequest
from tinsmith.types.seeds import derive

logger = logging.getLogger(__name__)

GAP_SECONDS = 5.0
"""A number that has not come after so long was given up by its client; what waits for it goes on."""
MOST_OPEN = 65_536
"""Sampling sessions of one key at once, as each step of a run may make one; and copies of their clients."""

GroupDone = Callable[[Group], None]
"""Called on the compute thread: it copies what it needs, and hands it over."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A group in the engine, and who is told about it."""

    group: Group
    name: str
    """The served base model."""
    ended: GroupDone
    drawn: GroupDone | None


def size_of(request: Sample) -> int:
    """About how much work it is to check a request, in bytes: to compile a grammar takes tens of megabytes."""
    settings = request.sampling_params
    grammar = settings.adjustments is not None and settings.adjustments.grammar is not None
    targets = 0 if request.target_prompt_logprobs is None else len(request.target_prompt_logprobs.data)
    num_tokens = sum(len(chunk.tokens) for chunk in request.prompt.chunks)
    return 256 + num_tokens + 8 * targets + (LARGE + 1 if grammar else 0)


def checked(engine: Bases, name: str, request: Sample) -> tuple[int, object]:
    """Return the most tokens that a sample may have, and the compiled grammar. On any thread.

    Raises:
        InputError: naming the field that is wrong.
    """
    sample_request = to_sample_request(request, seed=0, most=engine.config(name).max_positions)
    return engine.check(name, sample_request), engine.compiled(name, sample_request)


@dataclass(slots=True)
class _Live:
    """One sampling session in memory."""

    record: SamplingSession
    name: str
    source: str | Future[Loaded | None]
    """The id of the session whose weights it is on, replaced on the compute thread where it follows a model's; or a
    base's weights, or none, where what was loaded is held by its own id."""
    lanes: dict[int, Lane] = field(default_factory=dict[int, Lane])

    @property
    def num_copies(self) -> int:
        """Copies of the client that have sent a request."""
        return len(self.lanes.keys() - {0})


@dataclass(slots=True)
class Samplers:
    """All sampling sessions. Methods are called on the event loop unless they say otherwise."""

    engine: Bases
    store: Store
    futures: Futures
    worker: Worker
    state: Path
    seed: int
    loop: asyncio.AbstractEventLoop
    snapshots: Snapshots
    live: dict[str, _Live] = field(default_factory=dict[str, _Live])
    held: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The ids of those that each key has."""
    num_copies: Counter[str] = field(default_factory=Counter[str])
    """Copies of clients that each key has."""
    under_way: dict[int, _UnderWay] = field(default_factory=dict[int, _UnderWay])
    """Sampling requests by their group's id: touched on the compute thread only."""
    requested: dict[str, Group] = field(default_factory=dict[str, Group])
    """The group of each request of the protocol that is under way: touched on the compute thread only."""
    cancelled: set[str] = field(default_factory=set[str])
    """Requests given up before they were under way: touched on the compute thread only."""
    followers: dict[str, list[_Live]] = field(default_factory=dict[str, "list[_Live]"])
    """Sessions that follow a model's weights, by its id: touched on the compute thread only."""
    watched: dict[int, _UnderWay] = field(default_factory=dict[int, _UnderWay])
    """Those of them whose tokens are followed as they are drawn."""
    gap_seconds: float = GAP_SECONDS
    num_tokens: int = 0
    """Tokens drawn by the requests that are no longer under way: counted on the compute thread."""

    async def create(self, request: CreateSamplingSession, runs: Runs) -> str:
        """Open a session on a base model or a checkpoint, and load it.

        Raises:
            InputError, ConfigError, CheckpointError: the model or checkpoint is not to be had.
        """
        base_model = request.base_model
        if request.model_path is not None:
            path = TinkerPath.parse(request.model_path)
            checkpoint = await runs.read_checkpoint(request.model_path)
            name = runs.served_base(checkpoint)
            record = self.store.checkpoint(path)
            base_model = record.base_model if record else name
        assert base_model is not None, "checked by the request"
        self.engine.base(ModelName.parse(base_model).base)
        session = self.store.create_sampling_session(
            session_id=request.session_id,
            sampling_session_seq_id=request.sampling_session_seq_id,
            base_model=base_model,
            model_path=request.model_path,
        )
        live = self._open(session)
        if isinstance(live.source, Future):
            await asyncio.wrap_future(live.source)
        return session.sampling_session_id

    def hold_snapshot(self, session_id: str, seq: int, name: str, adapter: Adapter, follows: str | None) -> str:
        """Open a session on weights in memory. Called on the compute thread.

        With `follows`, the id of a model, the session and all others that follow it are on these weights from now on:
        a request is on those of the moment when it is given to the sampler, from its first token to its last.
        """
        session = self.store.create_sampling_session(
            session_id=session_id, sampling_session_seq_id=seq, base_model=name, snapshot=True
        )
        held = session.sampling_session_id
        tensors = {each: t.cpu().numpy() for each, t in values(adapter.slots).items()}
        self.snapshots.hold(held, name, adapter.spec, tensors_sha256(tensors), lambda: adapter)
        live = _Live(session, name, held)
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
        """Let go of the weights that a session's samplers hold; requests that were accepted keep theirs."""

        def let_go() -> None:
            for key, each in tuple(self.live.items()):
                if each.record.session_id == session_id:
                    self.live.pop(key, None)
                    self.held.get(owner_of(key), set()).discard(key)
                    self.loop.call_soon_threadsafe(self.num_copies.subtract, {owner_of(key): each.num_copies})
                    self.snapshots.forget(key)
            for model_id in tuple(self.followers):
                if model_id.rpartition(":train:")[0] == session_id:
                    del self.followers[model_id]

        self.worker.post(let_go)  # after what may still add to them

    def join(self, sampling_session_id: str) -> int:
        """Return a number that no other copy of this session's client has; the original is 0.

        Raises:
            InputError: there is no such session.
        """
        self.record(sampling_session_id)
        return 1 + self.store.occurrence(f"join {sampling_session_id}")

    def cancel(self, request_id: str) -> None:
        """Give up on a sampling request, and free what it holds before the next step; one that has ended stays.

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
        """Drop the request, or let it be dropped when its turn comes."""
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
            InputError: for a request that cannot be served; its number is counted all the same.
        """
        live = self._live(request.sampling_session_id)
        lane = self._lane(live, request.seq_id)
        try:
            check = partial(checked, self.engine, live.name, request)
            max_tokens, grammar = await turns.run(check, size=size_of(request))
            caller_limits().check_sampling(request.num_samples, max_tokens)
        except TinsmithError as error:
            self.count_refused(Place(request.sampling_session_id, request.seq_id), str(error))
            raise
        request_id, new = self.futures.accept(
            owner=request.sampling_session_id, seq_id=request.seq_id, kind=SAMPLE, num_samples=request.num_samples
        )
        if new:
            job = self._job(live, request, request_id, grammar)
            late = request.seq_id < lane.next_seq  # its place was given up: it runs at once
            if request.sampling_params.seed is None and not late:
                self._post(lane.add(request.seq_id, job))
                if lane.waiting:
                    self.loop.call_later(self.gap_seconds, self._close_gap, lane, lane.next_seq)
            else:
                self.worker.post(job)
                self._post(lane.skip(request.seq_id))
        return request_id, [f"{request_id}:{i}" for i in range(request.num_samples)]

    def count_refused(self, place: Place, message: str) -> None:
        """Let a refused request use its number up, unless that was used before."""
        live = self.live.get(place.owner)
        if live is not None and self.store.refuse(owner=place.owner, seq_id=place.seq_id, message=message):
            self._post(self._lane(live, place.seq_id).skip(place.seq_id))

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
        """Submit a request of a key, `owner`, to the sampler of base model `name`. Called on the compute thread.

        `ended` is called once, unless the group is dropped; `drawn` after every step before that.

        Raises:
            InputError: for a request that cannot be served; nobody will be told anything.
        """
        group = self.engine.sampler(name).submit(request, policy, owner=owner)
        entry = _UnderWay(group, name, ended, drawn)
        self.under_way[id(group)] = entry
        if drawn is not None:
            self.watched[id(group)] = entry
        return group

    def drop(self, group: Group) -> None:
        """Give up on a request that may still be under way. Called on the compute thread."""
        self.watched.pop(id(group), None)
        entry = self.under_way.pop(id(group), None)
        if entry is not None:
            self.num_tokens += _num_drawn(group)
            self.engine.sampler(entry.name).cancel(group)

    def stepped(self) -> None:
        """Tell those who follow their requests. Called on the compute thread after every step."""
        for entry in self.watched.values():
            if entry.drawn is not None:
                entry.drawn(entry.group)

    def finished(self, groups: Sequence[Group]) -> None:
        """Settle requests whose samples have ended, waiting for the disk once. Called on the compute thread."""
        entries = [self.under_way.pop(id(group)) for group in groups]
        for group in groups:
            self.num_tokens += _num_drawn(group)
            self.watched.pop(id(group), None)
        try:
            with self.futures.together():
                for entry in entries:
                    entry.ended(entry.group)
        except (DiskFullError, sqlite3.Error, OSError) as error:
            # None of them is settled. Each is by itself now, or else nobody would ever answer who waits for it.
            for entry in entries:
                entry.group.failure = error if isinstance(error, DiskFullError) else BackendError(str(error))
                entry.ended(entry.group)

    def abandon(self, error: Exception) -> None:
        """Fail whatever is being sampled, and free what it holds. Called on the compute thread."""
        entries = tuple(self.under_way.values())
        self.under_way.clear()
        self.watched.clear()
        for entry in entries:
            self.num_tokens += _num_drawn(entry.group)
            self.engine.sampler(entry.name).cancel(entry.group)
            entry.group.failure = BackendError(f"the server failed while sampling: {type(error).__name__}")
            entry.ended(entry.group)

    def _job(self, live: _Live, request: Sample, request_id: str, grammar: object) -> Job:
        """The submission to the engine's sampler, on the compute thread; until then the compiled `grammar` is held."""
        held = [grammar]

        def ended(group: Group) -> None:
            self.requested.pop(request_id, None)
            if group.failure is not None or group.result is None:
                dropped = InputError("the request was dropped")
                self.futures.fail(request_id, group.failure or dropped)
                return
            last_n = request.prompt_logprobs_last_n
            targets = to_targets(request)
            body = encode_sample(group.result, prompt_logprobs_last_n=last_n, targets=targets)
            self.futures.finish(request_id, Finished(body=body, media_type=CONTENT_TYPE))

        def submit() -> None:
            loaded = self._loaded(live)
            owner = owner_of(live.record.session_id)
            seed = self.seed_of(live.record.base_model, loaded.weights, request, owner=owner)
            if request_id in self.cancelled:  # its seed is counted all the same: when it came is no matter
                self.cancelled.discard(request_id)
                return
            sample_request = to_sample_request(request, seed=seed)
            group = self.start(live.name, loaded.policy, sample_request, owner=owner, ended=ended)
            held.clear()
            self.requested[request_id] = group

        return lambda: self.futures.attempt(request_id, submit)

    def seed_of(self, base: str, weights: str, request: Sample, *, owner: str, route: str | None = None) -> int:
        """Derive an unseeded request's seed, and count it; a seeded one keeps its own.

        Requests of one `route`, and those of each key (`owner`: its name), are counted apart from all others, which may
        come at any time between them. Whose the request is changes nothing else.
        """
        if request.sampling_params.seed is not None:
            return 0
        apart = {} if route is None else {"route": route}
        key = sha256_of({"base": base, "weights": weights, "asked": request.content(), **apart})
        counted = key if owner == DEFAULT else f"{owner} {key}"
        return derive(self.seed, "sample", key, self.store.occurrence(counted))

    def _loaded(self, live: _Live) -> Loaded:
        """Return the weights that a session samples from now. On the compute thread."""
        if isinstance(live.source, str):
            return self.snapshots.loaded(live.source, live.name)
        return live.source.result() or self.snapshots.loaded(live.record.sampling_session_id, live.name)

    def _live(self, sampling_session_id: str) -> _Live:
        if sampling_session_id in self.live and is_own(sampling_session_id):
            return self.live[sampling_session_id]
        record = self.record(sampling_session_id)
        if record.snapshot:
            raise InputError(
                "this snapshot was held in memory, and the server was restarted or its session has ended",
                field="sampling_session_id",
                value=sampling_session_id,
                fix="save the weights with a name to sample from them later",
            )
        return self._open(record)

    def _open(self, record: SamplingSession) -> _Live:
        """Load a session's weights on the compute thread; a session that was opened before goes on."""
        parsed = ModelName.parse(record.base_model)
        name, kind = parsed.base, parsed.kind
        # It may have been published when the session was made, and not be any more.
        readable = record.model_path is None or self.store.may_read(record.model_path)

        def load() -> Loaded | None:
            if record.model_path is None:
                return load_base(self.engine, name, kind)
            path = TinkerPath.parse(record.model_path)
            checkpoint = read(self.store.require_checkpoint(path, readable=readable))
            load = partial(adapter_of, self.engine, name, checkpoint)
            weights = weights_of(checkpoint)
            self.snapshots.hold(record.sampling_session_id, name, checkpoint.spec, weights, load)
            return None

        if record.sampling_session_id not in self.live:
            self._require_room(owner_of(record.sampling_session_id))
            live = _Live(record, name, self.worker.call(load))
            for seq in self.store.seq_ids(record.sampling_session_id):
                self._lane(live, seq).skip(seq)
            self._keep(live)
        return self.live[record.sampling_session_id]

    def _lane(self, live: _Live, seq_id: int) -> Lane:
        """Return the order that a number belongs to: the client's own, or that of a copy of it.

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
        """Refuse one more sampling session of a key that has as many open as it may."""
        if len(self.held.get(owner, ())) >= MOST_OPEN:
            raise InputError(
                "this key has too many sampling sessions",
                field="sampling_session_seq_id",
                value=MOST_OPEN,
                allowed=f"{MOST_OPEN} in sessions that have not ended",
                fix="close clients that are not used any more",
            )

    def _keep(self, live: _Live) -> None:
        key = live.record.sampling_session_id
        self.live[key] = live
        self.held.setdefault(owner_of(key), set()).add(key)

    def _post(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.worker.post(job)

    def _close_gap(self, lane: Lane, expected: int) -> None:
        if lane.next_seq == expected and lane.waiting:
            logger.warning("request %d never came; what waits for it goes on", expected)
            self._post(lane.close_gap())


def _num_drawn(group: Group) -> int:
    return sum(len(sample.tokens) for sample in group.samples)
