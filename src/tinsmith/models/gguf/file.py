"""Layout of a GGUF file: its metadata, the location of each tensor, and tensors as fp32.

The `gguf` library knows the types and converts them to fp32. The header is parsed here: the library makes arrays of
every token and merge of a vocabulary, which takes seconds.

Source: the GGUF specification in ggml's docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, dequantize
from numpy.typing import NDArray

from tinsmith.types.errors import CheckpointError, ConfigError

Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]
"""Value of a metadata key."""

SUFFIX: Final = ".gguf"

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT: Final = 32
_ALIGNMENTS: Final = tuple(1 << n for n in range(17))
_ALIGNMENT_KEY: Final = "general.alignment"
_SCALARS: Final[Mapping[int, str]] = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT64: "d",
}
_LARGEST_HEADER: Final = 1 << 28
"""Most bytes before the first tensor: the largest vocabularies take a tenth of it."""
_MOST_VALUES: Final = 1 << 23
"""Most entries of all lists together: each takes more memory than its bytes in the file."""
_LEAST_INFO: Final = 8 + 4 + 4 + 8
"""Least bytes of a tensor's entry; a key's entry takes at least 8 + 4."""
_AT_ONCE: Final = 8192
"""Values per row for `dequantize`, which takes sixteen rows at a time: a third of its time on rows of 576."""
_ROWS_AT_ONCE: Final = 256
"""Rows decoded at a time, 8 MiB: the memory used besides the tensor itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """Tensor of a file, not yet loaded."""

    shape: tuple[int, ...]
    """Published shape: a linear weight is (out, in)."""
    type: GGMLQuantizationType
    offset: int
    """Offset of its first byte in the file."""
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """Header of a file."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]
    header_sha256: str
    """Digest of all bytes before the first tensor: shape, tokenizer, names and locations, but not the weights."""


def read_gguf(path: Path) -> GgufFile:
    """Read a file's header, and check that the file contains all its tensors.

    Raises:
        ConfigError: there is no such file, it is one part of several, or it holds a type that `gguf` does not decode.
        CheckpointError: it is not a GGUF file, damaged, or truncated.
    """
    if not path.is_file():
        raise ConfigError("there is no such file", field="path", value=str(path))
    try:
        with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).read()
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, (CheckpointError, ConfigError)):
            raise
        raise _damaged(path, "its header cannot be read", str(error)) from error


def tensors_of(file: GgufFile, names: Collection[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield those of the named tensors that the file has, as fp32, in the file's order.

    Raises:
        CheckpointError: the file was truncated since its header was read.
    """
    with file.path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name, tensor in file.tensors.items():
            if name not in names:
                continue
            if tensor.offset + tensor.num_bytes > len(data):
                raise _damaged(file.path, "it is cut short", name)
            stored = np.frombuffer(data[tensor.offset : tensor.offset + tensor.num_bytes], dtype=np.uint8)
            yield name, _decoded(stored, tensor)


def rows_of(file: GgufFile, name: str, begin: int, end: int) -> NDArray[np.float32]:
    """Return rows begin .. end of a matrix as fp32; each consists of whole blocks, and is decoded on its own.

    Rows of several matrices in one tensor are numbered consecutively.

    Raises:
        CheckpointError: the file was truncated since its header was read.
    """
    tensor = file.tensors[name]
    row_bytes = tensor.num_bytes // math.prod(tensor.shape[:-1])
    part = replace(
        tensor,
        shape=(end - begin, tensor.shape[-1]),
        offset=tensor.offset + begin * row_bytes,
        num_bytes=(end - begin) * row_bytes,
    )
    ((_, values),) = tensors_of(replace(file, tensors={name: part}), {name})
    return values


def stored_rows(file: GgufFile, name: str, begin: int, end: int) -> NDArray[np.uint8]:
    """Return rows begin .. end of a matrix in the file's form, (rows, bytes of a row), numbered as in `rows_of`.

    Raises:
        CheckpointError: the file was truncated since its header was read.
    """
    tensor = file.tensors[name]
    row_bytes = tensor.num_bytes // math.prod(tensor.shape[:-1])
    size = (end - begin) * row_bytes
    with file.path.open("rb") as opened:
        opened.seek(tensor.offset + begin * row_bytes)
        stored = opened.read(size)
    if len(stored) < size:
        raise _damaged(file.path, "it is cut short", name)
    return np.frombuffer(stored, np.uint8).reshape(end - begin, row_bytes)


