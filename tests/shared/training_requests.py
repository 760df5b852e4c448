"""A small training request, as the SDK writes it."""

import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tinker.proto import tinker_public_pb2 as wire

from running import Running


def forward_backward(model: str, seq_id: int, *, forward_only: bool = False) -> bytes:
    """The body of a request with one datum of 15 tokens."""
    tokens = np.arange(20, 36, dtype="<i4")
    request = wire.ForwardBackwardRequest(
        model_id=model, seq_id=seq_id, loss_fn="cross_entropy", forward_only=forward_only
    )
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = tokens[:-1].tobytes()
    target = datum.loss_fn_inputs["target_tokens"]
    target.dense = tokens[1:].astype("<i8").tobytes()
    target.dtype = 2
    target.shape.append(15)
    return request.SerializeToString()


def train(server: Running, model: str, seq_id: int, *, forward_only: bool = False) -> str:
    """Send it; return the id of the request."""
    body = forward_backward(model, seq_id, forward_only=forward_only)
    answer = server.http.post("/api/v1/forward_backward", content=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["request_id"])
