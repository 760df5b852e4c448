"""The engine of a server that computes nothing itself: it keeps adapters, optimizers and order, workers do the rest.

Every result is that of one process, bit for bit: a sampling request is computed whole by whoever has it, and gradients
come as nodes of the fixed tree by which they are added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import torch

from tinsmith.engine.bases import Bases, ServesRequests
from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.hollow import HollowDecoder, hollow_decoder
from tinsmith.engine.cluster.remote_sampler import RemoteSampler
from tinsmith.engine.cluster.remote_units import ComputeRemotely
from tinsmith.engine.cluster.shipping import RemotePolicy, base_policy, remote_policy
from tinsmith.engine.cluster.work import Fresh, FreshWork, Refused, Tensors, WorkerFacts
from tinsmith.engine.parts import Parts
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import check_spread, create_adapter
from tinsmith.models.base import BaseModel, OpenedBase, stored_base
from tinsmith.models.slots import load
from tinsmith.ops.select import select
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError
from tinsmith.types.gradient import GradientUnit


class ClusterEngine(Bases):
    """Serves base models that workers hold."""

    def __init__(
        self,
        models: Mapping[str, str],
        facts: WorkerFacts,
        dispatcher: Dispatcher,
        *,
        seed: int = 0,
        gradient_unit: GradientUnit = GradientUnit.TREE,
        shards: int = 1,
    ) -> None:
        """Serve `models` (served name -> folder or built-in name) by workers of which one says `facts`.

        Each worker is so many `shards`, processes that hold the bases together.

        Raises:
            ConfigError: there is no such model, or it is not supported.
            BackendError: the arithmetic of the workers is not to be had here.
        """
        self.kernels = select(Arithmetic(facts.arithmetic), "cpu")
        torch.set_num_threads(1)
        torch.set_flush_denormal(False)
        self.parts = Parts(policy_of=remote_policy)
        self.gradient_unit = gradient_unit
        self.dispatcher = dispatcher
        self.shards = shards
        self._facts = facts
        self._opened = {name: _opened(source, facts, name, seed) for name, source in models.items()}
        self._decoders: dict[tuple[str, bool], HollowDecoder] = {}
        self._samplers: dict[str, RemoteSampler] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._wake: Callable[[], None] = _nothing
        self._compute = ComputeRemotely(dispatcher, self._num_workers, _nothing)

    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Be driven."""
        self._wake = wake
        self._compute.tend = tend

    def certificate_sha256(self, name: str) -> str | None:
        """Identity of what each worker checked of a base's arithmetic."""
        return self._facts.bases[name].certificate

    def decoder(self, name: str, *, quantised: bool = False) -> HollowDecoder:
        """The base's shapes."""
        key = (name, quantised)
        if key not in self._decoders:
            config = self._base(name).config
            self._decoders[key] = hollow_decoder(config, self.kernels, served=name, quantised=quantised)
        return self._decoders[key]

    def create_session(self, name: str, spec: AdapterSpec) -> TrainingSession:
        """Start training fresh weights, which a worker draws.

        Raises:
            ConfigError: for a model that is not served.
            BackendError: no worker is left.
        """
        decoder = self.decoder(name, quantised=spec.kind.quantised)
        adapter = create_adapter(decoder, spec)
        fresh = {n: torch.from_numpy(a) for n, a in self._fresh(name, spec).items()}
        load(adapter.slots, fresh, source="a worker")
        adapter.changed()
        return self.prepare(TrainingSession(adapter))

    def prepare(self, session: TrainingSession) -> TrainingSession:
        """Let a session's units be computed by workers."""
        session.gradient_unit = self.gradient_unit
        session.compute = self._compute
        session.sampled = self.sampled_routes
        return session

    def check_kind(self, kind: AdapterKind) -> None:
        """Refuse to train all weights of a base that is spread over shards.

        Raises:
            ConfigError: naming the kinds that can be trained.
        """
        if self.shards > 1:
            check_spread(kind)

    def give_back(self) -> None:
        """Have workers do so too, once they have forgotten the weights that nothing here holds."""
        super().give_back()
        self.dispatcher.tidy()

    def base_policy(self, name: str, *, quantised: bool = False) -> RemotePolicy:
        """Sampling from the base alone."""
        return base_policy(self.decoder(name, quantised=quantised))

    def sampler(self, name: str) -> RemoteSampler:
        """The sampler that hands this base's requests to workers."""
        if name not in self._samplers:
            base = self._base(name)
            self._samplers[name] = RemoteSampler(
                base.config,
                self.dispatcher,
                lambda: self._wake(),
                text=self._token_bytes(name),
                grammars=self._grammars[name],
            )
        return self._samplers[name]

    @property
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """Every sampler made so far."""
        return dict(self._samplers)

    def _fresh(self, name: str, spec: AdapterSpec) -> Tensors:
        work = FreshWork(id=f"fresh-{next(self._numbers)}", name=name, spec=spec)
        outcome = self.dispatcher.future(work, 1, None).result()
        if isinstance(outcome, Refused):
            raise outcome.error
        if not isinstance(outcome, Fresh):
            raise BackendError(f"a worker answered {work.id} with something else")
        return outcome.tensors

    def _num_workers(self) -> int:
        return sum(worker.lost is None for worker in self.dispatcher.workers)


def _opened(source: str, facts: WorkerFacts, name: str, seed: int) -> OpenedBase:
    """A base whose weights lie elsewhere."""
    stored = stored_base(source, seed=seed)
    found = facts.bases[name]
    identity = BaseModel(
        name=source, fingerprint=found.fingerprint, config_sha256=found.config_sha256, seed=stored.seed
    )
    return OpenedBase(identity=identity, config=stored.config, weights={}, folder=stored.folder)


def _nothing() -> None:
    """Nobody drives the engine yet."""
