"""Engine of a worker: it holds the bases and some adapters, and computes works with them.

Adapters are cached by content, so that each version is sent to a worker once. They stay until the sender releases them
or a newer one takes their place.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from tinsmith.engine.bases import ServesRequests
from tinsmith.engine.cluster.sharded_engine import ShardedEngine
from tinsmith.engine.cluster.stage_calls import StageLostError
from tinsmith.engine.cluster.work import (
    Computed,
    Fresh,
    FreshWork,
    GradientWork,
    Lost,
    Outcome,
    Refused,
    Sampled,
    SampleWork,
    ServedFacts,
    Tensors,
    WeightsId,
    WorkerFacts,
)
from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Group, Policy
from tinsmith.engine.unit_gradients import ComputeHere
from tinsmith.engine.unit_sums import Partial, UnitSums, folded, joined
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.adapter_cache import AdapterCache
from tinsmith.models.frozen import frozen_adapter
from tinsmith.models.routes import RouteSums, added
from tinsmith.models.slots import values
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.types.datum import DatumOutput
from tinsmith.types.errors import BackendError, InputError, TinsmithError
from tinsmith.types.source import source_sha256

Settled = Callable[[Outcome], None]
FetchTensors = Callable[[], Tensors]
"""Function that fetches an adapter's tensors; called only if they are not cached."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sampling:
    """Sampling request in progress."""

    work_id: str
    sampler: ServesRequests
    group: Group
    settled: Settled


class Host:
    """A worker's engine. One caller at a time."""

    def __init__(self, engine: Engine | ShardedEngine) -> None:
        self.engine = engine
        self._adapters = AdapterCache[WeightsId, Adapter](lambda adapter: adapter)
        """Adapters by version, each of which is used for a step or two."""
        self._sampling: dict[int, _Sampling] = {}

    def facts(self) -> WorkerFacts:
        """Return the facts of this worker."""
        engine = self.engine
        bases: dict[str, ServedFacts] = {}
        for name in engine.names:
            base = engine.base(name)
            bases[name] = ServedFacts(
                fingerprint=base.fingerprint,
                config_sha256=base.config_sha256,
                certificate=engine.certificate_sha256(name),
            )
        return WorkerFacts(
            node=socket.gethostname(),
            threads=engine.kernels.threads(),
            pid=os.getpid(),
            source=source_sha256(),
            arithmetic=engine.kernels.arithmetic.value,
            bases=bases,
        )

    def compiled(self, work: SampleWork) -> object:
        """Compile a request's grammar; it is not recompiled while a reference exists. Any thread may call this.

        Raises:
            InputError: it does not compile.
        """
        return self.engine.compiled(work.weights.name, work.request)

    def sample(self, work: SampleWork, fetch: FetchTensors | None, settled: Settled) -> None:
        """Submit a sampling request; `settled` is called by a later `finished`, or now if the request is rejected."""
        try:
            policy = self._policy(work.weights, fetch)
            sampler = self.engine.sampler(work.weights.name)
            group = sampler.submit(work.request, policy, owner=work.owner)
        except TinsmithError as error:
            settled(Refused(error=_bare(error)))
        except StageLostError as lost:
            settled(Lost(cause=str(lost)))
        else:
            self._sampling[id(group)] = _Sampling(work.id, sampler, group, settled)

    def finished(self, group: Group) -> None:
        """Settle a request that has ended."""
        settled = self._sampling.pop(id(group)).settled
        if group.result is not None:
            settled(Sampled(result=group.result))
        else:
            settled(Refused(error=group.failure or BackendError("the request was dropped")))
        if not self._sampling:
            self.engine.tidy()

    def drop(self, work_id: str) -> None:
        """Cancel a sampling request if it is in progress."""
        for key, each in tuple(self._sampling.items()):
            if each.work_id == work_id:
                del self._sampling[key]
                each.settled(Refused(error=InputError("nobody waits for this request any more")))
                each.sampler.cancel(each.group)

    def forget(self, weights: WeightsId) -> None:
        """Drop weights that no later work uses; works in progress keep their reference."""
        self._adapters.drop(weights)

    def tidy(self) -> None:
        """Return free memory to the operating system."""
        self.engine.tidy()
        self.engine.give_back()

    def abandon(self, error: Exception) -> None:
        """Settle all sampling in progress with the reason for the failure."""
        entries = tuple(self._sampling.values())
        self._sampling.clear()
        for each in entries:
            if isinstance(error, StageLostError):
                each.settled(Lost(cause=str(error)))
                continue
            each.sampler.cancel(each.group)
            failed = BackendError(f"a worker failed while sampling: {type(error).__name__}")
            each.settled(Refused(error=failed))

    def compute(self, work: GradientWork | FreshWork, fetch: FetchTensors | None) -> Outcome:
        """Compute units of gradient, or initial weights."""
        try:
            outcome = self._outcome(work, fetch)
            self.engine.tidy()
        except StageLostError as lost:
            return Lost(cause=str(lost))
        return outcome

    def _outcome(self, work: GradientWork | FreshWork, fetch: FetchTensors | None) -> Outcome:
        try:
            if isinstance(work, FreshWork):
                decoder = self.engine.decoder(work.name, quantised=work.spec.kind.quantised)
                fresh = create_adapter(decoder, work.spec)
                return Fresh(tensors={n: t.cpu().numpy() for n, t in values(fresh.slots).items()})
            return self._units(work, self._adapter(work.weights, fetch))
        except TinsmithError as error:
            return Refused(error=_bare(error))

    def _units(self, work: GradientWork, adapter: Adapter) -> Computed:
        request = work.request
        sums = UnitSums(adapter.buffers())
        partials: list[Partial] = []
        found: dict[int, tuple[DatumOutput, LossValue]] = {}
        routes: RouteSums | None = None
        nothing, marks = np.zeros(0, np.float32), list[str]()
        with torch.set_grad_enabled(request.backward):
            for block in ComputeHere()(adapter, sums, self.engine.micro_batches, request):
                found |= {i: (o, replace(v, grad=nothing)) for i, (o, v) in block.found.items()}
                routes = added(routes, block.routes)
                marks += block.marks
                if block.partial is not None:
                    partials = joined(partials, block.partial)
        for weight in sums.weights:
            weight.freeze()
        grads = [grad.cpu().numpy() for grad in folded(partials)] if request.backward else None
        return Computed(found=found, grads=grads, routes=routes, marks=tuple(marks))

    def _policy(self, weights: WeightsId, fetch: FetchTensors | None) -> Policy:
        if weights.spec is None:
            return self.engine.base_policy(weights.name, quantised=weights.quantised)
        return self.engine.parts.policy_of(self._adapter(weights, fetch))

    def _adapter(self, weights: WeightsId, fetch: FetchTensors | None) -> Adapter:
        """Return the adapter of these weights. A cached one is never modified, so requests in progress may use it."""
        adapter = self._adapters.find(weights)
        if adapter is None:
            if fetch is None or weights.spec is None:
                raise BackendError("a work came without its weights", field=weights.sha256)
            tensors = fetch()
            decoder = self.engine.decoder(weights.name, quantised=weights.quantised)
            own = {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}
            adapter = frozen_adapter(decoder, weights.spec, own, source="the server's weights")
            self._adapters.put(weights, adapter)
        return adapter


def _bare(error: TinsmithError) -> TinsmithError:
    """Strip an error of its traceback frames, which reference intermediate results."""
    error.__context__ = None
    return error.with_traceback(None)
