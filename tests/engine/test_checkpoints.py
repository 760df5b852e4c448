import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from oracles import LLAMA, QWEN3, disturb, random_weights, sequences, small_decoder
from tinsmith.engine.checkpoints import Checkpoint, list_checkpoints, load_adapter, load_session, read, restore, save
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import BaseModel, identify
from tinsmith.models.merge import all_logprobs
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import CheckpointError, ConfigError, InputError
from tinsmith.types.fingerprints import sha256_of

pytestmark = pytest.mark.whole

BASE = identify("test/llama", LLAMA, random_weights(LLAMA, 1))
PARAMS = AdamParams(learning_rate=3e-3, weight_decay=0.01, grad_clip_norm=1.0)
LORA = AdapterSpec(rank=4, seed=3)


def _session(spec: AdapterSpec, targets: list[str] | None = None) -> TrainingSession:
    decoder = small_decoder(LLAMA, quantised=spec.kind.quantised)
    return TrainingSession(create_adapter(decoder, spec, targets=targets))


def _spec(kind: AdapterKind) -> AdapterSpec:
    return AdapterSpec(kind=kind, rank=4, seed=3)


def _data(seed: int) -> list[Datum]:
    tokens = sequences((9, 5), LLAMA, seed)
    weights = np.ones(1, np.float32)
    return [
        Datum(tokens=t[:-1], inputs={"target_tokens": t[1:], "weights": weights.repeat(len(t) - 1)}) for t in tokens
    ]


def _train(session: TrainingSession, steps: range) -> None:
    for step in steps:
        session.forward_backward(_data(step), LossName.CROSS_ENTROPY)
        session.optim_step(PARAMS)


def _hash(session: TrainingSession) -> str:
    """SHA-256 over the bits of weights and moments by name, and the number of steps."""
    digest = hashlib.sha256(str(session.optimizer.step_count).encode())
    for slot in sorted(session.adapter.slots, key=lambda slot: slot.name):
        digest.update(slot.name.encode() + slot.value.numpy().tobytes())
        for moment in session.optimizer.moments_of(slot.weight):
            digest.update(slot.view(moment).contiguous().numpy().tobytes())
    return digest.hexdigest()


