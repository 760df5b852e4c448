"""Checkpoints of training sessions: save, list and load them without changing a bit.

A checkpoint is a folder: `adapter.safetensors` under published names (for `full` the whole model), optionally
`optimizer.safetensors` with Adam's moments, and the marker `checkpoint.json`. It contains no timestamp: equal sessions
give equal bytes.

A gradient that was accumulated and not yet applied is not saved, and loading clears it: a
checkpoint stands between two optimizer steps, as in the Tinker service.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from tinsmith.engine.checkpoint_files import ADAPTER, OPTIMIZER, Checkpoint, is_checkpoint, read, write
from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath, from_folder, own_folders
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import BaseModel, check_same
from tinsmith.models.decoder import Decoder
from tinsmith.models.frozen import frozen_adapter, targets_among
from tinsmith.models.slots import Slot, load, values
from tinsmith.models.staging import is_taken, names_in, remove, staged
from tinsmith.ops.functions import Weight
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, InputError

__all__ = [
    "Checkpoint",
    "delete",
    "is_checkpoint",
    "list_checkpoints",
    "load_adapter",
    "load_session",
    "read",
    "restore",
    "save",
]


def save(
    session: TrainingSession,
    folder: Path,
    *,
    base: BaseModel,
    with_optimizer: bool,
    overwrite: bool = False,
    user_metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write a session's weights, and its optimizer's state if requested; return `folder`.

    The folder appears whole or not at all; an overwritten one is there until the new one is. A
    gradient that waits for its step stays in the session and is not saved.

    Raises:
        InputError: a checkpoint is there already, or the metadata is not text.
        CheckpointError: a weight is not finite, so that the checkpoint could not be loaded.
    """
    if not overwrite and is_taken(folder):
        raise InputError(
            "a checkpoint of this name exists already",
            field="name",
            value=folder.name,
            fix=f"choose another name, or {'save with overwrite=True' if with_optimizer else 'delete the first'}",
        )
    metadata = dict(user_metadata or {})
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                "metadata must map text to text", field=f"user_metadata[{key!r}]", value=value, allowed="strings"
            )
    tensors = {ADAPTER: _tensors(session.adapter.slots)}
    if with_optimizer:
        tensors[OPTIMIZER] = _tensors(_moment_slots(session))
    with staged(folder, overwrite=overwrite) as whole:
        write(
            whole,
            tensors,
            spec=session.adapter.spec,
            base=base,
            step_count=session.optimizer.step_count,
            user_metadata=metadata,
        )
    return folder


def restore(session: TrainingSession, checkpoint: Checkpoint, *, base: BaseModel, with_optimizer: bool) -> None:
    """Load a checkpoint's weights into a session on `base`, and clear its gradient.

    With the optimizer's state the session goes on as if it had never stopped; without, the
    optimizer starts afresh. Either all of it is loaded or nothing is changed. The adapter's seed
    may differ: it has no part in weights that are loaded.

    Raises:
        CheckpointError: the checkpoint is of another base model or adapter, its tensors do not fit,
            or it holds no optimizer state.
    """
    adapter, optimizer = session.adapter, session.optimizer
    check_same(base, checkpoint.base, source=str(checkpoint.folder))
    _check_spec(adapter.spec, checkpoint)
    slots, tensors = list(adapter.slots), checkpoint.tensors(ADAPTER)
    if with_optimizer:
        if not checkpoint.has_optimizer:
            raise CheckpointError(
                f"{checkpoint.folder}: saved without the optimizer's state",
                field=OPTIMIZER,
                value="absent",
                fix="load the weights alone, or a checkpoint saved with its optimizer",
            )
        slots += _moment_slots(session)
        tensors |= checkpoint.tensors(OPTIMIZER)
    load(slots, tensors, source=str(checkpoint.folder))
    if not with_optimizer:
        for first, second in optimizer.moments.values():
            first.zero_()
            second.zero_()
    optimizer.step_count = checkpoint.step_count if with_optimizer else 0
    optimizer.clear()
    adapter.changed()


