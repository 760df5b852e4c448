"""Files of a checkpoint's folder: the marker `checkpoint.json`, and the tensors whose digests it lists.

No tensor is read before its SHA-256 is verified: a damaged, truncated or foreign file is rejected by name, with the
found and the expected value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from torch import Tensor

from tinsmith.models.base import BaseModel
from tinsmith.models.folders.stored import read_object
from tinsmith.models.staging import present
from tinsmith.models.tensor_file import read_fp32, write_tensors
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, DataError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.version import VERSION

MARKER = "checkpoint.json"
ADAPTER = "adapter.safetensors"
OPTIMIZER = "optimizer.safetensors"

FORMAT = "tinsmith-checkpoint"
FORMAT_VERSION = 1

_FIX = "restore the folder from a copy, or use another checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """Checkpoint on disk whose files were complete when it was read."""

    folder: Path
    spec: AdapterSpec
    base: BaseModel
    step_count: int
    """Number of optimizer steps behind these weights."""
    user_metadata: Mapping[str, str]
    created_by: str
    """Package and version that wrote the checkpoint."""
    files: Mapping[str, str]
    """SHA-256 (hex) by file name."""

    @property
    def has_optimizer(self) -> bool:
        """True if the optimizer's state is part of the checkpoint."""
        return OPTIMIZER in self.files

    @property
    def facts(self) -> dict[str, object]:
        """Settings of the adapter, fingerprint of the base and number of optimizer steps, which no tensor shows."""
        return {**asdict(self.spec), "fingerprint": self.base.fingerprint, "step_count": self.step_count}

    def unequal_facts(self, others: Mapping[str, object], where: str) -> Iterator[str]:
        """Return its facts that are others `where`, in words; None stands for one that is not known there."""
        for name, other in others.items():
            if other is not None and self.facts[name] != other:
                yield f"{name} is {self.facts[name]}, and {other} {where}"

    def unequal_elements(self, other: Checkpoint, file: str) -> Iterator[str]:
        """Return of each tensor of a file the first element that is another one in `other`, computed again."""
        first, second = self.tensors(file), other.tensors(file)
        for name in sorted({*first, *second}):
            if name not in first or name not in second or first[name].shape != second[name].shape:
                yield f"{name} is not in both, or has another shape"
                continue
            a, b = (each[name].contiguous().numpy() for each in (first, second))
            places = np.argwhere(a.view(np.int32) != b.view(np.int32))
            if len(places):
                at = tuple(map(int, places[0]))
                yield f"{name}{list(at)} is {a[at]!s}, and {b[at]!s} computed again"

    def tensors(self, file: str) -> dict[str, Tensor]:
        """Return the tensors of one of `files` by name, verifying it again, since it may have been overwritten.

        Raises:
            CheckpointError: the file is missing, has changed, or holds another type than fp32.
        """
        _verify(self.folder / file, self.files[file])
        return read_fp32(self.folder / file)


def write(
    folder: Path,
    tensors: Mapping[str, Mapping[str, Tensor]],
    *,
    spec: AdapterSpec,
    base: BaseModel,
    step_count: int,
    user_metadata: Mapping[str, str],
) -> None:
    """Fill an empty folder: tensors by file name, and the marker last."""
    for file, content in tensors.items():
        write_tensors(folder / file, content)
    values: dict[str, object] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created_by": f"tinsmith {VERSION}",
        "adapter": _adapter_fields(spec),
        "base": asdict(base),
        "step_count": step_count,
        "user_metadata": dict(user_metadata),
        "files": {file: file_sha256(folder / file) for file in tensors},
    }
    (folder / MARKER).write_text(_signed(values), encoding="utf-8")


def _signed(values: dict[str, object]) -> str:
    return json.dumps({**values, "sha256": sha256_of(values)}, indent=2, sort_keys=True) + "\n"