def _tree(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    session = _session(LORA)
    _train(session, range(1))
    return save(session, tmp_path / "saved", base=BASE, with_optimizer=True, user_metadata={"note": "first"})


# Bits


@pytest.mark.parametrize("kind", AdapterKind)
def test_a_session_that_was_saved_and_loaded_goes_on_as_if_never_stopped(kind: AdapterKind, tmp_path: Path) -> None:
    uninterrupted = _session(_spec(kind))
    _train(uninterrupted, range(4))

    first = _session(_spec(kind))
    _train(first, range(2))
    checkpoint = read(save(first, tmp_path / "a", base=BASE, with_optimizer=True))
    decoder = small_decoder(LLAMA, quantised=kind.quantised)
    second = load_session(decoder, checkpoint, base=BASE, with_optimizer=True)
    assert _hash(second) == _hash(first)
    _train(second, range(2, 4))
    assert _hash(second) == _hash(uninterrupted)

    _train(first, range(2, 3))  # the saved session itself, taken back by one step
    restore(first, checkpoint, base=BASE, with_optimizer=True)
    _train(first, range(2, 4))
    assert _hash(first) == _hash(uninterrupted)


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
def test_an_adapter_on_some_layers_only_goes_on_too(kind: AdapterKind, tmp_path: Path) -> None:
    targets = ["model.layers.0.self_attn.v_proj", "model.layers.1.mlp.up_proj"]
    uninterrupted, first = _session(_spec(kind), targets), _session(_spec(kind), targets)
    _train(uninterrupted, range(4))
    _train(first, range(2))
    checkpoint = read(save(first, tmp_path / "a", base=BASE, with_optimizer=True))
    decoder = small_decoder(LLAMA, quantised=kind.quantised)
    second = load_session(decoder, checkpoint, base=BASE, with_optimizer=True)
    assert list(second.adapter.targets) == targets
    _train(second, range(2, 4))
    assert _hash(second) == _hash(uninterrupted)


def test_equal_sessions_give_equal_bytes(tmp_path: Path) -> None:
    trees: list[dict[str, bytes]] = []
    for name in ("a", "b"):
        session = _session(LORA)
        _train(session, range(1))
        trees.append(_tree(save(session, tmp_path / name, base=BASE, with_optimizer=True)))
    assert trees[0] == trees[1]
    assert set(trees[0]) == {"adapter.safetensors", "checkpoint.json", "optimizer.safetensors"}


def test_a_waiting_gradient_is_not_saved_and_is_cleared_by_loading(saved: Path, tmp_path: Path) -> None:
    session = _session(LORA)
    _train(session, range(1))
    before = _hash(session)
    session.forward_backward(_data(8), LossName.CROSS_ENTROPY)
    again = save(session, tmp_path / "again", base=BASE, with_optimizer=True)
    assert (again / "adapter.safetensors").read_bytes() == (saved / "adapter.safetensors").read_bytes()
    assert session.optimizer.gradient_norm() > 0
    restore(session, read(saved), base=BASE, with_optimizer=True)
    assert session.optimizer.gradient_norm() == 0
    assert _hash(session) == before


def test_a_loaded_adapter_says_what_the_session_says(tmp_path: Path) -> None:
    session = _session(_spec(AdapterKind.DORA))
    disturb(session.adapter, 1)
    checkpoint = read(save(session, tmp_path / "a", base=BASE, with_optimizer=False))
    adapter = load_adapter(small_decoder(LLAMA, quantised=False), checkpoint, base=BASE)
    tokens = sequences((7, 3), LLAMA, 2)
    ours = all_logprobs(adapter.decoder, adapter.low, tokens)
    assert torch.equal(ours, all_logprobs(session.adapter.decoder, session.adapter.low, tokens))
    assert all(weight.grad is None for weight in adapter.buffers())


# What a checkpoint says


def test_a_checkpoint_says_what_it_belongs_to(saved: Path) -> None:
    checkpoint = read(saved)
    assert checkpoint.spec == LORA
    assert checkpoint.base == BASE
    assert checkpoint.step_count == 1
    assert checkpoint.has_optimizer
    assert checkpoint.user_metadata == {"note": "first"}


def test_a_full_checkpoint_is_the_whole_model(tmp_path: Path) -> None:
    session = _session(_spec(AdapterKind.FULL))
    checkpoint = read(save(session, tmp_path / "a", base=BASE, with_optimizer=False))
    tensors = checkpoint.tensors("adapter.safetensors")
    assert tensors.keys() == random_weights(LLAMA, 1).keys()
    assert all(torch.equal(tensors[k], v) for k, v in random_weights(LLAMA, 1).items())


def test_metadata_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"user_metadata\['a'\] = 1"):
        save(_session(LORA), tmp_path / "a", base=BASE, with_optimizer=False, user_metadata={"a": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_diverged_session_is_not_saved(tmp_path: Path) -> None:
    session = _session(LORA)
    session.adapter.weights()[0].value[0, 0] = float("inf")
    with pytest.raises(CheckpointError, match="diverged"):
        save(session, tmp_path / "a", base=BASE, with_optimizer=False)
    assert list(tmp_path.iterdir()) == []


# Names and overwriting


def test_a_checkpoint_moved_aside_by_a_killed_overwriting_is_still_there(tmp_path: Path) -> None:
    path = TinkerPath.parse("tinker://s:train:0/weights/a")
    folder = path.folder(tmp_path)
    save(_session(LORA), folder, base=BASE, with_optimizer=True)
    folder.replace(folder.with_name(".a.old"))
    assert list_checkpoints(tmp_path) == (path,)
    restore(_session(LORA), read(folder), base=BASE, with_optimizer=True)
    with pytest.raises(InputError, match="exists already"):
        save(_session(LORA), folder, base=BASE, with_optimizer=True)


def test_checkpoints_are_listed_without_half_written_and_foreign_ones(tmp_path: Path) -> None:
    names = ("tinker://b:train:0/weights/2", "tinker://b:train:0/sampler_weights/1")
    names += ("tinker://a/weights/x.y",)
    for name in names:
        folder = TinkerPath.parse(name).folder(tmp_path)
        save(_session(LORA), folder, base=BASE, with_optimizer=False)
    half = TinkerPath.parse("tinker://a/weights/half").folder(tmp_path)
    save(_session(LORA), half, base=BASE, with_optimizer=False)
    (half / "checkpoint.json").unlink()
    (tmp_path / "a" / "weights" / ".x.y.writing-abcdefgh" / "whole").mkdir(parents=True)
    (tmp_path / "a" / "other").mkdir()
    (tmp_path / "server.sqlite").touch()
    assert [str(path) for path in list_checkpoints(tmp_path)] == sorted(names)
    assert list_checkpoints(tmp_path / "absent") == ()
    with pytest.raises(CheckpointError, match=r"field: checkpoint\.json = 'missing'"):
        read(half)


# Damage


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(bytes(content))


def _edit(**changes: object) -> Callable[[Path], None]:
    def edit(file: Path) -> None:
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return edit


def _forge(**changes: object) -> Callable[[Path], None]:
    """Edit and make the hash fit again."""

    def forge(file: Path) -> None:
        content = {**json.loads(file.read_text()), **changes}
        del content["sha256"]
        file.write_text(json.dumps({**content, "sha256": sha256_of(content)}))

    return forge


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("adapter.safetensors", _cut, r"adapter.safetensors: damaged\n  field: sha256 = "),
        ("adapter.safetensors", _flip, "adapter.safetensors: damaged"),
        ("adapter.safetensors", Path.unlink, "adapter.safetensors: missing"),
        ("optimizer.safetensors", _flip, "optimizer.safetensors: damaged"),
        ("optimizer.safetensors", Path.unlink, "optimizer.safetensors: missing"),
        ("checkpoint.json", Path.unlink, r"checkpoint\.json = 'missing'"),
        ("checkpoint.json", _cut, "checkpoint.json: cannot be read as JSON"),
        ("checkpoint.json", lambda file: file.write_bytes(b"\xff\x00"), "cannot be read as JSON"),
        ("checkpoint.json", lambda file: file.write_text("[]"), "JSON object"),
        ("checkpoint.json", lambda file: file.write_text("{}"), "format = 'absent'"),
        ("checkpoint.json", _edit(format="other"), "format = 'other'"),
        ("checkpoint.json", _edit(format_version=2), "format_version = 2"),
        ("checkpoint.json", _edit(step_count=9), "checkpoint.json: damaged"),
        ("checkpoint.json", _edit(step_count=float("nan")), "checkpoint.json: damaged"),
        ("checkpoint.json", _forge(files={"../x": "0"}), "a field is missing or has a value"),
        ("checkpoint.json", _forge(adapter={}), "a field is missing or has a value"),
        ("checkpoint.json", _forge(base=None), "a field is missing or has a value"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(
    saved: Path, name: str, damage: Callable[[Path], object], says: str
) -> None:
    damage(saved / name)
    with pytest.raises(CheckpointError, match=says) as caught:
        read(saved)
    assert str(saved) in str(caught.value)


def test_a_folder_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"field: checkpoint\.json = 'missing'"):
        read(tmp_path / "absent")


# Loading all or nothing


def _other_base() -> BaseModel:
    return replace(BASE, fingerprint="0" * 64)


@pytest.mark.parametrize(
    ("spec", "base", "says"),
    [
        (LORA, _other_base(), "base fingerprint"),
        (LORA, replace(BASE, config_sha256="0" * 64), "base config_sha256"),
        (replace(LORA, rank=8), BASE, "rank = 4"),
        (replace(LORA, alpha=16.0), BASE, "alpha = 32.0"),
        (replace(LORA, train_mlp=False), BASE, "train_mlp = True"),
        (_spec(AdapterKind.DORA), BASE, "kind = 'lora'"),
        (_spec(AdapterKind.FULL), BASE, "kind = 'lora'"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    saved: Path, spec: AdapterSpec, base: BaseModel, says: str
) -> None:
    session = _session(spec)
    _train(session, range(3, 4))
    session.forward_backward(_data(4), LossName.CROSS_ENTROPY)
    before, norm = _hash(session), session.optimizer.gradient_norm()
    with pytest.raises(CheckpointError, match=says):
        restore(session, read(saved), base=base, with_optimizer=True)
    assert _hash(session) == before
    assert session.optimizer.gradient_norm() == norm
    session.optim_step(PARAMS)


def test_an_absent_optimizer_state_is_refused(tmp_path: Path) -> None:
    session = _session(LORA)
    _train(session, range(1))
    checkpoint = read(save(session, tmp_path / "a", base=BASE, with_optimizer=False))
    before = _hash(session)
    with pytest.raises(CheckpointError, match=r"field: optimizer\.safetensors = 'absent'"):
        restore(session, checkpoint, base=BASE, with_optimizer=True)
    assert _hash(session) == before


def test_a_file_damaged_after_reading_changes_nothing(saved: Path) -> None:
    session, checkpoint = _session(LORA), read(saved)
    before = _hash(session)
    _cut(saved / "optimizer.safetensors")
    with pytest.raises(CheckpointError, match="damaged"):
        restore(session, checkpoint, base=BASE, with_optimizer=True)
    assert _hash(session) == before


def test_a_checkpoint_overwritten_after_reading_is_not_mixed_with_itself(saved: Path) -> None:
    session, checkpoint, other = _session(LORA), read(saved), _session(LORA)
    before = _hash(session)
    _train(other, range(6, 9))
    save(other, saved, base=BASE, with_optimizer=True, overwrite=True)
    with pytest.raises(CheckpointError, match="damaged"):
        restore(session, checkpoint, base=BASE, with_optimizer=True)
    assert _hash(session) == before


def test_other_targets_are_refused(saved: Path) -> None:
    session = _session(LORA, ["lm_head"])
    before = values(session.adapter.slots)
    with pytest.raises(CheckpointError, match=r"down_proj\.lora_A"):
        restore(session, read(saved), base=BASE, with_optimizer=False)
    after = values(session.adapter.slots)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_another_seed_of_the_session_is_no_matter(saved: Path) -> None:
    session, same = _session(replace(LORA, seed=99)), _session(LORA)
    for loaded in (session, same):
        restore(loaded, read(saved), base=BASE, with_optimizer=True)
    assert _hash(session) == _hash(same)


def test_another_model_is_refused_when_a_session_is_made(saved: Path) -> None:
    other = identify("test/qwen3", QWEN3, random_weights(QWEN3, 1))
    with pytest.raises(CheckpointError, match="field: base fingerprint = "):
        load_session(small_decoder(QWEN3, quantised=False), read(saved), base=other, with_optimizer=False)


def test_a_base_held_otherwise_is_refused(saved: Path) -> None:
    checkpoint: Checkpoint = read(saved)
    with pytest.raises(ConfigError, match="kind = 'lora'"):
        load_session(small_decoder(LLAMA, quantised=True), checkpoint, base=BASE, with_optimizer=False)
