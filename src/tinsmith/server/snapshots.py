"""Adapter weights of sampling sessions: recently used ones in memory, others in files; equal ones stored once.

A run of a thousand steps makes a thousand snapshots, and its client may return to any of them; a thousand sampling
sessions may use one checkpoint.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.models.adapter import Adapter
from tinsmith.models.adapter_cache import AdapterCache
from tinsmith.models.frozen import frozen_adapter
from tinsmith.models.slots import values
from tinsmith.models.tensor_file import read_fp32, write_tensors
from tinsmith.server.weights import Loaded
from tinsmith.types.adapters import AdapterSpec


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Weights in memory."""

    adapter: Adapter
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class _Written:
    """Weights in a file."""

    file: Path
    spec: AdapterSpec
    weights: str


@dataclass(slots=True)
class Snapshots:
    """Weights of all sampling sessions. Used on the compute thread only."""

    engine: Bases
    folder: Path
    _held: AdapterCache[str, _Held] = field(init=False)
    """Weights in memory by their identity."""
    _written: dict[str, _Written] = field(default_factory=dict[str, _Written])
    _keys: dict[str, str] = field(default_factory=dict[str, str])
    """Identities of weights by the id of the sampling session that holds them."""
    _holders: Counter[str] = field(default_factory=Counter[str])
    _count: int = 0

    def __post_init__(self) -> None:
        """Remove the files of a previous server, whose snapshots ended with it."""
        self._held = AdapterCache(lambda held: held.adapter, self._write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __len__(self) -> int:
        """Number of distinct weights in memory."""
        return len(self._holders)

    def hold(self, name: str, base: str, spec: AdapterSpec, weights: str, load: Callable[[], Adapter]) -> None:
        """Hold weights under the id of a sampling session on `base`; they must not be trained further.

        `weights` identifies them among those of adapters of this shape; `load` is called if they are not held yet.
        """
        self.forget(name)
        key = f"{base} {weights} {spec}"
        self._keys[name] = key
        self._holders[key] += 1
        try:
            if key not in self._held and key not in self._written:
                adapter = load()
                self._held.put(key, _Held(adapter, Loaded(self.engine.parts.policy_of(adapter), weights)))
        except BaseException:  # on a full disk: no more weights are held than fit in memory
            self.forget(name)
            raise

    def loaded(self, name: str, base: str) -> Loaded:
        """Return the weights that a sampling session holds, on the base served as `base`, bit for bit.

        Raises:
            KeyError: the session holds none.
            CheckpointError: their file is damaged.
        """
        key = self._keys[name]
        held = self._held.find(key)
        if held is None:
            held = self._read(self._written[key], base)
            self._remove(key)
            self._held.put(key, held)
        return held.loaded

    def forget(self, name: str) -> None:
        """Release the weights of a sampling session, if any; requests in progress keep theirs."""
        key = self._keys.pop(name, None)
        if key is None:
            return
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self._held.drop(key)
            if key in self._written:
                self._remove(key)

    def _write(self, key: str, old: _Held) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        file = self.folder / f"{self._count}.safetensors"
        write_tensors(file, {n: t.cpu() for n, t in values(old.adapter.slots).items()})
        self._written[key] = _Written(file, old.adapter.spec, old.loaded.weights)

    def _read(self, written: _Written, base: str) -> _Held:
        decoder = self.engine.decoder(base, quantised=written.spec.kind.quantised)
        adapter = frozen_adapter(decoder, written.spec, read_fp32(written.file), source="a snapshot")
        return _Held(adapter, Loaded(self.engine.parts.policy_of(adapter), written.weights))

    def _remove(self, key: str) -> None:
        self._written.pop(key).file.unlink(missing_ok=True)
