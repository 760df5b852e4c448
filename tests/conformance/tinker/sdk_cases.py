"""Data, steps and comparisons that the conformance tests share; all of it speaks the official SDK."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pytest
import tinker
from numpy.typing import NDArray
from sdk_server import Server
from tinker import types

TIMEOUT_S = 120.0
"""A call that waits longer has met a hang: far more than a loaded machine needs."""
USER_ERRORS = (tinker.BadRequestError, tinker.NotFoundError, tinker.UnprocessableEntityError, tinker.RequestFailedError)
"""The SDK's classes for it: those that it raises at once and never retries."""

FloatArray = NDArray[np.float32]


class Waiting(Protocol):
    """Any of the SDK's futures."""

    def result(self, timeout: float | None = None) -> object: ...


def tokens_of(text: str) -> list[int]:
    """The bytes of a text; every one is a token id of the model."""
    return list(text.encode())


def prompt_of(text: str) -> types.ModelInput:
    """The bytes of a text as a prompt."""
    return types.ModelInput.from_ints(tokens_of(text))


def datum(
    tokens: Sequence[int], inputs: Mapping[str, Sequence[float] | NDArray[np.generic]] | None = None
) -> types.Datum:
    """A datum that predicts every token but the first; `inputs` has one number per prediction."""
    columns: dict[str, types.TensorData] = {"target_tokens": types.TensorData(data=list(tokens[1:]), dtype="int64")}
    for name, values in (inputs or {}).items():
        columns[name] = types.TensorData.from_numpy(np.asarray(values, dtype=np.float32))
    return types.Datum(model_input=types.ModelInput.from_ints(list(tokens[:-1])), loss_fn_inputs=columns)


def text_datum(text: str) -> types.Datum:
    """A datum of a text whose every prediction weighs 1."""
    tokens = tokens_of(text)
    return datum(tokens, {"weights": np.ones(len(tokens) - 1)})


def lora(service: tinker.ServiceClient, model: str, *, rank: int = 4, seed: int = 0) -> tinker.TrainingClient:
    """A training client with a seeded adapter."""
    return service.create_lora_training_client(base_model=model, rank=rank, seed=seed).result(TIMEOUT_S)


def logprobs_of(output: types.ForwardBackwardOutput) -> list[FloatArray]:
    """The log-probabilities of every datum."""
    return [out["logprobs"].to_numpy() for out in output.loss_fn_outputs]


def forward(client: tinker.TrainingClient, data: list[types.Datum]) -> list[FloatArray]:
    """The log-probabilities the trainer computes now."""
    return logprobs_of(client.forward(data, "cross_entropy").result(TIMEOUT_S))


def sampler_logprobs(client: tinker.SamplingClient, text: str) -> FloatArray:
    """The log-probabilities the sampler gives a prompt's tokens, but the first."""
    values = client.compute_logprobs(prompt_of(text)).result(TIMEOUT_S)
    assert values[0] is None
    return np.array(values[1:], dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step as told to the client."""

    logprobs: list[FloatArray]
    loss: float
    grad_norm: float


def train(
    client: tinker.TrainingClient,
    batch: list[types.Datum],
    params: types.AdamParams,
    *,
    loss_fn: types.LossFnType = "cross_entropy",
    config: Mapping[str, float] | None = None,
) -> Step:
    """One step, optimizer submitted before the gradient is awaited."""
    forward_backward = client.forward_backward(batch, loss_fn, config)
    optim = client.optim_step(params)
    output = forward_backward.result(TIMEOUT_S)
    return Step(
        logprobs=logprobs_of(output), loss=output.metrics["loss:sum"], grad_norm=grad_norm(optim.result(TIMEOUT_S))
    )


def grad_norm(response: types.OptimStepResponse) -> float:
    """The norm of the gradient before clipping; 0 on a server that does not say."""
    return next((v for name, v in (response.metrics or {}).items() if name.startswith("grad_norm")), 0.0)


def same(server: Server, left: Sequence[FloatArray], right: Sequence[FloatArray]) -> bool:
    """Equal bits on a server that promises them, else within 1e-6."""
    if len(left) != len(right) or any(a.shape != b.shape for a, b in zip(left, right, strict=True)):
        return False
    if server.exact:
        return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))
    return all(np.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(left, right, strict=True))


def same_step(server: Server, left: Step, right: Step) -> bool:
    """Return true if two steps told the same."""
    numbers = [[np.array([step.loss, step.grad_norm], dtype=np.float32)] for step in (left, right)]
    return same(server, left.logprobs, right.logprobs) and same(server, numbers[0], numbers[1])


def refusal(call: Callable[[], Waiting]) -> str:
    """The message of a user's mistake, which arrives in an error class of the SDK."""
    with pytest.raises(USER_ERRORS) as caught:
        call().result(TIMEOUT_S)
    error = caught.value
    if isinstance(error, tinker.RequestFailedError):
        assert error.category is types.RequestErrorCategory.User, error
        return error.message
    assert isinstance(error, tinker.APIStatusError)
    return f"{error.message} {error.body}"
