"""Records of the server as frozen values: sessions, runs, outcomes of requests, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.types.adapters import AdapterSpec

CANCELLED = "cancelled"
"""Status of a session whose client disconnected without finishing it."""


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
    """Client's reason for the end (`success`, `errored`, `interrupted`), or CANCELLED; None while open."""
    finished_detail: str | None
    created_at: float | None = None
    """Wall clock time in seconds since 1970; None for a session of a version that did not store it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Trained model, in memory or not."""

    model_id: str
    """Id `{session_id}:train:{model_seq_id}`, which the client derives too."""
    session_id: str
    model_seq_id: int
    base_model: str
    """Requested name, with its suffix (`NAME:dora`)."""
    spec: AdapterSpec
    user_metadata: Mapping[str, object] | None
    created_at: float
    """Wall clock time in seconds since 1970."""
    last_request_at: float
    last_applied_seq_id: int
    """Last executed request; all earlier ones were executed too. 0 is the model's creation."""
    unloaded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSession:
    """Source of a `SamplingClient`'s samples."""

    sampling_session_id: str
    """Id `{session_id}:sample:{sampling_session_seq_id}`."""
    session_id: str
    sampling_session_seq_id: int
    base_model: str
    model_path: str | None
    """A checkpoint's `tinker://` path; None for the base or a snapshot."""
    snapshot: bool
    """True if its weights were in memory only: after a restart they are lost."""
    weights: str | None = None
    """Identity of a checkpoint's weights; None without one, and in a record of a version that did not store it."""


class ErrorCategory(StrEnum):
    """Side that must act on a failed request, as named by the SDK."""

    USER = "user"
    SERVER = "server"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """Accepted request that is not settled."""

    request_id: str
    owner: str
    seq_id: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Result of a request, encoded for sending."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Error of a request that has no result."""

    message: str
    category: ErrorCategory


class NoResult(StrEnum):
    """Reason that a request has nothing to send."""

    PENDING = "pending"
    FORGOTTEN = "forgotten"
    """Its body was dropped in favour of later ones."""
    UNKNOWN = "unknown"


Outcome = Finished | Failed | NoResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """Record of a checkpoint beside its files."""

    path: TinkerPath
    base_model: str
    """Requested name, with its suffix."""
    rank: int | None
    """LoRA rank; None if all weights are trained."""
    created_at: float
    """Wall clock time in seconds since 1970; the order of creation does not depend on it."""
    expires_at: float | None
    user_metadata: Mapping[str, object] | None
    size_bytes: int
    public: bool = False
    """True if it is published: every key of the server may read it."""

    @property
    def model_id(self) -> str:
        """Training run that saved it."""
        return self.path.session

    @property
    def kind(self) -> CheckpointKind:
        """Purpose: training or sampling."""
        return self.path.kind


def dumped_metadata(metadata: Mapping[str, object] | None) -> str:
    """Encode a user's metadata for storage; no metadata differs from empty metadata."""
    return json.dumps(None if metadata is None else dict(metadata))


def loaded_metadata(text: str) -> Mapping[str, object] | None:
    """Decode metadata encoded by `dumped_metadata`."""
    metadata: dict[str, object] | None = json.loads(text)
    return None if metadata is None else MappingProxyType(metadata)
