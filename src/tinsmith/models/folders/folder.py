"""Weights of a folder in Hugging Face's layout: read, written and fingerprinted.

No hub or pickle is used, and a path is never taken for a name on a hub.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder_config import model_folder
from tinsmith.models.folders.hf_config import config_values
from tinsmith.models.folders.stored import WEIGHTS, StoredTensor, check_shapes, opened, stored_tensors
from tinsmith.models.in_turn import RowsInTurn, require_finite
from tinsmith.models.mixtures.fused import fused_parts, unfused
from tinsmith.models.names import EMBEDDING, HEAD, expected_tensors
from tinsmith.models.staging import staged
from tinsmith.ops.packed import Packed, packable
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import blocks_sha256

_T = TypeVar("_T")

_ROWS_AT_ONCE = 4096
_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def read_weights(path: Path, config: DecoderConfig) -> dict[str, torch.Tensor]:
    """Return a folder's weights as fp32 tensors under their Hugging Face names, as `config` needs.

    Raises:
        ConfigError, CheckpointError: see `stored_weights`.
    """
    return dict(stored_weights(path, config))


def stored_weights(path: Path, config: DecoderConfig) -> RowsInTurn:
    """Return a folder's weights, each read on access, as fp32 under the Hugging Face names that `config` needs.

    Names and shapes are checked before anything is loaded. A head stored beside the embedding it is
    tied to is dropped; so are RoPE frequencies, which follow from the config.

    Raises:
        ConfigError: when the folder holds no safetensors, or a tied head is not the embedding.
        CheckpointError: when a file is damaged or a tensor is missing, unexpected, or of the wrong
            shape or dtype; or later, when an accessed tensor holds NaN or infinity, or its file is gone.
    """
    folder = model_folder(path)
    as_stored = stored_tensors(folder)
    parts = fused_parts(as_stored, config)
    stored = unfused(as_stored, parts)
    needed = expected_tensors(config)
    expected = dict(needed)
    if config.tied and HEAD in stored:
        expected[HEAD] = expected[EMBEDDING]
    check_shapes(
        {name: tensor.shape for name, tensor in stored.items()},
        expected,
        source=str(folder),
        files={name: str(tensor.file) for name, tensor in stored.items()},
    )
    _check_dtypes(stored)
    if config.tied and HEAD in stored:
        _check_tied_head(stored)

    def read_as(name: str, of: Callable[[torch.Tensor], _T]) -> _T:
        with opened(stored[name].file) as handle:
            part = parts.get(name)
            return of(handle.get_tensor(name) if part is None else part.rows(handle))

    def read(name: str) -> torch.Tensor:
        # A copy, because safetensors returns views of the file's pages.
        return read_as(name, lambda tensor: tensor.to(torch.float32, copy=True))

    def packed(name: str) -> Packed | None:
        kind, shape = stored[name].dtype, needed[name]
        if not packable(kind, shape):
            return None
        return read_as(name, lambda tensor: Packed(kind, _halves(tensor), (shape[0], shape[1])))

    def read_rows(name: str, begin: int, end: int) -> torch.Tensor:
        with opened(stored[name].file) as handle:
            part = parts.get(name)
            rows = handle.get_slice(name)[begin:end] if part is None else part.rows(handle, begin, end)
            return rows.to(torch.float32, copy=True)

    return RowsInTurn(needed, read, read_rows, place_of=lambda name: str(stored[name].file), packed=packed)


def write_folder(
    path: Path, config: DecoderConfig, weights: Mapping[str, torch.Tensor], *, dtype: torch.dtype = torch.float32
) -> None:
    """Write config.json and model.safetensors, such that transformers loads the same model.

    The folder appears whole or not at all. Equal arguments give equal bytes.

    Raises:
        ConfigError: when something is at `path` already, or the dtype or decoder cannot be written.
        CheckpointError: when the weights do not match `config`.
    """
    dtype_name = str(dtype).removeprefix("torch.")
    if dtype_name not in _DTYPES.values():
        raise ConfigError(
            "weights cannot be written like this", field="dtype", value=dtype_name, allowed=", ".join(_DTYPES.values())
        )
    values = config_values(config, dtype=dtype_name)
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_shapes(shapes, expected_tensors(config), source=str(path), files={})
    with staged(path) as whole:
        text = json.dumps(values, indent=2, sort_keys=True) + "\n"
        (whole / "config.json").write_text(text, encoding="utf-8")
        tensors = {name: weights[name].detach().to("cpu", dtype).contiguous() for name in sorted(weights)}
        save_file(tensors, whole / WEIGHTS, metadata={"format": "pt"})
        # safetensors creates files that only their owner can read.
        shutil.copymode(whole / "config.json", whole / WEIGHTS)


def weights_fingerprint(weights: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 (hex) of weights as fp32: names, shapes and bits, sorted by name.

    The next tensor, or block of rows of a packed one, is read while one is hashed.
    """
    return blocks_sha256(_one_ahead(_blocks(weights)))


def _blocks(weights: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, tuple[int, ...], NDArray[np.generic]]]:
    for name in sorted(weights):
        if isinstance(weights, RowsInTurn) and (held := weights.packed(name)) is not None:
            for rows in weights.widened(name, held):
                yield name, held.shape, rows.numpy()
        else:
            values = weights[name].detach().to("cpu", torch.float32).numpy()
            yield name, values.shape, values


def _one_ahead(items: Iterator[_T]) -> Iterator[_T]:
    """Yield items, preparing the next one on another thread."""
    with ThreadPoolExecutor(1) as maker:
        following = maker.submit(next, items, None)
        while (item := following.result()) is not None:
            following = maker.submit(next, items, None)
            yield item


def _halves(tensor: torch.Tensor) -> NDArray[np.generic]:
    """Return the bits of 16-bit floats; numpy has no bf16."""
    return tensor.contiguous().view(torch.int16).numpy()


def _check_dtypes(stored: Mapping[str, StoredTensor]) -> None:
    for name, tensor in stored.items():
        if tensor.dtype not in _DTYPES:
            raise CheckpointError(
                f"{tensor.file}: weights of this dtype cannot be read",
                field=name,
                value=tensor.dtype,
                allowed=", ".join(_DTYPES),
            )


def _check_tied_head(stored: Mapping[str, StoredTensor]) -> None:
    """Compare head and embedding in chunks of rows, since each may be the model's largest tensor."""
    file, rows = stored[HEAD].file, stored[HEAD].shape[0]
    with opened(file) as of_head, opened(stored[EMBEDDING].file) as of_embedding:
        head, embedding = of_head.get_slice(HEAD), of_embedding.get_slice(EMBEDDING)

        def equal(begin: int) -> bool:
            of_both = head[begin : begin + _ROWS_AT_ONCE].float(), embedding[begin : begin + _ROWS_AT_ONCE].float()
            for name, part in zip((HEAD, EMBEDDING), of_both, strict=True):
                require_finite(part, name, str(stored[name].file))
            return torch.equal(*of_both)

        same = all(equal(begin) for begin in range(0, rows, _ROWS_AT_ONCE))
    if not same:
        raise ConfigError(
            f"{file}: the head differs from the embedding that the config ties it to",
            field="tie_word_embeddings",
            value=True,
            allowed="false for these weights, or weights without lm_head.weight",
            fix="set it to false in config.json if the head was trained by itself",
        )
