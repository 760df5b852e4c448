"""Limits on a key's work at once, counted exactly: on the event loop, from acceptance to the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from tinsmith.types.errors import InputError, TinsmithError


class BusyError(TinsmithError):
    """A limit is reached by what is under way: the same request may be sent again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A key's limits; None: as much as the server has."""

    max_body: int | None = None
    """Bytes of one request's body."""
    max_requests: int | None = None
    """Requests under way: accepted, and without a result yet."""
    max_samples: int | None = None
    """Samples under way, of all sampling requests together."""
    max_tokens: int | None = None
    """Tokens that one sampling request may draw: its samples times the length each may have."""
    max_models: int | None = None
    """Models in training that are held in memory."""

    def check_sampling(self, num_samples: int, max_tokens: int) -> None:
        """Refuse a sampling request that no waiting would make small enough.

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
        """Refuse one more model in memory than there may be.

        Raises:
            InputError: `held` are as many as the key may have.
        """
        _require("max_models", self.max_models, held + 1, "unload a model first")


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class _Held:
    name: str
    num_requests: int
    num_samples: int


@dataclass(slots=True)
class Usage:
    """Work of every key under way. Used on the event loop only."""

    _held: dict[Hashable, _Held] = field(default_factory=dict[Hashable, _Held])
    _requests: Counter[str] = field(default_factory=Counter[str])
    _samples: Counter[str] = field(default_factory=Counter[str])

    @property
    def num_requests(self) -> int:
        """Requests under way, of all keys."""
        return self._requests.total()

    def require_room(
        self,
        name: str,
        limits: Limits,
        *,
        num_requests: int = 1,
        num_samples: int = 0,
        refusal: type[TinsmithError] = BusyError,
    ) -> None:
        """Refuse more requests of a key than it may have under way.

        Raises:
            BusyError, or another `refusal`: naming the limit.
        """
        requests, samples = self._requests[name] + num_requests, self._samples[name] + num_samples
        for limit, most, wanted in (
            ("max_requests", limits.max_requests, requests),
            ("max_samples", limits.max_samples, samples),
        ):
            if most is not None and wanted > most:
                raise refusal(
                    "this key has reached its limit of concurrent work",
                    field=limit,
                    value=wanted,
                    allowed=f"up to {most}",
                    fix="wait for results, then send the request again",
                )

    def begin(self, request: Hashable, name: str, *, num_requests: int = 1, num_samples: int = 0) -> None:
        """Count a request, or several as one, as under way."""
        self._held[request] = _Held(name, num_requests, num_samples)
        self._requests[name] += num_requests
        self._samples[name] += num_samples

    def end(self, request: Hashable) -> None:
        """Count a request as no longer under way; nothing if it was not."""
        held = self._held.pop(request, None)
        if held is not None:
            self._requests[held.name] -= held.num_requests
            self._samples[held.name] -= held.num_samples


def _require(limit: str, most: int | None, wanted: int, fix: str) -> None:
    if most is not None and wanted > most:
        raise InputError(
            "this is above the limit of this key", field=limit, value=wanted, allowed=f"up to {most}", fix=fix
        )
