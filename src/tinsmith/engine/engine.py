"""The engine: base models in memory, training sessions on them, and one sampler per model shape.

What a server or a script drives. The arithmetic is chosen here, once, and certified on every base before anything is
computed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tinsmith.engine.bases import Bases, ServesRequests
from tinsmith.engine.checks.certificate import Certificate, certify
from tinsmith.engine.checks.certificate_store import CertificateStore, circumstances
from tinsmith.engine.checks.deviations import parts_of
from tinsmith.engine.parts import Parts, PolicyOf, unmerged
from tinsmith.engine.sampler import Sampler, SamplerLimits, usual_limits
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
from tinsmith.types.arithmetic import Arithmetic, Hold
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import BackendError, ConfigError
from tinsmith.types.gradient import GradientUnit
from tinsmith.types.sampling import SampleRequest, SampleResult

if TYPE_CHECKING:
    pass


class Engine(Bases):
    """Samples from and trains on one or several base models. One caller at a time."""

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
        kept: CertificateStore | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """Load `models`: name as served -> folder or built-in name (`tinsmith/nano`, drawn from `seed`).

        torch is left one thread on CPU where the native kernels compute: they have threads of their own. A `deviation`
        makes a negative control of the engine: its certificate does not refuse, it warns. A certificate is taken from
        `kept` where it is there, and put there where it is not; without, and for a deviation, each model is checked
        now. `hold` is how their matrices lie in memory: it changes no bit. What is being done is `told`, a line each.

        Raises:
            ConfigError, CheckpointError: a model cannot be loaded, or there is nothing to deviate from.
            BackendError: the arithmetic or device is not to be had here.
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
                self.certificates[name] = self._certificate(name, decoder, kept, say)

    def decoder(self, name: str, *, quantised: bool = False) -> Decoder:
        """The base's weights, shared by all sessions on it; its NF4 form is made when first asked for."""
        base = self._base(name)
        key = (name, quantised)
        if key not in self._decoders:
            decoder = build_decoder(base.config, base.weights, self.kernels, quantised=quantised)
            self._decoders[key] = decoder
            if not quantised:  # what was read lies in the decoder now, and is held once
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
        """Let a session compute as this engine does."""
        session.micro_batches = self.micro_batches
        session.order, session.gradient_unit = self.parts.order, self.gradient_unit
        session.sampled = self.sampled_routes
        return session

    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Nothing: its samplers go on in their steps, and nothing is waited for."""

    def tidy(self) -> None:
        """Nothing: what a request leaves is gone with it."""

    def base_policy(self, name: str, *, quantised: bool = False) -> Policy:
        """Sampling from the base alone."""
        decoder = self.decoder(name, quantised=quantised)
        return Policy(decoder, {}, decoder)

    def sampler(self, name: str) -> Sampler:
        """The sampler that serves this base model, whatever is trained on it."""
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
        """Every sampler made so far."""
        return tuple(self._samplers.values())

    @property
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """The same by the base model's name."""
        return dict(self._samplers)

    def certificate_sha256(self, name: str) -> str | None:
        """Identity of a base's certificate; None with arithmetic=fast."""
        certificate = self.certificates.get(name)
        return None if certificate is None else certificate.sha256

    def sample(self, name: str, requests: Sequence[SampleRequest], policies: Sequence[Policy]) -> list[SampleResult]:
        """Serve requests to the end; each has a policy on this base.

        Raises:
            InputError: for a request that cannot be served.
            BackendError: for weights whose logits are not finite.
        """
        results = self.sampler(name).sample(requests, policies)
        for request, result in zip(requests, results, strict=True):
            self.sampled_routes.keep(request, result)
        return results

    def _require_room(self) -> None:
        """Refuse models that cannot fit the device, before one is built; in bf16 a base takes half of fp32.

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
        self, name: str, decoder: Decoder, kept: CertificateStore | None, say: Callable[[str], None]
    ) -> Certificate:
        """The certificate of a model: the kept one if its circumstances are those of now, or else a new one."""
        sound = self.parts.deviation is Deviation.NONE
        where = circumstances(self.base(name), self.kernels) if kept and sound else None
        found = kept.find(where) if kept and where else None
        if found is not None:
            say(f"the certificate of {name} is kept from an earlier start")
            return found
        say(f"checking that {name} computes the same bits in any batch")
        certificate = certify(decoder, parts=self.parts)
        if kept and where:
            kept.keep(where, certificate)
        return certificate


def freeze(session: TrainingSession, policy_of: PolicyOf = unmerged) -> Policy:
    """A policy of the session's weights as they are now; later training does not change it."""
    return policy_of(session.adapter.snapshot())


def _silent(line: str) -> None:
    del line
