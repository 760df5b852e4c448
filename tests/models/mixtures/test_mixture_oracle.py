"""Mixtures against transformers: log-probabilities of the whole vocabulary, routes, all gradients."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from families import MIXTURES, make_hf_model
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
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.names import expected_tensors
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.routing import Routes
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName

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
