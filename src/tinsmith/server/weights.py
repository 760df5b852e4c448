"""Weights for sampling: a base alone, or a base with a checkpoint's adapter. Called on the compute thread."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoints import Checkpoint, load_adapter
from tinsmith.engine.sequences import Policy
from tinsmith.models.adapter import Adapter
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.fingerprints import sha256_of


@dataclass(frozen=True, slots=True)
class Loaded:
    """Weights to sample from, and their identity."""

    policy: Policy
    weights: str


def load_base(engine: Bases, name: str, kind: AdapterKind) -> Loaded:
    """Sample from the base, in the precision on which adapters of this kind are trained."""
    policy = engine.base_policy(name, quantised=kind.quantised)
    return Loaded(policy, engine.base(name).fingerprint)


def load_checkpoint(engine: Bases, name: str, checkpoint: Checkpoint) -> Loaded:
    """Sample from a checkpoint.

    Raises:
        CheckpointError: it is of another base, or damaged.
        ConfigError: its kind is not supported here.
    """
    adapter = adapter_of(engine, name, checkpoint)
    return Loaded(engine.parts.policy_of(adapter), weights_of(checkpoint))


def adapter_of(engine: Bases, name: str, checkpoint: Checkpoint) -> Adapter:
    """Return a checkpoint's adapter on a served base.

    Raises:
        CheckpointError: it is of another base, or damaged.
        ConfigError: its kind is not supported here.
    """
    engine.check_kind(checkpoint.spec.kind)
    decoder = engine.decoder(name, quantised=checkpoint.spec.kind.quantised)
    return load_adapter(decoder, checkpoint, base=engine.base(name))


def weights_of(checkpoint: Checkpoint) -> str:
    """Return the identity of a checkpoint's weights."""
    return sha256_of(dict(checkpoint.files))
