"""Protobuf messages of the Tinker wire: field numbers, and classes built from them at import.

Field numbers and wire types are those of the SDK (its names are not needed, and change). Parts that are never read here
(pictures, audio, provenance) are declared as bytes, which has the same wire type as a message. The classes live in a
pool of their own, so that they can coexist with the SDK's in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

CONTENT_TYPE = "application/x-protobuf"

_PACKAGE = "tinsmith.wire"


class DType(IntEnum):
    """Element types of a tensor; the wire knows 0 as "not given"."""

    FLOAT32 = 1
    INT64 = 2
    INT32 = 3
    BFLOAT16 = 4


class WireStop(IntEnum):
    """Reason for the end of a sequence."""

    STOP = 0
    LENGTH = 1


# Message -> field -> (number, type). A type is a scalar or a message's name, after one of: "repeated", "optional"
# (presence is visible), "map" (string to it), "oneof:NAME".
SCHEMA: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "SparseCsr": {"values": (1, "bytes"), "crow_indices": (2, "bytes"), "col_indices": (3, "bytes")},
    "Tensor": {
        "dense": (1, "oneof:encoding bytes"),
        "sparse_csr": (2, "oneof:encoding SparseCsr"),
        "dtype": (3, "int32"),
        "shape": (4, "repeated int64"),
    },
    "EncodedTextChunk": {"tokens": (1, "bytes")},
    "Chunk": {
        "encoded_text": (1, "oneof:chunk EncodedTextChunk"),
        "image": (2, "oneof:chunk bytes"),
        "dmel": (3, "oneof:chunk bytes"),
    },
    "Datum": {
        "model_input": (1, "repeated Chunk"),
        "loss_fn_inputs": (2, "map Tensor"),
        "model_input_spans": (3, "repeated bytes"),
        "loss_fn_input_spans": (4, "repeated bytes"),
    },
    "LossConfigValue": {"number": (1, "oneof:value double"), "text": (2, "oneof:value string")},
    "ForwardBackwardRequest": {
        "model_id": (1, "string"),
        "seq_id": (2, "int32"),
        "data": (3, "repeated Datum"),
        "loss_fn": (4, "string"),
        "loss_fn_config": (5, "map double"),
        "forward_only": (6, "bool"),
        "loss_fn_config_v2": (7, "map LossConfigValue"),
    },
    "BatchedTensor": {
        "data": (1, "bytes"),
        "offsets": (2, "bytes"),
        "dtype": (3, "int32"),
        "trailing_shape": (4, "repeated int64"),
    },
    "ArrayRecord": {"type_tag": (1, "string"), "fields": (2, "map BatchedTensor"), "num_datums": (3, "int64")},
    "ForwardBackwardOutput": {
        "loss_fn_output_type": (1, "string"),
        "loss_fn_outputs": (2, "repeated ArrayRecord"),
        "metrics": (3, "map double"),
    },
    "TopkLogprobs": {"token_ids": (1, "bytes"), "logprobs": (2, "bytes"), "k": (3, "uint32"), "length": (4, "uint32")},
    "SampledSequence": {
        "stop_reason": (1, "int32"),
        "tokens": (2, "bytes"),
        "logprobs": (3, "optional bytes"),
        "topk_sampled_logprobs": (4, "optional TopkLogprobs"),
    },
    "PromptAltTokens": {"tokens": (1, "Tensor"), "logprobs": (2, "Tensor")},
    "SampleResponse": {
        "sequences": (1, "repeated SampledSequence"),
        "prompt_logprobs": (2, "optional bytes"),
        "topk_prompt_logprobs": (3, "optional TopkLogprobs"),
        "prompt_cache_hit_tokens": (4, "int32"),
        "target_prompt_logprobs": (5, "optional Tensor"),
        "prompt_alt_tokens": (6, "optional PromptAltTokens"),
    },
}

_SCALARS = {
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "string": FieldDescriptorProto.TYPE_STRING,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bool": FieldDescriptorProto.TYPE_BOOL,
}


def _set_type(field: FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"


def _add_field(message: DescriptorProto, name: str, number: int, spelled: str) -> None:
    label, kind = spelled.split() if " " in spelled else ("", spelled)
    field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if label in ("repeated", "map"):
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if label == "map":
        entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, kind)
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        return
    _set_type(field, kind)
    if label.startswith("oneof:"):
        names = [oneof.name for oneof in message.oneof_decl]
        if label[6:] not in names:
            message.oneof_decl.add(name=label[6:])
            names.append(label[6:])
        field.oneof_index = names.index(label[6:])
    elif label == "optional":
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _build() -> dict[str, type[Message]]:
    file = FileDescriptorProto(name="tinsmith_wire.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, (number, spelled) in fields.items():
            _add_field(message, field, number, spelled)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in SCHEMA}


CLASSES: Mapping[str, type[Message]] = _build()
"""Message classes by name; their constructors take the fields by name."""
