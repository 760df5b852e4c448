"""Engine of a server with workers: it owns adapters, optimizers and order, and the workers compute.

Every result is that of one process, bit for bit: a sampling request is computed entirely by one worker, and gradients
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
from tinsmith.types.arithmetic import Arithmetic, GradientUnit
from tinsmith.types.errors import BackendError


class ClusterEngine(Bases):
    """Engine that serves base models held by workers."""

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
        """Serve `models` (served name -> folder or built-in name) by workers that report `facts`.

        Each worker consists of `shards` processes that hold the bases together.

        Raises:
            ConfigError: there is no such model, or it is not supported.
            BackendError: the arithmetic of the workers is not available here.
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
        """Register callbacks; see `Bases.attend`."""
        self._wake = wake
        self._compute.tend = tend

    def certificate_sha256(self, name: str) -> str | None:
        """Identity of the certificate that each worker issued for a base's arithmetic."""
        return self._facts.bases[name].certificate

    def decoder(self, name: str, *, quantised: bool = False) -> HollowDecoder:
        """Decoder with the base's shapes only."""
        key = (name, quantised)
        if key not in self._decoders:
            config = self._base(name).config
            self._decoders[key] = hollow_decoder(config, self.kernels, served=name, quantised=quantised)
        return self._decoders[key]

    def create_session(self, name: str, spec: AdapterSpec) -> TrainingSession:
        """Start training fresh weights, drawn by a worker.

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
        """Configure a session to compute its units on workers."""
        session.gradient_unit = self.gradient_unit
        session.compute = self._compute
        session.sampled = self.sampled_routes
        return session

    def check_kind(self, kind: AdapterKind) -> None:
        """Reject training of all weights if the base is spread over shards.

        Raises:
            ConfigError: naming the kinds that can be trained.
        """
        if self.shards > 1:
            check_spread(kind)

    def give_back(self) -> None:
        """Make workers return free memory, after they have dropped weights that are no longer in use here."""
        super().give_back()
        self.dispatcher.tidy()

    def base_policy(self, name: str, *, quantised: bool = False) -> RemotePolicy:
        """Policy that samples from the base alone."""
        return base_policy(self.decoder(name, quantised=quantised))

    def sampler(self, name: str) -> RemoteSampler:
        """Sampler that forwards this base's requests to workers."""
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
        """Samplers created so far, by the base model's name."""
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
    """Base model whose weights are held elsewhere."""
    stored = stored_base(source, seed=seed)
    found = facts.bases[name]
    identity = BaseModel(
        name=source, fingerprint=found.fingerprint, config_sha256=found.config_sha256, seed=stored.seed
    )
    return OpenedBase(identity=identity, config=stored.config, weights={}, folder=stored.folder)


def _nothing() -> None:
    """Default of the callbacks: the engine is not driven yet."""
