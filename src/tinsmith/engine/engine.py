"""Engine: base models in memory, training sessions on them, and one sampler per base model.

Servers and scripts drive it. The arithmetic is chosen here, once, and certified on every base before its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tinsmith.engine.bases import Bases, ServesRequests
from tinsmith.engine.cache import SamplerLimits, usual_limits
from tinsmith.engine.checks.certificate import Certificate, certify
from tinsmith.engine.checks.certificate_store import CertificateStore, circumstances
from tinsmith.engine.checks.deviations import parts_of
from tinsmith.engine.parts import Parts, PolicyOf, unmerged
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import OpenedBase, open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.stages import held_bytes
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.select import select
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import Arithmetic, GradientUnit, Hold
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import BackendError, ConfigError
from tinsmith.types.sampling import SampleRequest, SampleResult

if TYPE_CHECKING:
    pass


class Engine(Bases):
    """Engine that samples from and trains on one or several base models. One caller at a time."""

    def __init__(
        self,
        models: Mapping[str, str],
        *,
        arithmetic: Arithmetic = Arithmetic.CANONICAL,
        device: str = "cpu",
        seed: int = 0,
        limits: SamplerLimits | None = None,
        micro_batches: MicroBatches | None = None,
        deviation: Deviation = Deviation.NONE,
        gradient_unit: GradientUnit = GradientUnit.TREE,
        hold: Hold = Hold.PUBLISHED,
        certificate_store: CertificateStore | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """Load `models`: name as served -> folder or built-in name (`tinsmith/nano`, drawn from `seed`).

        On CPU torch gets one thread, since the native kernels have threads of their own. A `deviation` makes the engine
        a negative control, whose certificate warns instead of failing. Certificates are read from and saved to
        `certificate_store`; without one, or with a deviation, each model is checked now. `hold` sets the storage format
        of the matrices in memory and changes no bit. Progress goes to `say`, line by line.

        Raises:
            ConfigError, CheckpointError: a model cannot be loaded, or there is nothing to deviate from.
            BackendError: the arithmetic or device is not available here.
            DeterminismError: the certificate of a model does not hold.
        """
        if deviation is not Deviation.NONE and (arithmetic is not Arithmetic.CANONICAL or device != "cpu"):
            raise ConfigError(
                "deviations are only possible with canonical arithmetic on CPU",
                field="deviation",
                value=deviation.value,
                allowed=f"none with arithmetic={arithmetic} on device={device}",
            )
        self.kernels: Kernels = select(arithmetic, device)
        self.parts: Parts = parts_of(deviation)
        self.micro_batches = micro_batches or MicroBatches()
        self.gradient_unit = gradient_unit
        if arithmetic is Arithmetic.CANONICAL:
            torch.set_num_threads(1)
            torch.set_flush_denormal(False)  # elementwise steps outside the kernels keep denormals too
        sound = deviation is Deviation.NONE
        self._limits = limits or (usual_limits(arithmetic) if sound else SamplerLimits())
        say = say or _silent
        self._opened: dict[str, OpenedBase] = {}
        for name, source in models.items():
            say(f"reading the weights of {name}" + (f" from {source}" if source != name else ""))
            self._opened[name] = open_base(source, seed=seed, hold=hold if self.kernels.reads_packed else Hold.FP32)
        self._require_room()
        self._decoders: dict[tuple[str, bool], Decoder] = {}
        self._samplers: dict[str, Sampler] = {}
        self.certificates: dict[str, Certificate] = {}
        if arithmetic is not Arithmetic.FAST:
            for name in self._opened:
                say(f"preparing the weights of {name}")
                decoder = self.decoder(name)
                self.certificates[name] = self._certificate(name, decoder, certificate_store, say)

    def decoder(self, name: str, *, quantised: bool = False) -> Decoder:
        """Decoder with the base's weights, shared by all its sessions; the NF4 form is created on first use."""
        base = self._base(name)
        key = (name, quantised)
        if key not in self._decoders:
            decoder = build_decoder(base.config, base.weights, self.kernels, quantised=quantised)
            self._decoders[key] = decoder
            if not quantised:  # the decoder now owns the weights that were read, so that they are in memory once
                self._opened[name] = replace(base, weights=decoder.published())
        return self._decoders[key]

    def create_session(
        self, name: str, spec: AdapterSpec, *, micro_batches: MicroBatches | None = None
    ) -> TrainingSession:
        """Start training fresh weights on a base model.

        Raises:
            ConfigError: for a model that is not served.
        """
        decoder = self.decoder(name, quantised=spec.kind.quantised)
        session = self.prepare(TrainingSession(create_adapter(decoder, spec)))
        session.micro_batches = micro_batches or self.micro_batches
        return session

    def prepare(self, session: TrainingSession) -> TrainingSession:
        """Configure a session to compute as this engine does."""
        session.micro_batches = self.micro_batches
        session.order, session.gradient_unit = self.parts.order, self.gradient_unit
        session.sampled = self.sampled_routes
        return session

    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Do nothing: a local engine has no background work to wait for."""

    def tidy(self) -> None:
        """Do nothing: a local engine holds no resources of a request."""

    def base_policy(self, name: str, *, quantised: bool = False) -> Policy:
        """Policy that samples from the base alone."""
        decoder = self.decoder(name, quantised=quantised)
        return Policy(decoder, {}, decoder)

    def sampler(self, name: str) -> Sampler:
        """Sampler that serves this base model and everything trained on it."""
        if name not in self._samplers:
            base = self._base(name)
            self._samplers[name] = Sampler(
                base.config,
                self.parts.sampling(self.kernels),
                limits=self._limits,
                text=self._token_bytes(name),
                grammars=self._grammars[name],
            )
        return self._samplers[name]

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """Samplers created so far."""
        return tuple(self._samplers.values())

    @property
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """Samplers created so far, by the base model's name."""
        return dict(self._samplers)

    def certificate_sha256(self, name: str) -> str | None:
        """Identity of a base's certificate; None with arithmetic=fast."""
        certificate = self.certificates.get(name)
        return None if certificate is None else certificate.sha256

    def sample(self, name: str, requests: Sequence[SampleRequest], policies: Sequence[Policy]) -> list[SampleResult]:
        """Run requests to completion; each has a policy on this base.

        Raises:
            InputError: for a request that cannot be served.
            BackendError: for weights whose logits are not finite.
        """
        results = self.sampler(name).sample(requests, policies)
        for request, result in zip(requests, results, strict=True):
            self.sampled_routes.keep(request, result)
        return results

    def _require_room(self) -> None:
        """Reject models that cannot fit the device before any is built; in bf16 a base takes half the memory of fp32.

        Raises:
            BackendError: one line.
        """
        free = self.kernels.free_bytes()
        bases = {name: base.config for name, base in self._opened.items()}
        needed = sum(held_bytes(config, range(config.num_layers)) // 2 for config in bases.values())
        if free is not None and needed > free:
            what = f"{', '.join(bases)} would take at least {needed / 2**30:.1f} GiB"
            raise BackendError(f"{what}, and {free / 2**30:.1f} GiB are free on device={self.kernels.device}")

    def _certificate(
        self, name: str, decoder: Decoder, certificate_store: CertificateStore | None, say: Callable[[str], None]
    ) -> Certificate:
        """Return a model's certificate: the saved one if its circumstances still hold, or else a new one."""
        sound = self.parts.deviation is Deviation.NONE
        where = circumstances(self.base(name), self.kernels) if certificate_store and sound else None
        found = certificate_store.find(where) if certificate_store and where else None
        if found is not None:
            say(f"the certificate of {name} is kept from an earlier start")
            return found
        say(f"checking that {name} computes the same bits in any batch")
        certificate = certify(decoder, parts=self.parts)
        if certificate_store and where:
            certificate_store.keep(where, certificate)
        return certificate


def freeze(session: TrainingSession, policy_of: PolicyOf = unmerged) -> Policy:
    """Return a policy with the session's current weights; later training does not change it."""
    return policy_of(session.adapter.snapshot())


def _silent(line: str) -> None:
    del line
