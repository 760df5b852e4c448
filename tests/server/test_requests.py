"""JSON requests, as the official SDK's own models write them."""

import json
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import JsonValue
from tenants import NANO, Tenants, let

from loopback import KEPT
from tinsmith.engine.engine import Engine
from tinsmith.engine.validation import check_request, loss_by_name
from tinsmith.models.presets import PRESETS
from tinsmith.ops.objectives.losses import LOSSES
from tinsmith.server.access.caller import DEFAULT
from tinsmith.server.samplers import Samplers
from tinsmith.server.wire import requests
from tinsmith.server.wire.body import Request, parse_json
from tinsmith.server.wire.conversions import to_adam, to_adapter_spec, to_sample_request
from tinsmith.server.wire.requests import Sample
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types as sdk
    from tinker._compat import model_dump
    from tinker.types.sample_request import SampleRequest as SdkSample


SEED = 12345


def _wire(request: Any) -> bytes:
    return json.dumps(model_dump(request, exclude_unset=False, exclude_none=True, mode="json")).encode()


def _sample(params: Any = None, **fields: Any) -> requests.Sample:
    request = SdkSample(
        sampling_session_id="s:sample:0",
        seq_id=0,
        prompt=fields.pop("prompt", tinker.ModelInput.from_ints([1, 2, 3])),
        sampling_params=params or tinker.SamplingParams(),
        **fields,
    )
    return parse_json(requests.Sample, _wire(request))


def _edit(body: bytes, *path: str, value: object) -> bytes:
    tree = json.loads(body)
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(tree).encode()


SAMPLE = _wire(
    SdkSample(
        sampling_session_id="s",
        seq_id=7,
        prompt=tinker.ModelInput.from_ints([1, 2]),
        sampling_params=tinker.SamplingParams(max_tokens=4),
    )
)
CREATE = _wire(
    sdk.CreateModelRequest(
        session_id="s",
        model_seq_id=0,
        base_model="m",
        lora_config=sdk.LoraConfig(rank=8, seed=3),
        user_metadata={"a": "b"},
    )
)
OPTIM = _wire(sdk.OptimStepRequest(optim_params=tinker.AdamParams(), model_id="m", seq_id=2))

SDK_REQUESTS = [
    (requests.CreateSession, sdk.CreateSessionRequest(tags=["a"], user_metadata=None, sdk_version="0.38.0")),
    (requests.OfModel, sdk.GetInfoRequest(model_id="m")),
    (requests.SaveWeights, sdk.SaveWeightsRequest(model_id="m", path="x", seq_id=1, ttl_seconds=3600)),
    (requests.SaveWeightsForSampler, sdk.SaveWeightsForSamplerRequest(model_id="m", path="x", seq_id=1)),
    (
        requests.SaveWeightsForSampler,
        sdk.SaveWeightsForSamplerRequest(model_id="m", sampling_session_seq_id=0, seq_id=1, kind="inflight"),
    ),
    (requests.LoadWeights, sdk.LoadWeightsRequest(session_id="s", model_seq_id=0, path="tinker://a", optimizer=True)),
    (requests.LoadWeights, sdk.LoadWeightsRequest(model_id="m", seq_id=1, path="tinker://a", optimizer=False)),
    (
        requests.CreateSamplingSession,
        sdk.CreateSamplingSessionRequest(session_id="s", sampling_session_seq_id=0, base_model="m"),
    ),
    (requests.OfFuture, sdk.FutureRetrieveRequest(request_id="r", allow_metadata_only=True)),
]


@pytest.mark.parametrize(("model", "request_"), SDK_REQUESTS)
def test_every_request_of_the_sdk_is_read(model: type[Request], request_: Any) -> None:
    sent = json.loads(_wire(request_))
    got = json.loads(parse_json(model, json.dumps(sent).encode()).model_dump_json())
    known = {key: value for key, value in sent.items() if key in model.model_fields}
    assert set(sent) - set(known) <= {"type"}
    assert {key: got[key] for key in known} == known


def test_a_remark_that_is_not_known_is_ignored() -> None:
    assert parse_json(requests.OfModel, b'{"model_id": "m", "new_remark": 1}').model_id == "m"


