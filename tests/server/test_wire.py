"""The binary wire, against the official SDK's own encoder and decoder."""

import gc
import random
import struct
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from training_requests import forward_backward

from tinsmith.server.openai.requests import CompletionRequest
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.bounds import MOST, require_bounds
from tinsmith.server.wire.messages import CLASSES, SCHEMA, DType, WireStop
from tinsmith.server.wire.parts import FEW_BYTES, MAX_PARTS, require_few_parts
from tinsmith.server.wire.results import encode_forward_backward, encode_sample
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.datum import DatumOutput
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import SampledSequence, SampleResult, StopReason, TopLogprobs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker.proto import tinker_public_pb2 as sdk
    from tinker.proto.request_conv import forward_backward_request_to_proto
    from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response
    from tinker.types.forward_backward_request import ForwardBackwardRequest


AWKWARD = np.array([-0.0, 1e-42, -np.inf, -1.5, np.float32(0.1)], np.float32)


def _request(
    data: list[tinker.Datum], *, config: dict[str, Any] | None = None, forward_only: bool = False, seq_id: int = 3
) -> bytes:
    message = forward_backward_request_to_proto(
        ForwardBackwardRequest(
            forward_backward_input=tinker.types.ForwardBackwardInput(data=data, loss_fn="ppo", loss_fn_config=config),
            model_id="s:train:0",
            seq_id=seq_id,
        )
    )
    message.forward_only = forward_only
    return message.SerializeToString()


def _datum(tokens: tuple[int, ...] = (1, 2, 3), **inputs: Any) -> tinker.Datum:
    given = {"target_tokens": list(tokens), **inputs}
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(list(tokens)), loss_fn_inputs=given)


def _tensor(**fields: Any) -> bytes:
    message = sdk.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn="ppo")
    message.data.add().loss_fn_inputs["weights"].CopyFrom(sdk.Tensor(**fields))
    return message.SerializeToString()


BF16, F32 = sdk.DTYPE_BFLOAT16, sdk.DTYPE_FLOAT32
VALID = _request([_datum(), _datum((4, 5), advantages=[1.0, -2.0])], config={"a": 1.0, "b": "x"})


def _bits(array: Any) -> bytes:
    return np.asarray(array).tobytes()


@pytest.mark.parametrize("name", SCHEMA)
def test_field_numbers_and_wire_types_are_the_sdks(name: str) -> None:
    ours, theirs = CLASSES[name].DESCRIPTOR, getattr(sdk, name).DESCRIPTOR
    field = descriptor_pb2.FieldDescriptorProto
    same_wire = {
        field.TYPE_INT32: {field.TYPE_INT32, field.TYPE_ENUM},
        field.TYPE_BYTES: {field.TYPE_BYTES, field.TYPE_MESSAGE},
    }
    for each in ours.fields:
        other = theirs.fields_by_name[each.name]
        assert each.number == other.number
        assert other.type in same_wire.get(each.type, {each.type})
        assert each.is_repeated == other.is_repeated
        assert each.has_presence == other.has_presence or each.type == field.TYPE_BYTES
        assert bool(each.containing_oneof) == bool(other.containing_oneof)
    unknown = set(theirs.fields_by_name) - set(ours.fields_by_name)
    assert not unknown


def test_enum_values_are_the_sdks() -> None:
    assert {f"DTYPE_{each.name}": int(each) for each in DType} == {
        name: value for name, value in sdk.DType.items() if value
    }
    assert {f"STOP_REASON_{each.name}": int(each) for each in WireStop} == dict(sdk.StopReason.items())


