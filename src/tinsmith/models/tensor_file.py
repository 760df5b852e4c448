"""One file of tensors, written so that equal tensors give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def write_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors, sorted by name; equal tensors give equal bytes."""
    file.touch()
    readable = file.stat().st_mode  # safetensors makes files that only their owner can read
    save_file({name: tensors[name] for name in sorted(tensors)}, file, metadata={"format": "pt"})
    file.chmod(readable)