def _decoded(stored: NDArray[np.uint8], tensor: GgufTensor) -> NDArray[np.float32]:
    """Decode blocks in rows of a length that suits the library; each block is independent."""
    if tensor.type in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        return np.array(dequantize(stored, tensor.type), dtype=np.float32).reshape(tensor.shape)
    block, block_bytes = GGML_QUANT_SIZES[tensor.type]
    row_bytes = max(1, _AT_ONCE // block) * block_bytes
    values = np.empty(math.prod(tensor.shape), np.float32)
    at, whole = 0, len(stored) // row_bytes * row_bytes
    step = _ROWS_AT_ONCE * row_bytes
    parts = [stored[i : min(i + step, whole)] for i in range(0, whole, step)]
    for part in (*(part.reshape(-1, row_bytes) for part in parts), stored[whole:].reshape(1, -1)):
        if part.size:
            decoded = dequantize(part, tensor.type).reshape(-1)
            values[at : at + len(decoded)] = decoded
            at += len(decoded)
    return values.reshape(tensor.shape)


class _Reader:
    """Parser of a header; reading past the end is a struct.error or an error of its own."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0
        self._values = 0

    def read(self) -> GgufFile:
        if self._data[:4] != _MAGIC:
            raise _damaged(self._path, "this is no GGUF file", repr(self._data[:4]))
        self._at = 4
        version, num_tensors, num_keys = self._unpack("IQQ")
        if version not in _VERSIONS:
            raise ConfigError(
                f"{self._path}: this version of GGUF cannot be read",
                field="version",
                value=version,
                allowed=", ".join(map(str, _VERSIONS)) + ", little-endian",
            )
        self._room(12 * num_keys + _LEAST_INFO * num_tensors, "keys and tensors")
        metadata: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._string()
            if key in metadata:
                raise _damaged(self._path, "a key stands there twice", key)
            metadata[key] = self._value(*self._unpack("I"))
        _refuse_parts(self._path, metadata)
        infos: dict[str, tuple[tuple[int, ...], int, int]] = {}
        for _ in range(num_tensors):
            name = self._string()
            if name in infos:
                raise _damaged(self._path, "a tensor stands there twice", name)
            infos[name] = self._info(name)
        alignment = metadata.get(_ALIGNMENT_KEY, _ALIGNMENT)
        if type(alignment) is not int or alignment not in _ALIGNMENTS:
            raise _damaged(self._path, f"an alignment is a power of two up to {_ALIGNMENTS[-1]}", alignment)
        start = -(-self._at // alignment) * alignment
        tensors = {name: self._placed(name, start, *info) for name, info in infos.items()}
        self._check_places(tensors, alignment)
        return GgufFile(
            path=self._path,
            metadata=metadata,
            tensors=tensors,
            header_sha256=hashlib.sha256(self._data[:start]).hexdigest(),
        )

    def _unpack(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def _room(self, size: int, what: str) -> None:
        """Reject a size beyond the end of the file, or of any header, before memory is allocated for it."""
        if size > min(len(self._data), _LARGEST_HEADER) - self._at:
            raise _damaged(self._path, f"{what} of the header run over the end of the file", size)

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        self._room(length, "texts")
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8")

    def _value(self, kind: int) -> Value:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind != GGUFValueType.ARRAY:
            return self._unpack(_scalar(kind))[0]
        element, count = self._unpack("IQ")
        form = "Q" if element == GGUFValueType.STRING else _scalar(element)
        self._room(count * struct.calcsize("<" + form), "lists")
        self._values += count
        if self._values > _MOST_VALUES:
            raise _damaged(self._path, f"lists of more than {_MOST_VALUES} values", self._values)
        if element == GGUFValueType.STRING:
            return [self._string() for _ in range(count)]
        return list(self._unpack(f"{count}{form}"))

    def _info(self, name: str) -> tuple[tuple[int, ...], int, int]:
        """Return a tensor's shape, type and offset from the first tensor."""
        (num_dims,) = self._unpack("I")
        if not 1 <= num_dims <= 4:
            raise _damaged(self._path, f"{name} has not one to four dimensions", num_dims)
        dims = self._unpack(f"{num_dims}Q")
        kind, offset = self._unpack("IQ")
        return tuple(reversed(dims)), kind, offset

    def _placed(self, name: str, start: int, shape: tuple[int, ...], kind: int, offset: int) -> GgufTensor:
        if kind not in tuple(GGMLQuantizationType) or not _decodable(GGMLQuantizationType(kind)):
            raise ConfigError(
                f"{self._path}: a tensor of this type cannot be decoded",
                field=name,
                value=kind if kind not in tuple(GGMLQuantizationType) else GGMLQuantizationType(kind).name,
                allowed="F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ1 to IQ4, TQ, MXFP4",
            )
        type_ = GGMLQuantizationType(kind)
        block, block_bytes = GGML_QUANT_SIZES[type_]
        count = math.prod(shape)
        if count == 0 or shape[-1] % block:
            raise _damaged(self._path, f"{name} cannot have this shape", shape)
        num_bytes = count // block * block_bytes
        if start + offset + num_bytes > len(self._data):
            raise CheckpointError(
                f"{self._path}: the file is cut short",
                field=name,
                value=f"ends at byte {start + offset + num_bytes} of {len(self._data)}",
                fix="fetch the whole file again",
            )
        return GgufTensor(shape=shape, type=type_, offset=start + offset, num_bytes=num_bytes)

    def _check_places(self, tensors: Mapping[str, GgufTensor], alignment: int) -> None:
        """Reject tensors at invalid offsets, or that overlap."""
        end, before = 0, ""
        for name, tensor in sorted(tensors.items(), key=lambda item: item[1].offset):
            if tensor.offset % alignment:
                raise _damaged(self._path, f"{name} does not begin at a multiple of {alignment}", tensor.offset)
            if tensor.offset < end:
                raise _damaged(self._path, f"{before} and {name} share bytes", tensor.offset)
            end, before = tensor.offset + tensor.num_bytes, name


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise ValueError(f"unknown value type {kind}")
    return _SCALARS[kind]


@cache
def _decodable(kind: GGMLQuantizationType) -> bool:
    """True if the library decodes this type, tested with one block."""
    block_bytes = GGML_QUANT_SIZES[kind][1]
    try:
        dequantize(np.zeros((1, block_bytes), dtype=np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _refuse_parts(path: Path, metadata: Mapping[str, Value]) -> None:
    parts = metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        raise ConfigError(
            f"{path}: this is one part of several",
            field="split.count",
            value=parts,
            allowed="a file that is whole",
            fix="join the parts: llama-gguf-split --merge FIRST-PART OUT.gguf",
        )


def _damaged(path: Path, why: str, value: object) -> CheckpointError:
    return CheckpointError(f"{path}: damaged: {why}", field="file", value=value, fix="fetch the whole file again")