def test_a_request_of_the_sdk_arrives_bit_for_bit() -> None:
    datum = tinker.Datum(
        model_input=tinker.ModelInput(
            chunks=[tinker.EncodedTextChunk(tokens=[1, 2]), tinker.EncodedTextChunk(tokens=[3, 9, 0])]
        ),
        loss_fn_inputs={"target_tokens": [2, 3, 9, 0, 2**31 - 1], "advantages": AWKWARD},
    )
    call = parse_forward_backward(_request([datum, _datum()], config={"clip_low_threshold": 0.1, "name": "x"}))
    assert (call.model_id, call.seq_id, call.loss_fn) == ("s:train:0", 3, "ppo")
    assert call.forward_only is False
    assert call.loss_fn_config == {"clip_low_threshold": 0.1, "name": "x"}
    first, second = call.datums
    assert first.tokens.dtype == np.int32
    assert first.tokens.tolist() == [1, 2, 3, 9, 0]
    assert list(first.inputs) == ["advantages", "target_tokens"]
    assert first.inputs["target_tokens"].dtype == np.int64
    assert first.inputs["target_tokens"].tolist() == [2, 3, 9, 0, 2**31 - 1]
    assert _bits(first.inputs["advantages"]) == _bits(AWKWARD)
    assert first.inputs["advantages"].flags.writeable
    assert second.tokens.tolist() == [1, 2, 3]


def test_forward_only_and_the_old_config_arrive() -> None:
    assert parse_forward_backward(_request([_datum()], forward_only=True)).forward_only is True
    message = sdk.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn="dro")
    message.loss_fn_config["beta"] = 0.5
    assert parse_forward_backward(message.SerializeToString()).loss_fn_config == {"beta": 0.5}


def test_provenance_is_accepted_and_ignored() -> None:
    span = tinker.types.provenance_spans.SampledProvenanceSpan(sequence_id="a", offset=0, length=3)
    datum = _datum().with_provenance(model_input=[span], loss_fn_inputs=[span])
    assert len(parse_forward_backward(_request([datum])).datums) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dense": struct.pack("<2f", 1.5, -0.0), "dtype": F32}, np.array([1.5, -0.0], "f4")),
        ({"dense": b"", "dtype": F32, "shape": [0]}, np.array([], "f4")),
        ({"dense": struct.pack("<2i", 7, -1), "dtype": sdk.DTYPE_INT32}, np.array([7, -1], "i8")),
        ({"dense": struct.pack("<q", 2**40), "dtype": sdk.DTYPE_INT64}, np.array([2**40], "i8")),
        ({"dense": struct.pack("<2H", 0x3FC0, 0x8000), "dtype": BF16}, np.array([1.5, -0.0], "f4")),
    ],
)
def test_dense_tensors_of_every_type_are_read(fields: Any, expected: Any) -> None:
    (datum,) = parse_forward_backward(_tensor(**fields)).datums
    assert datum.inputs["weights"].dtype == expected.dtype
    assert _bits(datum.inputs["weights"]) == _bits(expected)


def test_tensors_of_two_dimensions_arrive_as_the_sdk_sends_them_dense_or_sparse() -> None:
    targets = torch.zeros(6, 8, dtype=torch.int64)
    targets[0, 1], targets[3, 7], targets[3, 2] = 9, 2**31 - 1, 4
    weights = torch.zeros(6, 8)
    weights[3, 7] = -0.25
    datum = _datum(tuple(range(6)), target_tokens=targets, weights=weights, advantages=weights)
    assert datum.loss_fn_inputs["target_tokens"].sparse_crow_indices is not None
    assert datum.loss_fn_inputs["advantages"].sparse_crow_indices is None
    (read,) = parse_forward_backward(_request([datum])).datums
    assert read.inputs["target_tokens"].dtype == np.int64
    assert read.inputs["target_tokens"].tolist() == targets.tolist()
    assert _bits(read.inputs["weights"]) == _bits(weights.numpy())
    assert _bits(read.inputs["advantages"]) == _bits(weights.numpy())


