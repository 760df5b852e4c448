"""Faults of saved weights beside the record that they are of: their hash, their adapter, their base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from tinsmith.engine.checkpoint_files import ADAPTER, Checkpoint, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.runs.files import MANIFEST, STATE
from tinsmith.lab.runs.folder import damage, is_saved
from tinsmith.lab.runs.records import Manifest
from tinsmith.lab.service.facts import policy_sha256
from tinsmith.types.adapters import ALPHA, AdapterKind, AdapterSpec
from tinsmith.types.fingerprints import tensors_sha256


def final_faults(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Return the faults of the last policy's weights beside the manifest; none where they are not in the folder."""
    path, stated = "" if manifest.selected is None else manifest.selected.final_path, manifest.hashes
    if not is_saved(folder / STATE, path):
        return
    if (what := damage(folder / STATE, [path])) is not None:
        yield what
        return
    each = [read(TinkerPath.parse(one).folder(folder / STATE)) for one in path.split()]
    tensors = [one.tensors(ADAPTER) for one in each]
    found = [tensors_sha256({name: value.numpy() for name, value in one.items()}) for one in tensors]
    if stated.get("weights_sha256") not in (None, policy_sha256(found)):
        yield f"{MANIFEST}: weights_sha256 is not that of {path}"
    for one, name in zip(each, path.split(), strict=True):
        yield from (f"{name}: {what}" for what in adapter_faults(one, manifest))


def adapter_faults(found: Checkpoint, manifest: Manifest) -> Iterator[str]:
    """Return the facts of a checkpoint's marker that are not those of the run's identity: adapter and base."""
    settings = cast(Mapping[str, object], manifest.identity.get("settings") or {})
    is_full = settings.get("adapter") == AdapterKind.FULL
    of_run = {
        "kind": settings.get("adapter"),
        "rank": AdapterSpec().rank if is_full else settings.get("lora_rank"),
        "alpha": settings.get("lora_alpha", ALPHA),
        "train_unembed": settings.get("train_unembed", True),
        "fingerprint": manifest.model.get("fingerprint"),
        **dict.fromkeys(("train_attn", "train_mlp"), True),
    }
    yield from found.unequal_facts(of_run, f"in {MANIFEST}")
