"""Ways of older clients and of servers of others, read as what they mean."""

import warnings
from concurrent.futures import Future
from typing import Any, cast

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types

from tinsmith.lab.service.official_client import (
    Ended,
    Served,
    end_session,
    grad_norm_of,
    ready,
    rest_client,
    served_models,
    text_logprobs,
)
from tinsmith.types.errors import BackendError


def test_what_is_not_a_future_is_there_already() -> None:
    future: Future[int] = Future()
    future.set_result(3)
    assert ready(future, 0.0) == 3
    assert ready(cast("Future[int]", 4), 0.0) == 4


@pytest.mark.parametrize("told", [[None, -1.0, -2.0], [-1.0, -2.0]], ids=["all tokens", "the first left out"])
def test_log_probabilities_stand_at_their_tokens(told: list[float | None]) -> None:
    assert text_logprobs(told, 3) == [None, -1.0, -2.0]


@pytest.mark.parametrize("told", [[-1.0], [None, -1.0, None], [None, -1.0, -2.0, -3.0]])
def test_log_probabilities_that_are_missing_are_an_error(told: list[float | None]) -> None:
    with pytest.raises(BackendError):
        text_logprobs(told, 3)


@pytest.mark.parametrize(
    ("metrics", "norm"), [({"grad_norm:mean": 2.0}, 2.0), ({"skyrl.ai/grad_norm": 3.0}, 3.0), ({"loss:sum": 1.0}, None)]
)
def test_the_gradients_norm_has_each_servers_own_name(metrics: dict[str, float], norm: float | None) -> None:
    assert grad_norm_of(metrics) == norm


class _OlderClient:
    """A client that cannot end a session, waits itself, and makes the other clients."""

    def create_rest_client(self) -> object:
        return self

    def get_server_capabilities(self) -> Any:
        return types.GetServerCapabilitiesResponse(supported_models=[types.SupportedModel(model_name="one")])


def test_an_older_client_is_asked_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tinker, "RestClient")
    service = cast("tinker.ServiceClient", _OlderClient())
    end_session(service, Ended.SUCCESS, 0.0)
    rest = rest_client(service, "http://127.0.0.1:1", "tml-x")
    assert rest is cast("object", service)
    assert served_models(service, cast("tinker.RestClient", object()), 0.0) == [Served("one")]