@pytest.mark.parametrize(
    ("model", "body", "place"),
    [
        (requests.Sample, _edit(SAMPLE, "sampling_params", "min_p", value=0.1), "sampling_params.min_p"),
        (requests.Sample, _edit(SAMPLE, "sampling_params", "top_p", value="1"), "sampling_params.top_p"),
        (requests.Sample, _edit(SAMPLE, "num_samples", value=10**30), "num_samples"),
        (requests.Sample, _edit(SAMPLE, "prompt", "chunks", value=[{"type": "image"}]), "prompt.chunks"),
        (
            requests.Sample,
            _edit(SAMPLE, "prompt", "chunks", value=[{"tokens": [1, -1]}]),
            r"prompt.chunks\[0\].tokens\[1\] = -1",
        ),
        (requests.OptimStep, _edit(OPTIM, "adam_params", "nesterov", value=True), "adam_params.nesterov"),
        (
            requests.OptimStep,
            _edit(OPTIM, "adam_params", "beta1", value=None),
            "adam_params.beta1 = None\n  allowed: a finite number",
        ),
        (requests.OptimStep, _edit(OPTIM, "seq_id", value=0), "seq_id"),
        (requests.CreateModel, _edit(CREATE, "lora_config", "dropout", value=0.1), "lora_config.dropout"),
        (requests.CreateModel, _edit(CREATE, "optimizer_config", value={"type": "dimuon"}), "optimizer_config"),
        (requests.CreateModel, b"{", "body"),
        (requests.CreateModel, b"", "session_id"),
        (requests.CreateModel, b"[]", "body"),
        (requests.SetTtl, b'{"ttl_seconds": 5}', "ttl_seconds"),
        (requests.LoadWeights, b'{"path": "p", "optimizer": true}', "session_id, model_id"),
        (requests.SaveWeightsForSampler, b'{"model_id": "m", "seq_id": 1}', "path, sampling_session_seq_id"),
        (
            requests.CreateSamplingSession,
            b'{"session_id": "s", "sampling_session_seq_id": 0}',
            "base_model, model_path",
        ),
    ],
)
def test_refusals_name_the_field(model: type[Request], body: bytes, place: str) -> None:
    with pytest.raises(InputError, match=f"field: {place}"):
        parse_json(model, body)


def test_adam_arrives_with_the_sdks_defaults() -> None:
    assert to_adam(parse_json(requests.OptimStep, OPTIM)) == AdamParams()
    sent = tinker.AdamParams(learning_rate=1, beta1=0.5, beta2=0.25, eps=1e-8, weight_decay=0.1, grad_clip_norm=2.0)
    body = _wire(sdk.OptimStepRequest(optim_params=sent, model_id="m", seq_id=2))
    assert to_adam(parse_json(requests.OptimStep, body)) == AdamParams(**sent.model_dump())


@pytest.mark.parametrize(
    ("stop", "expected"), [(None, None), ([], ()), ("a", ("a",)), (["a", "b"], ("a", "b")), ([1, 2], (1, 2))]
)
def test_stop_in_all_its_forms(stop: Any, expected: Any) -> None:
    request = to_sample_request(_sample(tinker.SamplingParams(stop=stop)), seed=SEED)
    assert request.params.stop == expected


@pytest.mark.parametrize("stop", [5, ["a", 1], [True], [-1], [2**31], {"a": 1}])
def test_stop_of_another_form_is_refused(stop: Any) -> None:
    body = _edit(SAMPLE, "sampling_params", "stop", value=stop)
    with pytest.raises(InputError, match=r"sampling_params\.stop"):
        to_sample_request(parse_json(requests.Sample, body), seed=SEED)


def test_a_sample_request_arrives_whole() -> None:
    prompt = tinker.ModelInput(chunks=[tinker.EncodedTextChunk(tokens=[1]), tinker.EncodedTextChunk(tokens=[2, 3])])
    params = tinker.SamplingParams(max_tokens=4, temperature=0.5, top_k=3, top_p=0.9)
    question = _sample(
        params, prompt=prompt, num_samples=2, prompt_logprobs=True, topk_prompt_logprobs=4, topk_sample_logprobs=5
    )
    got = to_sample_request(question, seed=SEED)
    assert got.prompt.tolist() == [1, 2, 3]
    assert got.prompt.dtype == "int32"
    assert (got.params.max_tokens, got.params.temperature, got.params.top_k) == (4, 0.5, 3)
    assert (got.params.top_p, got.params.seed, got.num_samples) == (0.9, SEED, 2)
    assert (got.prompt_logprobs, got.topk_prompt_logprobs, got.topk_logprobs) == (True, 4, 5)


@pytest.mark.parametrize(("sent", "used"), [(0, 0), (7, 7), (-1, 2**64 - 1), (2**64 - 1, 2**64 - 1)])
def test_a_seed_that_was_given_is_used(sent: int, used: int) -> None:
    assert to_sample_request(_sample(tinker.SamplingParams(seed=sent)), seed=SEED).params.seed == used