def load_session(
    decoder: Decoder,
    checkpoint: Checkpoint,
    *,
    base: BaseModel,
    with_optimizer: bool,
    micro_batches: MicroBatches | None = None,
) -> TrainingSession:
    """Make a session on `decoder`, which holds `base`, from a checkpoint; see `restore`.

    Raises:
        CheckpointError: see `restore`.
        ConfigError: `decoder` is quantised and the adapter requires an unquantised base, or the reverse.
    """
    check_same(base, checkpoint.base, source=str(checkpoint.folder))
    session = TrainingSession(
        create_adapter(decoder, checkpoint.spec, targets=_targets(checkpoint)), micro_batches or MicroBatches()
    )
    restore(session, checkpoint, base=base, with_optimizer=with_optimizer)
    return session


def load_adapter(decoder: Decoder, checkpoint: Checkpoint, *, base: BaseModel) -> Adapter:
    """Create a frozen adapter from a checkpoint, for sampling or export; see `load_session`."""
    check_same(base, checkpoint.base, source=str(checkpoint.folder))
    tensors = checkpoint.tensors(ADAPTER)
    return frozen_adapter(decoder, checkpoint.spec, tensors, source=str(checkpoint.folder))


def list_checkpoints(state: Path) -> tuple[TinkerPath, ...]:
    """Return the complete checkpoints below a state folder, sorted."""
    found: list[TinkerPath] = []
    for session in sorted(state.iterdir()) if state.is_dir() else ():
        for kind in CheckpointKind:
            for name in names_in(session / kind):
                path = from_folder(session.name, kind, name)
                if path is not None and is_checkpoint(path.folder(state)):
                    found.append(path)
    return tuple(sorted(found))


def delete(folder: Path) -> None:
    """Remove a checkpoint atomically.

    Raises:
        CheckpointError: there is none.
    """
    if not is_checkpoint(folder):
        raise CheckpointError("there is no such checkpoint", field="name", value=folder.name)
    remove(folder)


def remove_empty(model_id: str, state: Path) -> None:
    """Remove the folders of a model whose checkpoints were all deleted; nothing may be saved meanwhile."""
    for folder in own_folders(model_id, state):
        with suppress(OSError):  # what is not there, or not empty, stays as it is
            folder.rmdir()


def _tensors(slots: tuple[Slot, ...]) -> dict[str, Tensor]:
    tensors = {name: tensor.cpu() for name, tensor in values(slots).items()}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(
                "the session has diverged, so it is not saved",
                field=name,
                value="NaN or infinity",
                fix="go back to the last checkpoint, and lower the learning rate",
            )
    return tensors


def _moment_slots(session: TrainingSession) -> tuple[Slot, ...]:
    """Adam's moments, keyed by the names of their weights."""
    slots: list[Slot] = []
    for slot in session.adapter.slots:
        moments = session.optimizer.moments_of(slot.weight)
        for order, moment in zip(("first_moment", "second_moment"), moments, strict=True):
            weight = Weight(moment)
            slots.append(Slot(f"{slot.name}.{order}", weight, slot.columns, slot.transposed))
    return tuple(slots)


def _targets(checkpoint: Checkpoint) -> list[str] | None:
    return targets_among(checkpoint.spec, checkpoint.tensors(ADAPTER))


def _check_spec(spec: AdapterSpec, checkpoint: Checkpoint) -> None:
    """Reject an adapter of another shape; seeds may differ, and `full` has only a kind."""
    found, wanted = _shape(checkpoint.spec), _shape(spec)
    for field, value in found.items():
        if value != wanted.get(field):
            raise CheckpointError(
                f"{checkpoint.folder}: a checkpoint of another adapter",
                field=field,
                value=value,
                allowed=f"{wanted.get(field)}, as in this session",
                fix="create the session from the checkpoint",
            )


def _shape(spec: AdapterSpec) -> dict[str, object]:
    if spec.kind is AdapterKind.FULL:
        return {"kind": spec.kind.value}
    return {**asdict(spec), "kind": spec.kind.value, "seed": None}
