"""Limits on a key's concurrent work, counted exactly on the event loop, from acceptance to the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from tinsmith.types.errors import InputError, TinsmithError

MOST_BYTES = 4 << 30
"""Default limit on the bytes of datums of a key that were accepted and are not computed yet."""


class BusyError(TinsmithError):
    """Error for a limit on concurrent work; the client may retry later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a key; None means only the server's own limits apply."""

    max_body: int | None = None
    """Most bytes in one request's body."""
    max_requests: int | None = None
    """Most accepted requests without a result."""
    max_samples: int | None = None
    """Most concurrent samples over all sampling requests."""
    max_tokens: int | None = None
    """Most tokens that one sampling request may draw: its number of samples times their most tokens."""
    max_models: int | None = None
    """Most models in training held in memory."""
    max_bytes: int = MOST_BYTES
    """Most bytes of the datums of training requests in progress; a single request may have more."""

    def check_sampling(self, num_samples: int, max_tokens: int) -> None:
        """Reject a sampling request that exceeds the key's limits by itself.

        Raises:
            InputError: it asks for more samples, or may draw more tokens, than the key may have.
        """
        _require("max_samples", self.max_samples, num_samples, "ask for fewer samples at once")
        _require(
            "max_tokens",
            self.max_tokens,
            num_samples * max_tokens,
            "ask for fewer samples, or set max_tokens to fewer tokens",
        )

    def check_models(self, held: int) -> None:
        """Reject a new model if `held` models reach the key's limit.

        Raises:
            InputError: the limit is reached.
        """
        _require("max_models", self.max_models, held + 1, "unload a model first")


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class _Held:
    name: str
    num_requests: int
    num_samples: int
    num_bytes: int


@dataclass(slots=True)
class Usage:
    """Concurrent work of every key. Used on the event loop only."""

    _held: dict[Hashable, _Held] = field(default_factory=dict[Hashable, _Held])
    _requests: Counter[str] = field(default_factory=Counter[str])
    _samples: Counter[str] = field(default_factory=Counter[str])
    _bytes: Counter[str] = field(default_factory=Counter[str])

    @property
    def num_requests(self) -> int:
        """Number of requests in progress, over all keys."""
        return self._requests.total()

    def require_room(
        self,
        name: str,
        limits: Limits,
        *,
        num_requests: int = 1,
        num_samples: int = 0,
        num_bytes: int = 0,
        refusal: type[TinsmithError] = BusyError,
    ) -> None:
        """Reject further requests of a key that has reached its limit.

        Raises:
            BusyError, or another `refusal`: naming the limit.
        """
        requests, samples = self._requests[name] + num_requests, self._samples[name] + num_samples
        waiting = self._bytes[name] if num_bytes else 0
        for limit, most, wanted in (
            ("max_requests", limits.max_requests, requests),
            ("max_samples", limits.max_samples, samples),
            ("max_bytes", limits.max_bytes, waiting and waiting + num_bytes),
        ):
            if most is not None and wanted > most:
                raise refusal(
                    "this key has reached its limit of concurrent work",
                    field=limit,
                    value=wanted,
                    allowed=f"up to {most}",
                    fix="wait for results, then send the request again",
                )

    def begin(
        self, request: Hashable, name: str, *, num_requests: int = 1, num_samples: int = 0, num_bytes: int = 0
    ) -> None:
        """Start counting a request, possibly as several."""
        self._held[request] = _Held(name, num_requests, num_samples, num_bytes)
        self._requests[name] += num_requests
        self._samples[name] += num_samples
        self._bytes[name] += num_bytes

    def end(self, request: Hashable) -> None:
        """Stop counting a request; harmless if it was not counted."""
        held = self._held.pop(request, None)
        if held is not None:
            self._requests[held.name] -= held.num_requests
            self._samples[held.name] -= held.num_samples
            self._bytes[held.name] -= held.num_bytes


def _require(limit: str, most: int | None, wanted: int, fix: str) -> None:
    if most is not None and wanted > most:
        raise InputError(
            "this is above the limit of this key", field=limit, value=wanted, allowed=f"up to {most}", fix=fix
        )
