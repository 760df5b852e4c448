"""Tensors in a folder's safetensors files: location, shape and dtype.

Only headers are read here; `folder.py` loads the values.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from safetensors import SafetensorError, safe_open

from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError
from tinsmith.types.json_text import parse_json, read_json

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_ROTARY_SUFFIX = ".rotary_emb.inv_freq"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """Tensor of a file, not yet loaded."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    """Name of the type in safetensors, such as BF16."""


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a folder's weight files by name; one file, or shards with an index.

    RoPE frequencies, which old checkpoints carry along, are left out: the config determines them.

    Raises:
        ConfigError: when the folder holds no safetensors.
        CheckpointError: when a file is damaged, or index and shards disagree.
    """
    if (folder / WEIGHTS).is_file():
        return _tensors_of(folder / WEIGHTS)
    index = folder / INDEX
    if not index.is_file():
        raise _no_safetensors(folder)
    shard_of = _shard_of(index)
    stored: dict[str, StoredTensor] = {}
    for shard in sorted(set(shard_of.values())):
        for name, tensor in _tensors_of(folder / shard).items():
            if shard_of.get(name) != shard:
                raise CheckpointError(
                    f"{tensor.file}: the index does not place this tensor here",
                    field=name,
                    value=shard_of.get(name, "not in the index"),
                    allowed=shard,
                    fix="fetch all files of one version of the model",
                )
            stored[name] = tensor
    for name in sorted(set(shard_of) - set(stored)):
        if not name.endswith(_ROTARY_SUFFIX):
            raise CheckpointError(
                f"{folder / shard_of[name]}: a tensor that the index places here is missing",
                field=name,
                value="missing",
                fix="fetch all files of one version of the model",
            )
    return stored


@contextmanager
def opened(file: Path, framework: str = "pt") -> Generator[safe_open, None, None]:
    """Open a safetensors file for reading, on the CPU; `framework` selects the library of the tensors.

    Raises:
        CheckpointError: when it is missing, truncated, or not safetensors.
    """
    try:
        with safe_open(file, framework=framework) as handle:
            yield handle
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{file}: missing or damaged",
            field="file",
            value=str(error),
            allowed="a whole safetensors file",
            fix="fetch or write it again",
        ) from error


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    *,
    source: str,
    files: Mapping[str, str],
) -> None:
    """Compare tensors with those a decoder needs; errors name the file in `files`, or else `source`.

    Raises:
        CheckpointError: naming the first tensor that is missing, unexpected or of another shape.
    """
    fix = "the weights must be of the model that the config describes"
    missing = [name for name in expected if name not in shapes]
    if missing:
        raise CheckpointError(
            f"{source}: a tensor is missing (one of {len(missing)})",
            field=missing[0],
            value="missing",
            allowed=f"shape {expected[missing[0]]}",
            fix=fix,
        )
    for name in sorted(shapes):
        where = files.get(name, source)
        if name not in expected:
            raise CheckpointError(
                f"{where}: a tensor is not expected", field=name, value=shapes[name], allowed="absent", fix=fix
            )
        if shapes[name] != expected[name]:
            raise CheckpointError(
                f"{where}: a tensor has another shape",
                field=name,
                value=shapes[name],
                allowed=str(expected[name]),
                fix=fix,
            )


def read_object(file: Path, error: type[TinsmithError]) -> dict[str, object]:
    """Return the JSON object in a file; anything else raises `error`."""
    try:
        value = read_json(file)
    except (OSError, ValueError) as cause:
        raise error(f"{file}: cannot be read as JSON", field="file", value=str(cause)) from cause
    if not isinstance(value, dict):
        raise error(f"{file}: a JSON object is needed", field="file", value=value)
    return cast("dict[str, object]", value)


def _tensors_of(file: Path) -> dict[str, StoredTensor]:
    with opened(file) as handle:
        _require_unique_keys(file)
        views = {name: handle.get_slice(name) for name in sorted(handle.keys())}
        return {
            name: StoredTensor(file=file, shape=tuple(view.get_shape()), dtype=view.get_dtype())
            for name, view in views.items()
            if not name.endswith(_ROTARY_SUFFIX)
        }


def _require_unique_keys(file: Path) -> None:
    """Reject a header that names a tensor twice, since readers differ; its library has checked the rest."""
    with file.open("rb") as content:
        header = content.read(int.from_bytes(content.read(8), "little"))
    try:
        parse_json(header)
    except ValueError as error:
        raise CheckpointError(f"{file}: damaged: its header", field="file", value=str(error)) from None


def _shard_of(index: Path) -> dict[str, str]:
    shard_of = read_object(index, CheckpointError).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise CheckpointError(
            f"{index}: the index is empty", field="weight_map", value=shard_of, allowed="names to files"
        )
    for name, shard in cast("dict[str, object]", shard_of).items():
        plain = isinstance(shard, str) and Path(shard).name == shard
        if not (plain and str(shard).endswith(".safetensors")):
            raise CheckpointError(
                f"{index}: a shard is a safetensors file beside the index",
                field=name,
                value=shard,
                allowed="NAME.safetensors",
            )
    return cast("dict[str, str]", shard_of)


def _no_safetensors(folder: Path) -> ConfigError:
    pickled = sorted(file.name for file in folder.glob("*.bin"))
    if pickled:
        return ConfigError(
            "only safetensors are read, because loading a pickle can run any code",
            field=str(folder),
            value=pickled[0],
            allowed=f"{WEIGHTS}, or {INDEX} and its shards",
            fix="load it with transformers where you trust it, and save_pretrained to a new folder",
        )
    return ConfigError(
        "this folder has no weights", field="path", value=str(folder), allowed=f"{WEIGHTS}, or {INDEX} and its shards"
    )
