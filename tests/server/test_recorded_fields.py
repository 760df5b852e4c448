"""Losses and fields of the SDK do what scripts/sdk_served.toml says: computed, refused by name, or of no effect."""

import json
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tenants import NANO, Tenants, let

from loopback import KEPT
from tinsmith.engine.engine import Engine
from tinsmith.engine.validation import loss_by_name
from tinsmith.ops.objectives.losses import LOSSES
from tinsmith.server.wire import requests
from tinsmith.server.wire.body import Request, parse_json
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.datum import LossName
from tinsmith.types.errors import InputError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types as sdk
    from tinker.proto.request_conv import forward_backward_request_to_proto
    from tinker.types.forward_backward_request import ForwardBackwardRequest
    from tinker.types.provenance_spans import SampledProvenanceSpan


RECORD = tomllib.loads((Path(__file__).parents[2] / "scripts/sdk_served.toml").read_text("utf-8"))
TOKENS = [1, 2, 3]
SPAN = SampledProvenanceSpan(sequence_id="a", offset=0, length=3)
SPANS = ["Datum.loss_fn_input_spans", "Datum.model_input_spans"]
BY_GRAPH = "custom"
"""Names no formula: the client's own, sent as a graph (tests/ops/custom_loss)."""


def losses(table: str) -> list[str]:
    return [line.partition("=")[2] for line in RECORD[table] if line.startswith("LossFnType=")]


def request(datum: tinker.Datum, loss: str = "ppo") -> bytes:
    given = tinker.types.ForwardBackwardInput(data=[datum], loss_fn=loss)  # type: ignore[arg-type]
    asked = ForwardBackwardRequest(forward_backward_input=given, model_id="m", seq_id=1)
    return forward_backward_request_to_proto(asked).SerializeToString()


def datum(chunk: Any = None) -> tinker.Datum:
    read = tinker.ModelInput.from_ints(TOKENS) if chunk is None else tinker.ModelInput(chunks=[chunk])
    return tinker.Datum(model_input=read, loss_fn_inputs={"target_tokens": TOKENS})  # type: ignore[arg-type]


def test_the_losses_that_are_recorded_are_those_that_are_computed() -> None:
    assert {loss_by_name(name) for name in losses("served") if name != BY_GRAPH} == set(LOSSES) - {BY_GRAPH}
    assert BY_GRAPH in losses("served")
    assert set(losses("served")) == {loss.value for loss in LossName} | {BY_GRAPH}


@pytest.mark.parametrize("name", losses("refused"))
def test_a_loss_that_is_not_computed_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=name):
        loss_by_name(parse_forward_backward(request(datum(), name)).loss_fn)


def test_spans_are_recorded_as_what_they_are_and_change_nothing() -> None:
    assert set(SPANS) <= set(RECORD["remarks"])
    assert not set(SPANS) & {*RECORD["served"], *RECORD["refused"]}
    plain = parse_forward_backward(request(datum()))
    marked = parse_forward_backward(request(datum().with_provenance(model_input=[SPAN], loss_fn_inputs=[SPAN])))
    (first,), (second,) = plain.datums, marked.datums
    assert list(first.tokens) == list(second.tokens) == TOKENS
    assert {name: values.tolist() for name, values in second.inputs.items()} == {"target_tokens": TOKENS}


CHUNKS = {
    "DmelChunk.*": sdk.DmelChunk,
    "ImageAssetPointerChunk.*": sdk.ImageAssetPointerChunk,
    "ImageChunk.*": sdk.ImageChunk,
}
BODIES: dict[str, tuple[type[Request], dict[str, Any], str]] = {
    "DimuonOptimizerConfig.*": (
        requests.CreateModel,
        {"session_id": "s", "model_seq_id": 0, "base_model": "m", "optimizer_config": {"type": "dimuon"}},
        "optimizer_config",
    ),
    "DimuonParams.*": (
        requests.OptimStep,
        {"model_id": "m", "seq_id": 1, "optimizer_params": {"type": "dimuon"}},
        "optimizer_params",
    ),
    "LoadWeightsRequest.weights_access_token": (
        requests.LoadWeights,
        {"model_id": "m", "seq_id": 1, "path": "p", "optimizer": False, "weights_access_token": "t"},
        "weights_access_token",
    ),
}
ELSEWHERE = {
    "SaveWeightsExternalRequest.age_encryption_recipients",  # by the service; its form is right
    "CustomLossNodeOp=call_module",  # tests/ops/custom_loss
    "CustomLossNodeOp=get_attr",
}


def test_every_line_that_is_refused_is_known_here() -> None:
    lines = {line for line in RECORD["refused"] if " /" not in line and not line.startswith("LossFnType=")}
    assert lines == {*CHUNKS, *BODIES, *ELSEWHERE}


@pytest.mark.parametrize("line", BODIES)
def test_a_field_that_is_not_served_is_refused_by_name(line: str) -> None:
    model, body, field = BODIES[line]
    with pytest.raises(InputError, match=field):
        parse_json(model, json.dumps(body).encode())


@pytest.mark.parametrize("line", CHUNKS)
def test_a_chunk_that_is_no_text_is_refused_by_name(line: str) -> None:
    kind = CHUNKS[line].model_fields["type"].default
    prompt = {"chunks": [{"type": kind}]}
    body = {"sampling_session_id": "s", "seq_id": 0, "num_samples": 1, "prompt": prompt, "sampling_params": {}}
    with pytest.raises(InputError, match=r"prompt\.chunks"):
        parse_json(requests.Sample, json.dumps(body).encode())


def endpoints(table: str) -> list[str]:
    return [line for line in RECORD[table] if " /" in line]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, str]]:
    """What every endpoint says to an empty request about things that are not there."""
    said: dict[str, tuple[int, str]] = {}

    async def script(tenants: Tenants) -> None:
        for endpoint in (*endpoints("served"), *endpoints("refused"), "GET /api/v1/elsewhere"):
            verb, path = endpoint.split(" ")
            kind = "external_weights" if "external" in path else "weights"
            path = path.replace("checkpoints/*", f"checkpoints/{kind}/x").replace("*", "x")
            answer = await tenants["alice"].http.request(verb, path, content=b"{}")
            said[endpoint] = answer.status_code, answer.text.replace(path, "PATH")

    let(Engine({NANO: NANO}, kept=KEPT), tmp_path_factory.mktemp("record") / "state", ("alice",), script)
    return said


@pytest.mark.whole
@pytest.mark.parametrize("endpoint", endpoints("served"))
def test_it_is_served(answers: Mapping[str, tuple[int, str]], endpoint: str) -> None:
    status, text = answers[endpoint]
    assert status < 500
    assert text != answers["GET /api/v1/elsewhere"][1]


@pytest.mark.whole
@pytest.mark.parametrize("endpoint", endpoints("refused"))
def test_it_is_refused_by_name(answers: Mapping[str, tuple[int, str]], endpoint: str) -> None:
    status, text = answers[endpoint]
    assert 400 <= status < 500
    assert "PATH" in text or endpoint.rsplit("/", 1)[1] in text
