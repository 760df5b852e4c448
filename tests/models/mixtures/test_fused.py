"""Experts by themselves and in one tensor: the same model in two layouts, and what transformers saves."""

import json
from pathlib import Path

import pytest
import torch
from families import MIXTURES, make_hf_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import read_weights, stored_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.models.names import expected_tensors
from tinsmith.types.errors import CheckpointError

pytestmark = pytest.mark.whole

TOKENS = torch.arange(24).reshape(2, 12) * 13 % 320


def _fuse(folder: Path) -> None:
    """Store every layer's experts in two tensors, as transformers 5 holds them."""
    weights = load_file(folder / "model.safetensors")
    experts = sorted({name.partition("experts.")[0] + "experts." for name in weights if ".experts." in name})
    for prefix in experts:
        count = len([name for name in weights if name.startswith(prefix)]) // 3
        taken = {
            matrix: torch.stack([weights.pop(f"{prefix}{e}.{matrix}_proj.weight") for e in range(count)])
            for matrix in ("gate", "up", "down")
        }
        weights[f"{prefix}gate_up_proj"] = torch.cat([taken["gate"], taken["up"]], dim=1)
        weights[f"{prefix}down_proj"] = taken["down"].contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", MIXTURES)
def test_both_layouts_are_one_model(family: str, dtype: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 1, dtype=dtype)
    config = read_config(tmp_path)
    apart = read_weights(tmp_path, config)
    assert {name: tuple(w.shape) for name, w in apart.items()} == expected_tensors(config)
    _fuse(tmp_path)
    together = read_weights(tmp_path, config)
    assert list(together) == list(apart)
    assert all(torch.equal(together[name], tensor) for name, tensor in apart.items())


@pytest.mark.parametrize("family", MIXTURES)
def test_what_is_written_is_the_model_that_transformers_loads(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path / "theirs", 2)
    config = read_config(tmp_path / "theirs")
    weights = read_weights(tmp_path / "theirs", config)
    write_folder(tmp_path / "ours", config, weights)
    assert read_config(tmp_path / "ours") == config
    logits: list[torch.Tensor] = []
    for name in ("theirs", "ours"):
        model, info = AutoModelForCausalLM.from_pretrained(
            tmp_path / name, local_files_only=True, output_loading_info=True
        )
        assert not info["missing_keys"]
        assert not info["unexpected_keys"]
        with torch.no_grad():
            logits.append(model(TOKENS).logits)
    assert torch.equal(*logits)


@pytest.fixture
def fused(tmp_path: Path) -> tuple[Path, DecoderConfig]:
    make_hf_model("olmoe", tmp_path, 3)
    _fuse(tmp_path)
    return tmp_path, read_config(tmp_path)


def test_some_rows_are_read_by_themselves(fused: tuple[Path, DecoderConfig]) -> None:
    weights = stored_weights(*fused)
    assert isinstance(weights, RowsInTurn)
    for matrix in ("gate", "up", "down"):
        name = f"model.layers.1.mlp.experts.5.{matrix}_proj.weight"
        assert torch.equal(weights.read_rows(name, 7, 29), weights[name][7:29])


def _refused(folder: Path, config: DecoderConfig) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read_weights(folder, config)
    return caught.value


GATE_UP = "model.layers.0.mlp.experts.gate_up_proj"


@pytest.mark.parametrize("shape", [(7, 80, 64), (8, 64, 80), (8, 80)])
def test_another_shape_is_refused_by_name(shape: tuple[int, ...], fused: tuple[Path, DecoderConfig]) -> None:
    folder, config = fused
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, GATE_UP: torch.zeros(shape)}, folder / "model.safetensors")
    assert _refused(folder, config).field == "model.layers.0.mlp.experts.0.gate_proj.weight"


def test_a_matrix_that_is_stored_twice_is_refused(fused: tuple[Path, DecoderConfig]) -> None:
    folder, config = fused
    weights = load_file(folder / "model.safetensors")
    again = {f"model.layers.0.mlp.experts.{e}.up_proj.weight": torch.zeros(40, 64) for e in range(8)}
    save_file({**weights, **again}, folder / "model.safetensors")
    assert "missing" in str(_refused(folder, config))


def test_a_dense_layer_has_no_experts(tmp_path: Path) -> None:
    make_hf_model("qwen3_moe", tmp_path, 3)
    config = read_config(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["mlp_only_layers"] == [0]
    (tmp_path / "config.json").write_text(json.dumps({**values, "mlp_only_layers": []}))
    assert _refused(tmp_path, read_config(tmp_path)).field == "model.layers.0.mlp.gate.weight"
    assert read_weights(tmp_path, config)["model.layers.0.mlp.up_proj.weight"].shape == (96, 64)