def _sparse(rows: int, columns: int, crow: list[int], col: list[int]) -> bytes:
    encoded = sdk.SparseCsr(
        values=np.ones(len(col), "<f4").tobytes(),
        crow_indices=np.array(crow, "<i8").tobytes(),
        col_indices=np.array(col, "<i8").tobytes(),
    )
    return _tensor(sparse_csr=encoded, dtype=F32, shape=[rows, columns])


@pytest.mark.parametrize(
    "body",
    [
        _sparse(2, 2, [0, 1], [0]),
        _sparse(2, 2, [0, 1, 3], [0, 1]),
        _sparse(2, 2, [1, 1, 2], [0, 1]),
        _sparse(2, 2, [0, 2, 1], [0]),
        _sparse(2, 2, [0, 1, 2], [0, 2]),
        _sparse(2, 2, [0, 1, 2], [-1, 0]),
        _sparse(1, 2, [0, 2], [1, 1]),
        _sparse(1, 2, [0, 2], [1, 0]),
        _sparse(2**40, 2, [0, 0], []),
        _sparse(1, 2**40, [0, 0], []),
        _sparse(-1, -1, [0], []),
        _sparse(2**15, 1024, [0] * (2**15 + 1), []),
        _sparse(0, 0, [], []),
    ],
)
def test_a_sparse_tensor_that_does_not_fit_its_shape_is_refused(body: bytes) -> None:
    with pytest.raises(InputError, match=r"data\[0\]\.loss_fn_inputs\.weights"):
        parse_forward_backward(body)


@pytest.mark.parametrize(
    "body",
    [
        _tensor(dense=b"1234", dtype=F32, shape=[2]),
        _tensor(dense=b"123", dtype=F32),
        _tensor(dense=b"1234", dtype=F32, shape=[-1]),
        _tensor(dense=b"1234", dtype=F32, shape=[1, 2]),
        _tensor(dense=b"1234", dtype=F32, shape=[-1, -1]),
        _tensor(dense=b"1234", dtype=F32, shape=[1, 1, 1]),
        _tensor(dense=b"1234", dtype=0),
        _tensor(dense=b"1234", dtype=9),
        _tensor(dtype=F32, shape=[0]),
        _tensor(sparse_csr=sdk.SparseCsr(), dtype=F32, shape=[1, 1]),
        VALID + b"\x00",
        VALID[:-1],
        VALID + b"\xa0\x06\x01",
        b"",
        _request([_datum()], seq_id=0),
    ],
)
def test_what_cannot_be_read_is_an_input_error(body: bytes) -> None:
    with pytest.raises(InputError):
        parse_forward_backward(body)


def test_refusals_name_the_place() -> None:
    image = tinker.types.ImageChunk(data=b"x", format="png", expected_tokens=1)
    datum = tinker.Datum(model_input=tinker.ModelInput(chunks=[image]), loss_fn_inputs={})
    with pytest.raises(InputError, match=r"data\[1\]\.model_input\[0\] = 'image'"):
        parse_forward_backward(_request([_datum(), datum]))
    cube = tinker.Datum(
        model_input=tinker.ModelInput.from_ints([1, 2]), loss_fn_inputs={"target_tokens": np.zeros((2, 1, 2), np.int64)}
    )
    with pytest.raises(InputError, match=r"data\[0\]\.loss_fn_inputs\.target_tokens[^\n]*\(2, 1, 2\)"):
        parse_forward_backward(_request([cube]))
    message = sdk.ForwardBackwardRequest.FromString(VALID)
    later = CLASSES["Datum"].FromString(message.data[1].SerializeToString() + b"\x2a\x01x")
    message.data[1].CopyFrom(sdk.Datum.FromString(later.SerializeToString()))
    with pytest.raises(InputError, match=r"data\[1\] = 'field numbers \[5\]'"):
        parse_forward_backward(message.SerializeToString())


def test_a_name_of_several_lines_stays_on_one() -> None:
    message = sdk.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn="ppo")
    message.data.add().loss_fn_inputs["a\nb\nc"].dtype = 9
    with pytest.raises(InputError, match=r"inputs\.'a\\nb\\nc'"):
        parse_forward_backward(message.SerializeToString())


