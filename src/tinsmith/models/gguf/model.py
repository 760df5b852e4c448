"""GGUF file as a decoder: its shape, and its weights as fp32 under their published names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.stored import check_shapes
from tinsmith.models.gguf.config import parse_gguf_config
from tinsmith.models.gguf.file import GgufFile, rows_of, stored_rows, tensors_of
from tinsmith.models.gguf.layout import ROPE_FACTORS, FilePlace, file_places, halved, rotated_heads
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.models.names import expected_tensors
from tinsmith.ops.packed import Packed, packable


def read_decoder(file: GgufFile) -> DecoderConfig:
    """Return the decoder of a file; no weights are read.

    Raises:
        ConfigError: it is not supported.
    """
    return parse_gguf_config(file, _rope_factors(file))


def read_model(file: GgufFile) -> tuple[DecoderConfig, dict[str, torch.Tensor]]:
    """Return the decoder of a file and its weights.

    Raises:
        ConfigError, CheckpointError: see `stored_model`.
    """
    config, weights = stored_model(file)
    return config, dict(weights)


def stored_model(file: GgufFile) -> tuple[DecoderConfig, RowsInTurn]:
    """Return the decoder of a file and its weights, each decoded on access.

    Names and shapes are checked before any weight is decoded.

    Raises:
        ConfigError: the decoder is not supported.
        CheckpointError: a tensor is missing, unexpected or of the wrong shape; or later, when the file was truncated or
            an accessed tensor holds NaN or infinity.
    """
    config = read_decoder(file)
    places, expected = file_places(config), expected_tensors(config)
    check_shapes(_found_shapes(file, places), expected, source=str(file.path), files={})
    there = replace(file, metadata={})  # the header is mostly a vocabulary

    def read(name: str) -> torch.Tensor:
        place = places[name]
        if place.expert is not None:
            return read_rows(name, 0, expected[name][0])
        ((_, values),) = tensors_of(there, {place.name})
        heads = rotated_heads(name, config)
        return torch.from_numpy(halved(values, heads) if heads else values)

    def read_rows(name: str, begin: int, end: int) -> torch.Tensor:
        if rotated_heads(name, config):
            return read(name)[begin:end]
        place = places[name]
        first = 0 if place.expert is None else place.expert * expected[name][0]
        return torch.from_numpy(rows_of(there, place.name, first + begin, first + end))

    def packed(name: str) -> Packed | None:
        place, shape = places[name], expected[name]
        kind = file.tensors[place.name].type.name
        if not packable(kind, shape):
            return None
        first = 0 if place.expert is None else place.expert * shape[0]
        stored, heads = stored_rows(there, place.name, first, first + shape[0]), rotated_heads(name, config)
        return Packed(kind, halved(stored, heads) if heads else stored, (shape[0], shape[1]))

    return config, RowsInTurn(
        expected, read, read_rows, place_of=lambda name: f"{file.path}, {places[name].name}", packed=packed
    )


def _found_shapes(file: GgufFile, places: Mapping[str, FilePlace]) -> dict[str, tuple[int, ...]]:
    """Return shapes by published name, or by the file's own name for other tensors."""
    published: dict[str, list[str]] = {}
    for name, place in places.items():
        published.setdefault(place.name, []).append(name)
    shapes: dict[str, tuple[int, ...]] = {}
    for stored, tensor in file.tensors.items():
        names = published.get(stored, [stored])
        together = places[names[0]].expert is not None if stored in published else False
        if together and (len(tensor.shape) != 3 or tensor.shape[0] != len(names)):
            shapes[stored] = tensor.shape
        elif stored != ROPE_FACTORS:
            shapes |= dict.fromkeys(names, tensor.shape[1:] if together else tensor.shape)
    return shapes


def _rope_factors(file: GgufFile) -> NDArray[np.float32] | None:
    return next((values for _, values in tensors_of(file, {ROPE_FACTORS})), None)