def marker_without_place(folder: Path) -> str:
    """Return a checkpoint's marker, in which a base that was named by its path has the last part of it as its name.

    Raises:
        CheckpointError: it is damaged.
    """
    values = _verified_marker(folder / MARKER)
    base = cast("dict[str, object]", values["base"])
    name = Path(str(base["name"]))
    return _signed({**values, "base": {**base, "name": name.name if name.is_absolute() else str(base["name"])}})


def _adapter_fields(spec: AdapterSpec) -> dict[str, object]:
    """Adapter fields of the marker; a trained router is written only if there is one, as in older files."""
    fields = asdict(spec)
    if not spec.train_router:
        del fields["train_router"]
    return fields


def is_checkpoint(folder: Path) -> bool:
    """True if `folder` holds a complete checkpoint; nothing is verified."""
    return (present(folder) / MARKER).is_file()


def read(folder: Path) -> Checkpoint:
    """Read a checkpoint and verify the SHA-256 of its files; loads no tensor.

    Raises:
        CheckpointError: it is missing, damaged, cut short, or not one of ours.
    """
    there = present(folder)
    if not (there / MARKER).is_file():
        raise CheckpointError(
            f"{folder}: there is no complete checkpoint here",
            field=MARKER,
            value="missing",
            allowed="a folder that holds it; it is written last",
            fix="name another checkpoint; what was being written when a process died is lost",
        )
    checkpoint = _parsed(there, _verified_marker(there / MARKER))
    for name, expected in checkpoint.files.items():
        _verify(there / name, expected)
    return checkpoint


def _verify(file: Path, expected: str) -> None:
    found = file_sha256(file) if file.is_file() else "missing"
    if found != expected:
        raise CheckpointError(
            f"{file}: {'missing' if found == 'missing' else 'damaged'}",
            field="sha256",
            value=found,
            allowed=expected,
            fix=_FIX,
        )


def _verified_marker(file: Path) -> dict[str, object]:
    values = read_object(file, CheckpointError)
    for field, expected in (("format", FORMAT), ("format_version", FORMAT_VERSION)):
        if values.get(field) != expected:
            raise CheckpointError(
                f"{file}: not a checkpoint that this version can read",
                field=field,
                value=values.get(field, "absent"),
                allowed=repr(expected),
                fix=f"use what wrote it: {values.get('created_by', 'unknown')}",
            )
    found = values.pop("sha256", "absent")
    try:
        expected = sha256_of(values)
    except DataError:
        expected = "none: it holds a NaN"
    if found != expected:
        raise CheckpointError(
            f"{file}: damaged", field="sha256 of its other fields", value=expected, allowed=str(found), fix=_FIX
        )
    return values


def _parsed(folder: Path, values: Mapping[str, Any]) -> Checkpoint:
    try:
        adapter: dict[str, Any] = values["adapter"]
        base: dict[str, Any] = values["base"]
        files: dict[str, str] = values["files"]
        if set(files) not in ({ADAPTER}, {ADAPTER, OPTIMIZER}):
            raise KeyError("files")
        return Checkpoint(
            folder=folder,
            spec=AdapterSpec(
                kind=AdapterKind(adapter["kind"]),
                rank=adapter["rank"],
                seed=adapter["seed"],
                alpha=adapter["alpha"],
                train_attn=adapter["train_attn"],
                train_mlp=adapter["train_mlp"],
                train_unembed=adapter["train_unembed"],
                train_router=adapter.get("train_router", False),
            ),
            base=BaseModel(
                name=base["name"],
                fingerprint=base["fingerprint"],
                config_sha256=base["config_sha256"],
                seed=base["seed"],
            ),
            step_count=values["step_count"],
            user_metadata=MappingProxyType(dict(values["user_metadata"])),
            created_by=values["created_by"],
            files=MappingProxyType(dict(files)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / MARKER}: a field is missing or has a value that is never written",
            field="field",
            value=str(error).partition("\n")[0],
            fix=_FIX,
        ) from error
