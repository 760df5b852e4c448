"""Weights for sampling: a base alone, or a base with a checkpoint's adapter. Called on the compute thread."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoints import Checkpoint, load_adapter
from tinsmith.engine.sequences import Policy
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.models.adapter import Adapter, check_router
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import TinsmithError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.model_names import ModelName


@dataclass(frozen=True, slots=True)
class Loaded:
    """Weights to sample from, and their identity."""

    policy: Policy
    weights: str


@contextmanager
def named_by_path(path: str, state: Path) -> Generator[None]:
    """Name a checkpoint by its tinker:// path in errors, and not by its folder on this server."""
    folder = str(TinkerPath.parse(path).folder(state))
    try:
        yield
    except TinsmithError as error:
        raise error.reworded(lambda text: text.replace(folder, path)) from None


def check_name(engine: Bases, name: ModelName) -> None:
    """Reject the name of a base that is not served, or with an adapter that no model of it can have.

    Raises:
        ConfigError: naming those that are served, or the impossible part.
    """
    config = engine.config(name.base)
    check_router(AdapterSpec(kind=name.kind, alpha=name.alpha, train_router=name.router), config)


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