def _parses_or_refuses(body: bytes) -> None:
    with suppress(InputError):
        parse_forward_backward(body)


@given(
    st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(VALID)),
    st.integers(0, len(VALID)),
)
@settings(max_examples=500, deadline=None)
def test_mutated_requests_never_raise_anything_else(changes: Any, start: int, stop: int) -> None:
    body = bytearray(VALID)
    for at, value in changes:
        body[at] = value
    _parses_or_refuses(bytes(body))
    del body[min(start, stop) : max(start, stop)]
    _parses_or_refuses(bytes(body))


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), max_size=5), max_size=4))
@settings(max_examples=100, deadline=None)
def test_training_results_come_back_bit_for_bit(rows: Any) -> None:
    outputs = [DatumOutput(logprobs=np.array(row, np.float32)) for row in rows]
    metrics = {"loss:sum": 0.1 + 0.2, "n:sum": float(len(rows))}
    decoded = deserialize_forward_backward_output(encode_forward_backward(outputs, metrics, "cross_entropy"))
    assert decoded.metrics == metrics
    assert decoded.loss_fn_output_type == "cross_entropy"
    assert len(decoded.loss_fn_outputs) == len(outputs)
    for got, sent in zip(decoded.loss_fn_outputs, outputs, strict=True):
        assert got["logprobs"].dtype == "float32"
        assert got["logprobs"].shape == [len(sent.logprobs)]
        assert _bits(got["logprobs"].to_numpy()) == _bits(sent.logprobs)


def test_results_of_several_targets_a_position_keep_their_shapes() -> None:
    shapes = [(3,), (2, 4), (1, 4), (5, 2), (2,), (1, 1)]
    rng = np.random.default_rng(0)
    outputs = [DatumOutput(logprobs=rng.normal(size=shape).astype(np.float32)) for shape in shapes]
    decoded = deserialize_forward_backward_output(encode_forward_backward(outputs, {}, "logprobs"))
    for got, sent in zip(decoded.loss_fn_outputs, outputs, strict=True):
        assert got["logprobs"].shape == list(sent.logprobs.shape)
        assert _bits(got["logprobs"].to_numpy()) == _bits(sent.logprobs)


def _sequence(stop: StopReason, top: TopLogprobs | None = None) -> SampledSequence:
    return SampledSequence(tokens=np.array([5, 0, 7, 1, 2], np.int32), logprobs=AWKWARD, stop_reason=stop, top=top)


def test_samples_come_back_bit_for_bit() -> None:
    top = TopLogprobs(
        tokens=np.array([[4, 5], [0, 1], [2, -1]], np.int32),
        logprobs=np.array([[-0.5, -1], [-0.25, -3], [-0.125, np.nan]], np.float32),
    )
    result = SampleResult(sequences=(_sequence(StopReason.STOP, top), _sequence(StopReason.LENGTH)))
    decoded = deserialize_sample_response(encode_sample(result, cache_hit_tokens=4))
    first, second = decoded.sequences
    assert (first.stop_reason, second.stop_reason) == ("stop", "length")
    assert first.tokens == [5, 0, 7, 1, 2]
    assert _bits(first.logprobs_np) == _bits(AWKWARD)
    assert first.topk_logprobs == [[(4, -0.5), (5, -1.0)], [(0, -0.25), (1, -3.0)], [(2, -0.125)]]
    assert second.topk_logprobs is None
    assert decoded.prompt_logprobs is None
    assert decoded.topk_prompt_logprobs is None
    assert decoded.prompt_cache_hit_tokens == 4


