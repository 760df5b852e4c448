"""Weights that are sampled from and have no name: the latest used are in memory, the others in files.

A run of a thousand steps makes a thousand snapshots, and its client may come back to any of them.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.models.adapter import Adapter
from tinsmith.models.frozen import frozen_adapter
from tinsmith.models.slots import values
from tinsmith.models.tensor_file import read_fp32, write_tensors
from tinsmith.server.weights import Loaded
from tinsmith.types.adapters import AdapterSpec

KEPT_BYTES, KEPT = 1 << 30, 32
"""In memory, the latest used; one at least."""


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Weights in memory."""

    adapter: Adapter
    loaded: Loaded

    @property
    def size(self) -> int:
        return sum(weight.value.nbytes for weight in self.adapter.weights())


@dataclass(frozen=True, slots=True)
class _Written:
    """Weights in a file."""

    file: Path
    spec: AdapterSpec
    weights: str


@dataclass(slots=True)
class Snapshots:
    """All snapshots of a server. Used on the compute thread only."""

    engine: Bases
    folder: Path
    _held: OrderedDict[str, _Held] = field(default_factory=OrderedDict[str, _Held])
    """By the sampling session's id, the latest used last."""
    _written: dict[str, _Written] = field(default_factory=dict[str, _Written])
    _count: int = 0

    def __post_init__(self) -> None:
        """Drop the files of a server before this one, whose snapshots ended with it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def hold(self, name: str, adapter: Adapter, weights: str) -> None:
        """Keep weights by a name; nobody trains them any more. `weights` is their SHA-256."""
        self._held[name] = _Held(adapter, Loaded(self.engine.parts.policy_of(adapter), weights))
        self._write_old()

    def loaded(self, name: str, base: str) -> Loaded:
        """The weights of this name, on the base model that is served as `base`: the bits that were held.

        Raises:
            KeyError: there are none.
            CheckpointError: their file is damaged.
        """
        if name not in self._held:
            self._held[name] = self._read(self._written[name], base)
            self._remove(name)
            self._write_old()
        self._held.move_to_end(name)
        return self._held[name].loaded

    def forget(self, name: str) -> None:
        """Drop the weights of this name, if there are any; requests under way keep theirs."""
        self._held.pop(name, None)
        if name in self._written:
            self._remove(name)

    def _write_old(self) -> None:
        sizes = [each.size for each in self._held.values()]
        for i in range(len(sizes) - 1):
            if sum(sizes[i:]) <= KEPT_BYTES and len(sizes) - i <= KEPT:
                return
            name, old = next(iter(self._held.items()))
            self.folder.mkdir(parents=True, exist_ok=True)
            self._count += 1
            file = self.folder / f"{self._count}.safetensors"
            write_tensors(file, {n: t.cpu() for n, t in values(old.adapter.slots).items()})
            self._written[name] = _Written(file, old.adapter.spec, old.loaded.weights)
            del self._held[name]  # not before: a disk may be full

    def _read(self, written: _Written, base: str) -> _Held:
        decoder = self.engine.decoder(base, quantised=written.spec.kind.quantised)
        adapter = frozen_adapter(decoder, written.spec, read_fp32(written.file), source="a snapshot")
        return _Held(adapter, Loaded(self.engine.parts.policy_of(adapter), written.weights))

    def _remove(self, name: str) -> None:
        self._written.pop(name).file.unlink(missing_ok=True)
