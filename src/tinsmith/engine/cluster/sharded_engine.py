"""Engine of a worker with several processes: it drives the last share of each base and calls the earlier ones.

Each form of a base, fp32 and NF4, has its own stages, driver, cache and sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinsmith.engine.bases import Bases, ServesRequests
from tinsmith.engine.cache import PagePool, SamplerLimits
from tinsmith.engine.cluster.freed_memory import give_back_freed_memory
from tinsmith.engine.cluster.shard import EarlierShard, Shard, ShardFacts
from tinsmith.engine.cluster.sharded import ShardedDecoder, ShardedPool, sharded
from tinsmith.engine.parts import SOUND, Parts
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Group, Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import OpenedBase
from tinsmith.models.decoder import Decoder
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import SampleRequest


class FormSamplers:
    """Samplers of a base's forms as one: a request goes to the form that its policy is on."""

    def __init__(self, make: Callable[[Decoder], Sampler]) -> None:
        self._make = make
        self._samplers: dict[Decoder, Sampler] = {}

    def submit(self, request: SampleRequest, policy: Policy, *, owner: str = "") -> Group:
        """Queue a request; see `Sampler.submit`."""
        if policy.decoder not in self._samplers:
            self._samplers[policy.decoder] = self._make(policy.decoder)
        return self._samplers[policy.decoder].submit(request, policy, owner=owner)

    def cancel(self, group: Group) -> None:
        """Drop a request; see `Sampler.cancel`."""
        self._samplers[group.policy.decoder].cancel(group)

    def step(self) -> list[Group]:
        """Advance each busy sampler by one step; return the requests that ended."""
        return [group for each in self._samplers.values() if each.busy for group in each.step()]

    @property
    def busy(self) -> bool:
        """True if any request is unfinished."""
        return any(each.busy for each in self._samplers.values())

    @property
    def num_running(self) -> int:
        """Number of samples being decoded."""
        return sum(each.num_running for each in self._samplers.values())

    @property
    def cache(self) -> PagePool | None:
        """None: each form has its own cache."""
        return None


class ShardedEngine(Bases):
    """Engine on bases that are spread over processes, of which this is the last. One caller at a time.

    Every call raises StageLostError once one of the others is gone; the engine cannot recover.
    """

    def __init__(
        self,
        shard: Shard,
        earlier: Sequence[EarlierShard],
        *,
        limits: SamplerLimits | None = None,
        micro_batches: MicroBatches | None = None,
        gradient_unit: GradientUnit = GradientUnit.TREE,
    ) -> None:
        """Serve the models of the last share together with the earlier ones, in order.

        Raises:
            ConfigError: the shares do not belong together.
            TinsmithError: an earlier share cannot be served; the reason is its own.
        """
        self.kernels = shard.kernels
        self.parts: Parts = SOUND
        self.micro_batches = micro_batches or MicroBatches()
        self.gradient_unit = gradient_unit
        self._limits = limits or SamplerLimits()
        self._shard, self._earlier = shard, tuple(earlier)
        self._facts = (*(each.facts() for each in earlier), shard.facts())
        for number, other in enumerate(self._facts):
            _require_same(self._facts[-1], other, number)
        self._opened = {name: _opened(shard, name) for name in shard.stored}
        self._decoders: dict[tuple[str, bool], ShardedDecoder] = {}
        self._samplers: dict[str, FormSamplers] = {}

    def certificate_sha256(self, name: str) -> str | None:
        """Identity of the certificates of all shares for a base; None if the arithmetic promises nothing."""
        found = [facts.bases[name].certificate for facts in self._facts]
        return None if None in found else sha256_of(found)

    def decoder(self, name: str, *, quantised: bool = False) -> ShardedDecoder:
        """Driver of a form of a base, which all shares read on first use."""
        stored = self._base(name)
        key = (name, quantised)
        if key not in self._decoders:
            stages = [each.stage(name, quantised=quantised) for each in self._earlier]
            self._decoders[key] = sharded(
                self._shard.decoder(name, quantised=quantised),
                stored.config,
                stages,
                self._shard.cut(name, quantised=quantised),
            )
        return self._decoders[key]

    def create_session(self, name: str, spec: AdapterSpec) -> TrainingSession:
        """Start training fresh weights on a base model.

        Raises:
            ConfigError: for a model that is not served, or `full`.
        """
        decoder = self.decoder(name, quantised=spec.kind.quantised)
        return self.prepare(TrainingSession(create_adapter(decoder, spec)))

    def prepare(self, session: TrainingSession) -> TrainingSession:
        """Configure a session to compute as this engine does."""
        session.micro_batches = self.micro_batches
        session.gradient_unit = self.gradient_unit
        session.sampled = self.sampled_routes
        return session

    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Do nothing: the samplers advance in their steps, and nothing blocks for long."""

    def tidy(self) -> None:
        """Make the shares drop what is unreferenced here, and return freed memory to the system."""
        for decoder in self._decoders.values():
            decoder.tidy()
        give_back_freed_memory()

    def base_policy(self, name: str, *, quantised: bool = False) -> Policy:
        """Policy that samples from the base alone."""
        return Policy(self.decoder(name, quantised=quantised), {})

    def sampler(self, name: str) -> FormSamplers:
        """Sampler that serves this base model and everything trained on it."""
        if name not in self._samplers:
            base = self._base(name)

            def make(decoder: Decoder) -> Sampler:
                assert isinstance(decoder, ShardedDecoder), "made by this engine"
                return Sampler(
                    base.config,
                    self.kernels,
                    limits=self._limits,
                    text=self._token_bytes(name),
                    grammars=self._grammars[name],
                    pool=ShardedPool(decoder, self._limits),
                )

            self._samplers[name] = FormSamplers(make)
        return self._samplers[name]

    @property
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """Samplers created so far, by the base model's name."""
        return dict(self._samplers)


def _opened(shard: Shard, name: str) -> OpenedBase:
    """Base model whose weights are held by its stages."""
    stored, identity = shard.stored[name], shard.identities[name]
    return OpenedBase(identity=identity, config=stored.config, weights={}, folder=stored.folder)


def _require_same(own: ShardFacts, other: ShardFacts, number: int) -> None:
    pairs: list[tuple[str, object, object]] = [
        ("version of tinsmith", other.source, own.source),
        ("arithmetic", other.arithmetic.value, own.arithmetic.value),
    ]
    for name, base in own.bases.items():
        found = other.bases[name]
        pairs.append((f"weights of {name}", found.fingerprint, base.fingerprint))
        pairs.append((f"config of {name}", found.config_sha256, base.config_sha256))
    for what, found, wanted in pairs:
        if found != wanted:
            raise ConfigError(
                f"the shares of a base do not belong together: another {what}",
                field=f"shard {number}",
                value=found,
                allowed=f"{wanted}, that of the last shard",
            )