def test_the_prompts_first_token_has_none() -> None:
    result = SampleResult(
        sequences=(_sequence(StopReason.STOP),),
        prompt_logprobs=np.array([np.nan, -0.5, -0.25], np.float32),
        prompt_top=TopLogprobs(
            tokens=np.array([[-1, -1], [3, 4], [5, 6]], np.int32),
            logprobs=np.array([[np.nan, np.nan], [-0.5, -1], [-0.25, -2]], np.float32),
        ),
    )
    decoded = deserialize_sample_response(encode_sample(result))
    assert decoded.prompt_logprobs == [None, -0.5, -0.25]
    assert decoded.topk_prompt_logprobs == [None, [(3, -0.5), (4, -1.0)], [(5, -0.25), (6, -2.0)]]
    last = deserialize_sample_response(encode_sample(result, prompt_logprobs_last_n=1))
    assert last.prompt_logprobs == [None, None, -0.25]
    assert last.topk_prompt_logprobs == [None, None, [(5, -0.25), (6, -2.0)]]
    assert result.prompt_logprobs[1] == -0.5


LISTS = MOST["lists and objects"]


def _body(num_lists: int) -> bytes:
    """Empty lists among texts full of signs, of all lengths, so that the body's pieces end anywhere in them."""
    rng = random.Random(1)
    parts: list[str] = []
    for _ in range(num_lists - 1):
        text = "".join(rng.choices('[{:\\"a', k=rng.randrange(12))).replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'[],"{text}"' if rng.random() < 0.5 else "[]")
    return ("[" + ",".join(parts) + "]").encode()


def test_signs_in_texts_are_not_counted_wherever_a_body_is_cut() -> None:
    body = _body(LISTS)
    assert body.count(b"[") > LISTS
    require_bounds(body)
    with pytest.raises(InputError, match=f"{LISTS + 1} lists"):
        require_bounds(b"[" + body + b"]")


@pytest.mark.parametrize("letter", [b"[", b"\\\\", b'\\"', b"\\u0000"])
def test_a_text_of_megabytes_is_one_text(letter: bytes) -> None:
    require_bounds(b'{"a": "' + letter * 1_500_000 + b'[", "b": [' + b"[]," * 60_000 + b"[]]}")
    with pytest.raises(InputError, match="lists"):
        require_bounds(b'{"a": "' + letter * 1_500_000 + b'[", "b": [' + b"[]," * LISTS + b"[]]}")


def test_a_refused_body_is_let_go_of_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        with suppress(InputError):
            parse_json(CompletionRequest, b'{"model": "x", "prompt": [' + b'"ab",' * 1000 + b"1]}")
        held = [each for each in gc.get_objects() if type(each) is ValidationError]
    finally:
        gc.enable()
    assert not held


DATUM, PIECE = b"\x1a\x00", b"\x0a\x00"
"""A datum of nothing, and a piece of nothing of a datum."""


def varint(value: int) -> bytes:
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def padded(body: bytes) -> bytes:
    """The same with a field that nobody reads, so that it is not too small to be looked at."""
    return body + b"\x7a" + varint(FEW_BYTES) + bytes(FEW_BYTES)


@pytest.mark.parametrize("count", [MAX_PARTS + 1, 20 * MAX_PARTS])
def test_too_many_datums_or_pieces_are_refused(count: int) -> None:
    for body in (padded(DATUM * count), padded(b"\x1a" + varint(len(PIECE) * count) + PIECE * count)):
        with pytest.raises(InputError, match="together"):
            parse_forward_backward(body)


def test_a_request_of_many_bytes_and_few_parts_is_not_refused_for_them() -> None:
    require_few_parts(padded(forward_backward("m:train:0", 1)))
    require_few_parts(padded(DATUM * (MAX_PARTS - 2)))


@pytest.mark.parametrize(
    "body", [b"\xff" * (FEW_BYTES + 1), b"\x1a\xff\xff\xff\xff\x7f" * FEW_BYTES, bytes(FEW_BYTES + 1)]
)
def test_what_is_no_message_is_refused_by_who_reads_it(body: bytes) -> None:
    with pytest.raises(InputError):
        parse_forward_backward(body)
