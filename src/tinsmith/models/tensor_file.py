"""Files of tensors: written so that equal tensors give equal bytes, read without leaking memory."""

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
            readable = file.stat().st_mode  # safetensors creates files that only their owner can read
            save_file({name: tensors[name] for name in sorted(tensors)}, file, metadata={"format": "pt"})
            file.chmod(readable)
    except DiskFullError:
        file.unlink(missing_ok=True)
        raise


def read_fp32(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, all of them fp32.

    This reads through numpy: safetensors (0.8.0) leaks objects for each torch tensor, and a server reads such files
    throughout its life.

    Raises:
        CheckpointError: when it is missing, truncated, not safetensors, or holds another dtype.
    """
    tensors: dict[str, Tensor] = {}
    with opened(file, "np") as handle:
        for name in sorted(handle.keys()):
            dtype = handle.get_slice(name).get_dtype()
            if dtype != "F32":
                raise CheckpointError(f"{file}: a tensor has another dtype", field=name, value=dtype, allowed="F32")
            tensors[name] = torch.from_numpy(handle.get_tensor(name)).clone()
    return tensors
