"""Sampling by a model's name, without a session: from a served base or any checkpoint, whole or token by token."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

from tinsmith.engine.checkpoint_files import MARKER
from tinsmith.engine.checkpoints import read
from tinsmith.engine.tinker_paths import SCHEME, TinkerPath
from tinsmith.models.staging import present
from tinsmith.server.access.caller import DEFAULT, caller, caller_limits, count_call, current_call, without_owner
from tinsmith.server.access.turns import SMALL
from tinsmith.server.draws import Drawn, Follower
from tinsmith.server.sampling_requests import checked, size_of
from tinsmith.server.service import Service
from tinsmith.server.submissions import Submissions
from tinsmith.server.weights import Loaded, check_name, load_base, load_checkpoint, named_by_path
from tinsmith.server.wire.conversions import to_sample_request
from tinsmith.server.wire.requests import Sample
from tinsmith.types.errors import InputError
from tinsmith.types.model_names import ModelName
from tinsmith.types.sampling import SampleRequest

LOOK_SECONDS = 0.5
"""Seconds between wake-ups of a caller while nothing is drawn."""
MAX_CACHED = 8
"""Checkpoints cached in memory, least recently used evicted first."""
ROUTE = "openai"
"""Name under which unseeded requests are counted, separate from those of the Tinker protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Base and weights for a model's name."""

    name: str
    """Name of the served base model."""
    model: str
    """Requested name."""
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class Requests:
    """Equal sampling requests for several prompts; each is built on access, and not stored."""

    prompts: tuple[tuple[int, ...], ...]
    """Prompts, at least one."""
    sample: Callable[[tuple[int, ...]], Sample]

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, i: int) -> Sample:
        return self.sample(self.prompts[i])


@dataclass(slots=True)
class Direct:
    """Sampling for clients that name a model. Methods are called on the event loop."""

    service: Service
    cached: OrderedDict[str, tuple[bytes, str, Loaded]] = field(
        default_factory=OrderedDict[str, tuple[bytes, str, Loaded]]
    )
    """Marker, base's name and weights by path: touched on the compute thread only."""
    bases: dict[tuple[str, bool], Loaded] = field(default_factory=dict[tuple[str, bool], Loaded])
    """Bases by served name and precision (True: quantised), never evicted."""

    async def find(self, model: str) -> Found:
        """Load a model by name: a served base, with or without an adapter kind's suffix, or a `tinker://` path.

        Raises:
            InputError, ConfigError, CheckpointError: it does not exist, or cannot be loaded.
        """
        if not model.startswith(SCHEME):
            parsed = ModelName.parse(model)
            check_name(self.service.engine, parsed)
            key = (parsed.base, parsed.kind.quantised)
            if key not in self.bases:
                self.bases[key] = await asyncio.wrap_future(self.service.worker.call(lambda: self._base(parsed)))
            return Found(name=parsed.base, model=model, loaded=self.bases[key])
        reader = caller()
        found = self.service.worker.call(lambda: self._checkpoint(model, reader))
        return await asyncio.wrap_future(found)

    async def check(self, found: Found, requests: Requests) -> None:
        """Reject unservable requests; others count as in progress until answered or disconnected.

        Raises:
            InputError: naming the field.
            BusyError: its key has reached a limit on concurrent work.
        """
        engine, name = self.service.engine, found.name
        size = size_of(requests[0]) if len(requests) == 1 else SMALL + 1

        def check() -> list[tuple[int, object]]:
            return [checked(engine, name, requests[i]) for i in range(len(requests))]

        done = await self.service.turns.run(check, size=size)
        call, num_samples = current_call(), requests[0].num_samples
        for max_tokens, _ in done:
            caller_limits().check_sampling(num_samples, max_tokens)
        count_call(self.service.futures.usage, num_requests=len(done), num_samples=num_samples * len(done))
        if call is not None:
            call.held.append(done[0][1])  # it need not be recompiled, whatever others compile in the meantime

    async def draw(
        self, found: Found, requests: Requests, *, stop_tokens: tuple[int, ...] = (), watch: bool
    ) -> AsyncGenerator[tuple[Drawn, ...], None]:
        """Yield drawn tokens until every sample has ended, and sometimes nothing, as a wake-up for the caller.

        Without `watch` a request's samples come whole. Close the generator to cancel the rest.

        Raises:
            InputError, BackendError: a request is not, or cannot be, served.
        """
        loop, post = asyncio.get_running_loop(), self.service.worker.post
        owner, num_samples = caller() or DEFAULT, requests[0].num_samples
        queue: asyncio.Queue[tuple[Drawn, ...] | Exception] = asyncio.Queue()
        followers: dict[int, Follower] = {}

        def request(i: int) -> SampleRequest:
            followers[i] = Follower(queue, loop, i * num_samples, [0] * num_samples, [False] * num_samples)
            return _with_stops(self._seeded(found, requests[i], owner), stop_tokens)

        def failed(error: Exception) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, error)

        submissions = Submissions(
            samplers=self.service.samplers,
            name=found.name,
            policy=found.loaded.policy,
            owner=owner,
            count=len(requests),
            request=request,
            ended=lambda i, group: followers.pop(i).ended(group),
            drawn=(lambda i, group: followers[i].drawn(group)) if watch else None,
            failed=failed,
        )
        running = num_samples * len(requests)
        try:
            post(submissions.start)
            while running:
                try:
                    item = await asyncio.wait_for(queue.get(), LOOK_SECONDS)
                except TimeoutError:
                    yield ()
                    continue
                if isinstance(item, Exception):
                    raise item
                running -= sum(drawn.stop_reason is not None for drawn in item)
                yield item
        finally:
            post(submissions.drop)

    def _seeded(self, found: Found, request: Sample, owner: str) -> SampleRequest:
        model = without_owner(found.model) if found.model.startswith(SCHEME) else found.model
        seed = self.service.samplers.seed_of(model, found.loaded.weights, request, owner=owner, route=ROUTE)
        return to_sample_request(request, seed=seed)

    def _base(self, parsed: ModelName) -> Loaded:
        return load_base(self.service.engine, parsed.base, parsed.kind)

    def _checkpoint(self, model: str, reader: str | None) -> Found:
        """Load a checkpoint, unless a cached one has the same marker, which holds the hashes of its files."""
        folder = TinkerPath.parse(model).folder(self.service.state)
        marker = present(folder) / MARKER
        missing = InputError("there is no such checkpoint", field="model", value=model)
        if not self.service.store.may_read(model, reader=reader):
            raise missing
        if not marker.is_file():
            self.cached.pop(model, None)
            raise missing
        content = marker.read_bytes()
        cached = self.cached.get(model)
        if cached is None or cached[0] != content:
            with named_by_path(model, self.service.state):
                checkpoint = read(folder)
                name = self.service.runs.served_base(checkpoint)
                cached = (content, name, load_checkpoint(self.service.engine, name, checkpoint))
            self.cached[model] = cached
            if len(self.cached) > MAX_CACHED:
                self.cached.popitem(last=False)
        self.cached.move_to_end(model)
        return Found(name=cached[1], model=model, loaded=cached[2])


def _with_stops(request: SampleRequest, tokens: tuple[int, ...]) -> SampleRequest:
    """Add stop tokens to a request."""
    if not tokens:
        return request
    stop = (*(request.params.stop or ()), *tokens)
    return replace(request, params=replace(request.params, stop=stop))
