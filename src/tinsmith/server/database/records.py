"""Records of the server, as frozen values: sessions, runs, requests' outcomes, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.types.adapters import AdapterSpec

CANCELLED = "cancelled"
"""Of a session that its client did not finish: it was gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Session that a `ServiceClient` opened."""

    session_id: str
    tags: tuple[str, ...]
    user_metadata: Mapping[str, object] | None
    sdk_version: str
    project_id: str | None
    display_name: str | None
    finished: str | None
    """Reason that the client finished it (`success`, `errored`, `interrupted`), or CANCELLED; None while open."""
    finished_detail: str | None
    created_at: float | None = None
    """Wall clock, seconds since 1970; None for a session of a version that did not keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One trained model, alive or not."""

    model_id: str
    """`{session_id}:train:{model_seq_id}`: the client computes it too."""
    session_id: str
    model_seq_id: int
    base_model: str
    """The name that was asked for, with its suffix (`NAME:dora`)."""
    spec: AdapterSpec
    user_metadata: Mapping[str, object] | None
    created_at: float
    """Wall clock, seconds since 1970."""
    last_request_at: float
    last_applied_seq_id: int
    """All requests up to this one have been carried out; 0 is the model's creation."""
    unloaded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSession:
    """Source of a `SamplingClient`'s samples."""

    sampling_session_id: str
    """`{session_id}:sample:{sampling_session_seq_id}`."""
    session_id: str
    sampling_session_seq_id: int
    base_model: str
    model_path: str | None
    """A checkpoint's `tinker://` path; None samples from the base, or from a snapshot."""
    snapshot: bool
    """Its weights were held in memory only: after a restart it cannot be sampled from."""


class ErrorCategory(StrEnum):
    """Side that has to act on a failed request; the SDK's own words."""

    USER = "user"
    SERVER = "server"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """A request that was accepted and neither finished nor failed."""

    request_id: str
    owner: str
    seq_id: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A request's result, as it is sent."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Error of a request that has no result and never will."""

    message: str
    category: ErrorCategory


class NoResult(StrEnum):
    """Reason that there is nothing to send for a request."""

    PENDING = "pending"
    FORGOTTEN = "forgotten"
    """It finished, and so many after it that its body was dropped."""
    UNKNOWN = "unknown"


Outcome = Finished | Failed | NoResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """Record of a checkpoint beside its files."""

    path: TinkerPath
    base_model: str
    """The name that was asked for, with its suffix."""
    rank: int | None
    """None where all weights are trained."""
    created_at: float
    """Wall clock, seconds since 1970; the order of creation does not depend on it."""
    expires_at: float | None
    user_metadata: Mapping[str, object] | None
    size_bytes: int
    public: bool = False
    """True if its owner published it: then every key of the server reads it."""

    @property
    def model_id(self) -> str:
        """The training run that saved it."""
        return self.path.session

    @property
    def kind(self) -> CheckpointKind:
        """To train on from, or to sample from."""
        return self.path.kind


def dumped_metadata(metadata: Mapping[str, object] | None) -> str:
    """Return a user's metadata as it is stored; no metadata is not the same as empty metadata."""
    return json.dumps(None if metadata is None else dict(metadata))


def loaded_metadata(text: str) -> Mapping[str, object] | None:
    """Return what `dumped_metadata` stored."""
    metadata: dict[str, object] | None = json.loads(text)
    return None if metadata is None else MappingProxyType(metadata)