@pytest.mark.parametrize(
    "fields", [{"prompt_logprobs_last_n": 1}, {"prompt_logprobs_last_n": 3, "prompt_logprobs": True}]
)
def test_what_is_not_computed_is_refused(fields: Any) -> None:
    with pytest.raises(InputError):
        to_sample_request(_sample(**fields), seed=SEED)
    with pytest.raises(InputError):
        to_sample_request(_sample(tinker.SamplingParams(seed=2**64)), seed=SEED)


def test_adapter_specs() -> None:
    calls = parse_json(requests.CreateModel, CREATE)
    dora = to_adapter_spec(calls.lora_config, kind=AdapterKind.DORA, seed=SEED)
    assert dora == AdapterSpec(kind=AdapterKind.DORA, rank=8, seed=3)
    assert to_adapter_spec(None, kind=AdapterKind.LORA, seed=9) == AdapterSpec(seed=9)
    louder = to_adapter_spec(calls.lora_config, kind=AdapterKind.DORA, seed=SEED, alpha=128.0)
    assert (louder.alpha, louder.scaling) == (128.0, 16.0)
    with pytest.raises(InputError, match="no rank"):
        to_adapter_spec(calls.lora_config, kind=AdapterKind.FULL, seed=SEED)
    zero = parse_json(requests.CreateModel, _edit(CREATE, "lora_config", "rank", value=0))
    assert to_adapter_spec(zero.lora_config, kind=AdapterKind.FULL, seed=SEED).rank == 32
    with pytest.raises(ConfigError, match="rank"):
        to_adapter_spec(zero.lora_config, kind=AdapterKind.LORA, seed=SEED)


FULL: dict[str, JsonValue] = {"max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop": ["a"]}
EXTRA: dict[str, JsonValue] = {
    "num_samples": 3,
    "topk_sample_logprobs": 2,
    "prompt_logprobs": True,
    "prompt_logprobs_last_n": 1,
}


class _Never:
    """A store that has seen no request yet."""

    seed = 0

    @property
    def store(self) -> "_Never":
        return self

    def occurrence(self, key: str) -> int:
        assert key
        return 0


def _seed(params: dict[str, JsonValue], route: str | None = None, extra: dict[str, JsonValue] | None = None) -> int:
    body: dict[str, JsonValue] = {
        "sampling_session_id": "s",
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": params,
        **(extra or {}),
    }
    request = parse_json(Sample, json.dumps(body).encode())
    return Samplers.seed_of(_Never(), "tinsmith/nano", "w", request, owner=DEFAULT, route=route)  # type: ignore[arg-type]


def test_seeds_are_what_they_were() -> None:
    assert _seed({}) == 11207096521635740342
    assert _seed({}, "chat") == 14067411268240808895
    assert _seed(FULL, extra=EXTRA) == 9642518371831223031
    assert _seed(FULL, "chat", EXTRA) == 12590702979970194620


@pytest.mark.parametrize("adjustments", [None, {}, {"min_p": 0.0, "logit_bias": []}])
def test_adjustments_that_change_nothing_change_no_seed(adjustments: JsonValue) -> None:
    assert _seed({"adjustments": adjustments}) == _seed({})


@pytest.mark.parametrize("adjustments", [{"min_p": 0.1}, {"grammar": {"kind": "regex", "text": "a"}}])
def test_adjustments_that_change_something_have_a_seed_of_their_own(adjustments: JsonValue) -> None:
    assert _seed({"adjustments": adjustments}) != _seed({})


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
    """Return every endpoint's answer to an empty request about what is not there."""
    words: dict[str, tuple[int, str]] = {}

    async def script(tenants: Tenants) -> None:
        for endpoint in (*endpoints("served"), *endpoints("refused"), "GET /api/v1/elsewhere"):
            verb, path = endpoint.split(" ")
            kind = "external_weights" if "external" in path else "weights"
            path = path.replace("checkpoints/*", f"checkpoints/{kind}/x").replace("*", "x")
            answer = await tenants["alice"].http.request(verb, path, content=b"{}")
            words[endpoint] = answer.status_code, answer.text.replace(path, "PATH")

    let(Engine({NANO: NANO}, certificate_store=KEPT), tmp_path_factory.mktemp("record") / "state", ("alice",), script)
    return words


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


def test_a_prompt_without_tokens_is_refused_in_words() -> None:
    request = SampleRequest(prompt=np.array([], np.int32), params=SamplingParams(seed=0))
    with pytest.raises(InputError, match="allowed: one row of at least one token"):
        check_request(request, PRESETS["nano"])
