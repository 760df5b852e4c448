"""One process's share of the served bases: a run of layers of each, in either form, created on demand.

Every process reads its layers from the model's files, checks the arithmetic on them, and reports the identity of their
weights, so that the driver can verify that the shares belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from tinsmith.engine.checks.certificate import Certificate, certify
from tinsmith.engine.checks.certificate_store import CertificateStore, circumstances
from tinsmith.engine.cluster.stage_calls import StageCalls
from tinsmith.engine.cluster.work import ServedFacts
from tinsmith.models.base import BaseModel, StoredBase, stored_base
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.stages import cut_layers, standing_alone
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.select import select
from tinsmith.types.arithmetic import Arithmetic, Hold
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.source import source_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFacts:
    """Facts of a share on which results depend."""

    source: str
    """SHA-256 of the package's source."""
    arithmetic: Arithmetic
    bases: Mapping[str, ServedFacts]
    """By served name; the certificates are of this share's layers."""


class EarlierShard(Protocol):
    """Share of another process, as the driver sees it."""

    def facts(self) -> ShardFacts:
        """Return the facts of the share. Raises TinsmithError if it cannot serve."""
        ...

    def stage(self, name: str, *, quantised: bool) -> StageCalls:
        """Return its stage of one form of a base."""
        ...


class Shard:
    """This process's share. It creates stages but holds none itself."""

    def __init__(
        self,
        models: Mapping[str, str],
        *,
        index: int,
        count: int,
        arithmetic: Arithmetic = Arithmetic.CANONICAL,
        seed: int = 0,
        hold: Hold = Hold.PUBLISHED,
        certificate_store: CertificateStore | None = None,
    ) -> None:
        """Register `models` (served name -> folder or built-in name) for share `index` of `count`.

        Certificates found in `certificate_store` are used; otherwise the fp32 layers are read, checked and dropped.

        Raises:
            ConfigError, CheckpointError: a model cannot be read, or has fewer layers than there are shares.
            BackendError: the arithmetic is not available here.
            DeterminismError: the certificate of a share does not hold.
        """
        self.index, self.count = index, count
        self.kernels: Kernels = select(arithmetic, "cpu")
        if arithmetic is Arithmetic.CANONICAL:
            torch.set_num_threads(1)
            torch.set_flush_denormal(False)
        self.stored: dict[str, StoredBase] = {}
        self.identities: dict[str, BaseModel] = {}
        self.certificates: dict[str, Certificate] = {}
        for name, source in models.items():
            self.stored[name] = stored_base(source, seed=seed, hold=hold)
            self.identities[name] = self.stored[name].identity()
            if arithmetic is not Arithmetic.FAST:
                self.certificates[name] = self._certificate(name, certificate_store)

    def facts(self) -> ShardFacts:
        """Return the facts of this share."""
        return ShardFacts(
            source=source_sha256(),
            arithmetic=self.kernels.arithmetic,
            bases={name: self._served(name) for name in self.stored},
        )

    def cut(self, name: str, *, quantised: bool) -> tuple[range, ...]:
        """Layers of every share of one form of a base."""
        return cut_layers(self.stored[name].config, self.count, quantised=quantised)

    def decoder(self, name: str, *, quantised: bool) -> Decoder:
        """Read this share of one form of a base."""
        stored = self.stored[name]
        return build_decoder(
            stored.config,
            stored.weights,
            self.kernels,
            quantised=quantised,
            layers=self.cut(name, quantised=quantised)[self.index],
        )

    def _served(self, name: str) -> ServedFacts:
        identity, certificate = self.identities[name], self.certificates.get(name)
        return ServedFacts(
            fingerprint=identity.fingerprint,
            config_sha256=identity.config_sha256,
            certificate=None if certificate is None else certificate.sha256,
        )

    def _certificate(self, name: str, certificate_store: CertificateStore | None) -> Certificate:
        layers, whole = self.cut(name, quantised=False)[self.index], self.identities[name]
        part = sha256_of((whole.config_sha256, layers.start, layers.stop))
        where = circumstances(replace(whole, config_sha256=part), self.kernels) if certificate_store else None
        found = certificate_store.find(where) if certificate_store and where else None
        if found is None:
            found = certify(standing_alone(self.decoder(name, quantised=False)))
            if certificate_store and where:
                certificate_store.keep(where, found)
        return found
