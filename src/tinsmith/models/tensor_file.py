"""One file of tensors: written so that equal tensors give equal bytes, read so that nothing stays behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from tinsmith.models.folders.stored import opened
from tinsmith.types.disk import writing
from tinsmith.types.errors import CheckpointError, DiskFullError


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, sorted by name; equal tensors give equal bytes.

    Raises:
        DiskFullError: there is no room; the file is removed.
    """
    try:
        with writing(file):
            file.touch()
            readable = file.stat().st_mode  # safetensors makes files that only their owner can read
            save_file({name: tensors[name] for name in sorted(tensors)}, file, metadata={"format": "pt"})
            file.chmod(readable)
    except DiskFullError:
        file.unlink(missing_ok=True)
        raise


def read_fp32(file: Path) -> dict[str, Tensor]:
    """Return what a safetensors file holds, all of it fp32, by name.

    Through numpy: of each tensor that safetensors (0.8.0) makes for torch, objects stay behind for good, and a server
    reads such files as long as it runs.

    Raises:
        CheckpointError: when it is missing, cut short, no safetensors, or holds another dtype.
    """
    tensors: dict[str, Tensor] = {}
    with opened(file, "np") as handle:
        for name in sorted(handle.keys()):
            dtype = handle.get_slice(name).get_dtype()
            if dtype != "F32":
                raise CheckpointError(f"{file}: a tensor has another dtype", field=name, value=dtype, allowed="F32")
            tensors[name] = torch.from_numpy(handle.get_tensor(name)).clone()
    return tensors
