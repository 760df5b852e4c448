"""Fingerprints: canonical JSON and SHA-256 of values, arrays, tensor sets and files.

An array's fingerprint covers dtype, shape and bits, with -0.0 counted as +0.0, because the sign of a zero carries no
result. Anything without a stable identity is rejected, never hashed by its repr.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.errors import DataError

LATER: Final = MappingProxyType({"fingerprint": "left out at its default"})
"""Metadata of a dataclass field added after values had been fingerprinted: at its default, it does not change them."""

_BLOCK = 1 << 16
"""Elements hashed at a time, few enough to stay in a core's cache."""


def canonical_json(value: object) -> str:
    """Return `value` as JSON with sorted keys and no spaces; dataclasses, enums, tuples allowed.

    Raises:
        DataError: for anything without a stable identity (a callable, a set, a NaN, an infinity, an object).
    """
    return _dumped(_plain(value, "value"))


def _dumped(plain: object) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _plain(value: object, where: str) -> object:
    if isinstance(value, enum.Enum):
        return _plain(value.value, where)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError("NaN and infinity have no place in JSON", field=where, value=value)
        return value
    if isinstance(value, (list, tuple)):
        return [item if _is_plain(item) else _plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise DataError("keys of a fingerprinted mapping are strings", field=where, value=value)
        return {key: item if _is_plain(item) else _plain(item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        dropped = left_out(value)
        return {
            f.name: _plain(getattr(value, f.name), f"{where}.{f.name}")
            for f in dataclasses.fields(value)
            if f.name not in dropped
        }
    raise DataError("no stable identity", field=where, value=type(value).__name__)


def _is_plain(value: object) -> bool:
    """True for values that JSON represents directly: most of any value, for which no location is needed."""
    kind = type(value)
    return kind in (int, str, bool) or (kind is float and math.isfinite(cast(float, value)))


def left_out(value: object) -> frozenset[str]:
    """Return the names of a dataclass's fields that are LATER and at their defaults."""
    assert dataclasses.is_dataclass(value), "only dataclasses have fields"
    return frozenset(
        f.name
        for f in dataclasses.fields(value)
        if f.metadata.get("fingerprint") is not None and getattr(value, f.name) == f.default
    )


def sha256_of(value: object) -> str:
    """Return the SHA-256 (hex) of `value`'s canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_of_json(value: object) -> str:
    """Return `sha256_of` a value parsed from JSON, which needs no conversion first."""
    return hashlib.sha256(_dumped(value).encode()).hexdigest()


def array_sha256(array: NDArray[np.generic]) -> str:
    """Return the SHA-256 (hex) over dtype, shape and bits of one array, -0.0 as +0.0."""
    digest = hashlib.sha256(_header(array.dtype, array.shape))
    _feed(digest, array)
    return digest.hexdigest()


def tensors_sha256(tensors: Mapping[str, NDArray[np.generic]]) -> str:
    """Return the SHA-256 (hex) over named arrays, sorted by name."""
    return blocks_sha256((name, tensors[name].shape, tensors[name]) for name in sorted(tensors))


def blocks_sha256(blocks: Iterable[tuple[str, tuple[int, ...], NDArray[np.generic]]]) -> str:
    """Return `tensors_sha256` of arrays in blocks of rows: name and shape of the array, and the block.

    Arrays must be sorted by name, their rows in order.
    """
    digest, last = hashlib.sha256(), None
    for name, shape, block in blocks:
        if name != last:
            digest.update(name.encode() + b"\0" + _header(block.dtype, shape))
        _feed(digest, block)
        last = name
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def unlike_listed(folder: Path, listed: Mapping[str, str], *, listing: str) -> list[str]:
    """Return the faults of a folder's files beside a list of their SHA-256, `listing`, a file there that is not in it.

    First those with another hash, then those that are missing, then those that are not listed.
    """
    there = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    there.pop(listing, None)
    wrong = [name for name in sorted({*listed} & {*there}) if file_sha256(there[name]) != listed[name]]
    return [
        *(f"{name} has not the SHA-256 of {listing}" for name in wrong),
        *(f"{name} is missing, and is listed in {listing}" for name in sorted({*listed} - {*there})),
        *(f"{name} is not listed in {listing}" for name in sorted({*there} - {*listed})),
    ]


def _header(dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    return f"{dtype.str}{shape or (1,)}".encode()  # a scalar is hashed as an array of one


def _feed(digest: hashlib._Hash, array: NDArray[np.generic]) -> None:  # pyright: ignore[reportPrivateUsage]
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind != "f":
        digest.update(flat.data)
        return
    zero, buffer = flat.dtype.type(0), np.empty(min(_BLOCK, flat.size), flat.dtype)
    for begin in range(0, flat.size, _BLOCK):
        block = flat[begin : begin + _BLOCK]
        digest.update(np.add(block, zero, out=buffer[: block.size]).data)  # -0.0 + 0.0 is +0.0
