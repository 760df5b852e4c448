"""Mixtures against transformers: log-probabilities of the whole vocabulary, routes, all gradients."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import MIXTURES, make_hf_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from oracles import (
    OLMOE,
    QWEN3_MOE,
    cross_entropy,
    experts_together,
    full_logprobs,
    gradients,
    hf_model,
    make_datums,
    random_weights,
    reference_gradients,
    reference_logprobs,
    relative_error,
    sequences,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import read_weights, stored_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.in_turn import RowsInTurn
from tinsmith.models.names import expected_tensors
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.routing import Routes
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName
from tinsmith.types.errors import CheckpointError

pytestmark = pytest.mark.whole


LENGTHS = (70, 1, 33, 2, 40, 41, 42, 43)
MAX_LOGPROB_DIFFERENCE = 5e-5
MAX_GRADIENT_ERROR = 1e-4
NEAR_TIE = 1e-5
"""Router probabilities nearer than this may be ordered otherwise by another rounding."""


def _hf(folder: Path, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
    ).eval()


def _ours(folder: Path) -> Decoder:
    config = read_config(folder)
    return build_decoder(config, read_weights(folder, config), NativeKernels())


class Routed(RouteRecord):
    """The routes of a batch, layer by layer."""

    def __init__(self) -> None:
        super().__init__(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        self.experts: dict[int, torch.Tensor] = {}
        self.gaps: dict[int, torch.Tensor] = {}
        """How much likelier the last expert taken is than the first that is not."""

    def see(self, layer: int, logits: torch.Tensor, routes: Routes) -> None:
        self.experts[layer] = routes.experts
        active = routes.experts.shape[1]
        ordered = torch.softmax(logits.double(), 1).sort(1, descending=True).values
        self.gaps[layer] = ordered[:, active - 1] - ordered[:, active]


def _routes(decoder: Decoder, tokens: torch.Tensor) -> Routed:
    routed = Routed()
    steps = TrainSteps(decoder.kernels, Forest.whole([len(tokens)]), routed=routed)
    with torch.no_grad():
        decoder.hidden(steps, tokens)
    return routed


@pytest.mark.parametrize("family", MIXTURES)
def test_logprobs_and_routes_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 7)
    decoder, model = _ours(tmp_path), _hf(tmp_path)
    tokens = sequences(LENGTHS, decoder.config, 11)
    compared = 0
    for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True):
        routed = _routes(decoder, torch.from_numpy(ids.astype("int64")))
        near = torch.stack(list(routed.gaps.values())).amin(0) <= NEAR_TIE
        # Whatever comes after a token that may be routed otherwise reads of it.
        sure = int(near.int().argmax()) if bool(near.any()) else len(ids)
        compared += sure
        with torch.no_grad():
            theirs = reference_logprobs(model, ids)
            told = model(torch.from_numpy(ids.astype("int64"))[None], output_router_logits=True).router_logits
        if sure:
            assert float((ours - theirs)[:sure].abs().max()) <= MAX_LOGPROB_DIFFERENCE
        for logits, experts in zip(told, routed.experts.values(), strict=True):
            theirs_chosen = torch.topk(logits, experts.shape[1], dim=-1).indices.sort(1).values
            assert torch.equal(experts[:sure], theirs_chosen[:sure])
    assert compared >= 100


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("config", [QWEN3_MOE, OLMOE], ids=["qwen3_moe", "olmoe"])
def test_weights_are_normalised_where_the_config_says_so(config: DecoderConfig, normalised: bool) -> None:
    assert config.mixture is not None
    config = replace(config, mixture=replace(config.mixture, normalised=normalised))
    weights = random_weights(config, 6)
    decoder = build_decoder(config, weights, NativeKernels())
    model, tokens = hf_model(config, weights, torch.float64), sequences((60, 1, 31), config, 3)
    with torch.no_grad():
        for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True):
            difference = (ours - reference_logprobs(model, ids)).abs().max()
            assert float(difference) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe"])
def test_weights_stored_as_bf16_are_computed_with_in_fp32(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 8, dtype="bfloat16")
    decoder, model = _ours(tmp_path), _hf(tmp_path)
    (ids,) = sequences((64,), decoder.config, 5)
    with torch.no_grad():
        theirs = reference_logprobs(model, ids)
    (ours,) = full_logprobs(decoder, {}, [ids])
    assert float((ours - theirs).abs().max()) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", MIXTURES)
def test_every_gradient_is_that_of_autograd(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 10)
    decoder = _ours(tmp_path)
    datums = make_datums(decoder.config, (48, 1, 17, 3), 5)
    adapter = create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL))
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=3))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    model = _hf(tmp_path, torch.float64)
    reference = reference_gradients(model, datums, cross_entropy)
    ours = gradients(session)
    assert set(ours) == set(expected_tensors(decoder.config))
    assert relative_error(experts_together(ours, decoder.config), reference) <= MAX_GRADIENT_ERROR


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
