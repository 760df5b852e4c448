"""A base held as it was published computes what it computes as fp32: samples, gradients, weights, certificates."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from published_blocks import random_blocks

from gguf_files import VOCAB, write_gguf
from models import scored
from oracles import LLAMA, QWEN2, QWEN3_MOE, random_weights
from tinsmith.engine.engine import Engine
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Mixture
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.held import held_base
from tinsmith.models.merge import merged_weights
from tinsmith.models.slots import values
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.packed import packed_types
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Hold
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.errors import CheckpointError
from tinsmith.types.sampling import SampleRequest, SamplingParams

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("own_home")]

SMALL = replace(
    LLAMA, num_layers=1, vocab_size=VOCAB, hidden_size=256, intermediate_size=256, head_dim=64, end_tokens=(0,)
)
"""Rows are whole blocks of every type."""
MODELS: dict[str, DecoderConfig] = {
    "tied": SMALL,
    "free": replace(SMALL, num_layers=2, tied=False, qkv_bias=True, family=QWEN2.family),
    "mixture": replace(
        QWEN3_MOE,
        num_layers=1,
        vocab_size=VOCAB,
        hidden_size=256,
        intermediate_size=256,
        head_dim=64,
        end_tokens=(0,),
        mixture=Mixture(num_experts=4, num_active=2, expert_size=256, normalised=True),
    ),
}


def encoded(weights: np.ndarray, type: Type) -> np.ndarray:
    """Weights in a type; of one that the library does not write, random ones of about their size."""
    if not type.name.endswith("_K"):
        return gguf.quantize(weights, type)
    rows = random_blocks(type.name, weights.size // weights.shape[-1], weights.shape[-1], 3)
    blocks, size = rows.reshape(-1, gguf.GGML_QUANT_SIZES[type][1]), np.float16(3e-5 if type is Type.Q6_K else 1e-4)
    for at in (208,) if type is Type.Q6_K else (0, 2):
        blocks[:, at : at + 2] = np.array([size]).view(np.uint8)
    return blocks.reshape(*weights.shape[:-1], -1)


def written(folder: Path, type: str, model: str = "tied") -> Path:
    path = folder / "model.gguf"
    weights = random_weights(MODELS[model], 1)
    write_gguf(path, MODELS[model], weights, type=Type[type], encode=encoded)
    return path


def both(path: Path, *, quantised: bool = False) -> tuple[Decoder, Decoder]:
    """The base as published, and as fp32."""
    opened = [open_base(str(path), hold=hold) for hold in Hold]
    assert opened[0].identity == opened[1].identity
    one, other = (build_decoder(o.config, o.weights, NativeKernels(), quantised=quantised) for o in opened)
    return one, other


def outcome(decoder: Decoder, kind: AdapterKind) -> list[bytes]:
    """Everything that training two steps and sampling give, as bytes."""
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1)))
    draw, found = np.random.default_rng(2), list[bytes]()
    for count in (3, 60):
        data = [scored(draw.integers(1, VOCAB, count).astype(np.int32)) for _ in range(2)]
        results = session.forward_backward(data, LossName.CROSS_ENTROPY)
        found += [output.logprobs.tobytes() for output in results.outputs]
        session.optim_step(AdamParams(learning_rate=1e-2))
    found += [tensor.numpy().tobytes() for _, tensor in sorted(values(session.adapter.slots).items())]
    policy = Policy(session.adapter.decoder, session.adapter.low)
    requests = [
        SampleRequest(
            prompt=draw.integers(1, VOCAB, 9).astype(np.int32),
            params=SamplingParams(seed=seed, max_tokens=12, stop=()),
            num_samples=samples,
        )
        for seed, samples in ((1, 1), (2, 3), (3, 9))
    ]
    for request in requests:
        (result,) = Sampler(decoder.config, decoder.kernels).sample([request], [policy])
        found += [one.tokens.tobytes() + one.logprobs.tobytes() for one in result.sequences]
    return found


@pytest.mark.parametrize("type", sorted(packed_types()))
def test_a_lora_is_trained_and_sampled_to_the_same_bits(type: str, tmp_path: Path) -> None:
    published, fp32 = both(written(tmp_path, type))
    assert published.packed
    assert not fp32.packed
    assert outcome(published, AdapterKind.LORA) == outcome(fp32, AdapterKind.LORA)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        *(("tied", kind) for kind in AdapterKind),
        *(("free", kind) for kind in (AdapterKind.DORA, AdapterKind.FULL)),
        *(("mixture", kind) for kind in (AdapterKind.QLORA, AdapterKind.FULL)),
    ],
)
def test_every_kind_of_training_has_the_same_bits(model: str, kind: AdapterKind, tmp_path: Path) -> None:
    published, fp32 = both(written(tmp_path, "Q4_1", model), quantised=kind.quantised)
    assert outcome(published, kind) == outcome(fp32, kind)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_folder_of_halves_is_held_as_it_is(dtype: torch.dtype, tmp_path: Path) -> None:
    config = MODELS["free"]
    write_folder(tmp_path / "m", config, random_weights(config, 1), dtype=dtype)
    published, fp32 = both(tmp_path / "m")
    assert len(published.packed) == 7 * config.num_layers + 2
    assert outcome(published, AdapterKind.DORA) == outcome(fp32, AdapterKind.DORA)
    assert held_base(published).linears_to_fp32 == 0.5
    assert held_base(published).other_weights == held_base(fp32).other_weights


def test_an_export_has_the_same_weights(tmp_path: Path) -> None:
    exports = [
        merged_weights(create_adapter(one, AdapterSpec(kind=AdapterKind.LORA, rank=2)))
        for one in both(written(tmp_path, "Q5_K"))
    ]
    assert exports[0].keys() == exports[1].keys()
    assert all(torch.equal(exports[0][name], tensor) for name, tensor in exports[1].items())


def test_an_engine_holds_a_base_as_published_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    path = written(tmp_path, "Q6_K")
    by_default, lines = Engine({"m": str(path)}), Engine({"m": str(path)}, hold=Hold.FP32)
    assert by_default.decoder("m").packed
    assert not lines.decoder("m").packed
    assert by_default.certificate_sha256("m") == lines.certificate_sha256("m")
    assert by_default.base("m") == lines.base("m")


def test_a_value_that_is_not_finite_is_refused_as_published_too(tmp_path: Path) -> None:
    path = written(tmp_path, "Q8_0")
    content = bytearray(path.read_bytes())
    tensor = gguf.GGUFReader(path).tensors[0]
    content[tensor.data_offset : tensor.data_offset + 2] = np.array([np.inf], np.float16).tobytes()
    path.write_bytes(content)
    for hold in Hold:
        with pytest.raises(CheckpointError, match="NaN or infinity"):
            open_base(str(path), hold=hold)
