"""Compatibility with older releases of the official client and with other servers.

The client's newer releases hand out futures where the older ones (0.25, which most servers of others speak) wait
themselves; what is read of a server's metrics is read here, because their names are each server's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar, cast

import tinker
from tinker import types

from tinsmith.types.errors import BackendError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Waiting(Protocol[T_co]):
    """Any of the client's futures."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result."""
        ...


def ready(made: Waiting[T], seconds: float) -> T:
    """Return the result of a client's call; an older client returns it directly instead of a future."""
    return made.result(seconds) if hasattr(made, "result") else cast("T", made)


class Ended(StrEnum):
    """End of a session, in the words of the protocol."""

    SUCCESS = "success"
    INTERRUPTED = "interrupted"


def end_session(service: tinker.ServiceClient, how: Ended, seconds: float) -> None:
    """End a session on the server; with an older client, the server's timeout does."""
    if hasattr(service, "close"):
        ready(service.close(how.value), seconds)


def rest_client(service: tinker.ServiceClient, url: str, key: str) -> tinker.RestClient:
    """Return the REST client; an older client needs a session for it."""
    if hasattr(tinker, "RestClient"):
        return tinker.RestClient(base_url=url, api_key=key)
    return service.create_rest_client()  # pyright: ignore[reportDeprecated]


@dataclass(frozen=True, slots=True)
class Served:
    """Model that a server lists."""

    name: str
    trainable: bool = True
    context: int | None = None  # The most tokens a sequence may have, where the server says so.


def served_models(service: tinker.ServiceClient, rest: tinker.RestClient, seconds: float) -> Sequence[Served]:
    """Return the models that a server lists; an older client does not read which can be trained."""
    if hasattr(rest, "get_server_capabilities"):
        capabilities = ready(rest.get_server_capabilities(), seconds)
    else:
        capabilities = service.get_server_capabilities()  # pyright: ignore[reportDeprecated]
    return [
        Served(
            one.model_name,
            trainable=getattr(one, "trainable", None) is not False,
            context=getattr(one, "max_context_length", None),
        )
        for one in capabilities.supported_models
        if one.model_name
    ]


def text_logprobs(reported: Sequence[float | None], tokens: int) -> list[float | None]:
    """Return `compute_logprobs` as one entry per token of a text, None for the first.

    Some servers leave the first token's entry out.

    >>> text_logprobs([-1.0, -2.0], 3)
    [None, -1.0, -2.0]
    """
    whole = [None, *reported] if len(reported) == tokens - 1 else list(reported)
    if len(whole) != tokens or None in whole[1:]:
        raise BackendError(f"the server told {len(reported)} log-probabilities of a text of {tokens} tokens")
    return whole


def loss_of(output: types.ForwardBackwardOutput) -> float | None:
    """Return the sum of a loss over datums, if the server reports it."""
    return output.metrics.get("loss:sum")


def grad_norm_of(metrics: Mapping[str, float] | None) -> float | None:
    """Return the gradient's norm before clipping, if the server reports it.

    >>> grad_norm_of({"grad_norm:mean": 2.0}), grad_norm_of({"skyrl.ai/grad_norm": 3.0}), grad_norm_of(None)
    (2.0, 3.0, None)
    """
    for name, value in (metrics or {}).items():
        if name.rpartition("/")[2].startswith("grad_norm"):
            return value
    return None
