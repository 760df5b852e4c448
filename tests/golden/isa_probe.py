"""Hashes of what a small model computes: log-probabilities, one optimizer step, sampled tokens.

Prints them as JSON. `python tests/golden/isa_probe.py --write` makes them the committed ones, for a
change that is meant to change bits.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.names import expected_tensors
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.ops.extension import module
from tinsmith.ops.kernels import Draws
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.seeds import derive, random_bits, uniform

GOLDEN = Path(__file__).with_name("isa.json")

LENGTHS = (30, 5, 17)
PARAMS = AdamParams(learning_rate=3e-3, weight_decay=0.1, grad_clip_norm=1.0)

QWEN = DecoderConfig(
    family=Family.QWEN3,
    vocab_size=83,
    hidden_size=40,
    intermediate_size=72,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=24,
    max_positions=64,
    norm_eps=1e-6,
    rope_theta=1e6,
    qkv_bias=True,
    o_bias=True,
    qk_norm=True,
)
"""Every optional part of a decoder, in widths that fill no vector."""


MIXTURE = replace(
    QWEN,
    family=Family.QWEN3_MOE,
    qkv_bias=False,
    o_bias=False,
    mixture=Mixture(num_experts=8, num_active=2, expert_size=36, normalised=True, dense_layers=(1,)),
)
"""Eight experts in one layer, and a dense one."""

OLMOE = replace(
    MIXTURE,
    family=Family.OLMOE,
    qk_norm=False,
    qk_norm_whole=True,
    mixture=Mixture(num_experts=20, num_active=5, expert_size=20, normalised=False),
)
"""Weights that do not add up to one, and norms over all heads together."""


def tokens(config: DecoderConfig, name: str, count: int) -> np.ndarray:
    return (random_bits(derive(0, name), count) % np.uint64(config.vocab_size)).astype(np.int32)


def datums(config: DecoderConfig) -> list[Datum]:
    return [
        Datum(
            tokens=tokens(config, f"tokens {i}", n),
            inputs={
                "target_tokens": tokens(config, f"targets {i}", n),
                "logprobs": uniform(derive(0, "q", i), (n,), 0.5) - np.float32(5.5),
                "advantages": uniform(derive(0, "advantages", i), (n,), 1.0),
            },
        )
        for i, n in enumerate(LENGTHS)
    ]


def forked(config: DecoderConfig) -> list[Datum]:
    """Datums of two stems, one of them forked again, in turn."""
    stems = [tokens(config, f"stem {i}", n) for i, n in enumerate((19, 26))]
    stems.append(np.concatenate([stems[0], tokens(config, "turn", 7)]))
    made: list[Datum] = []
    for i, stem in enumerate((0, 1, 2, 0, 1, 2)):
        own = np.concatenate([stems[stem], tokens(config, f"branch {i}", 3 + 2 * i)])
        n = len(own)
        inputs = {
            "target_tokens": tokens(config, f"fork targets {i}", n),
            "logprobs": uniform(derive(0, "fork q", i), (n,), 0.5) - np.float32(5.5),
            "advantages": uniform(derive(0, "fork advantages", i), (n,), 1.0),
        }
        made.append(Datum(tokens=own, inputs=inputs))
    return made


def weights_of(config: DecoderConfig) -> dict[str, torch.Tensor]:
    """As a preset's, but with norms that are not one and biases that are not zero."""
    weights = initial_weights(config, 0)
    for name, shape in expected_tensors(config).items():
        if len(shape) == 1:
            weights[name] = weights[name] + torch.from_numpy(uniform(derive(1, name), shape, 0.3))
    return weights


def step_of(
    config: DecoderConfig,
    kind: AdapterKind,
    data: Callable[[DecoderConfig], list[Datum]] = datums,
    unit: GradientUnit = GradientUnit.TREE,
    *,
    router: bool = False,
) -> dict[str, str]:
    """Hashes of the log-probabilities and gradient norm before a step, and of the weights after two."""
    base = build_decoder(config, weights_of(config), NativeKernels(), quantised=kind.quantised)
    adapter = create_adapter(base, AdapterSpec(kind=kind, rank=4, seed=1, train_router=router))
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=2), gradient_unit=unit)
    hashes: dict[str, str] = {}
    if config.mixture is not None:
        session.forward_backward(data(config), LossName.IMPORTANCE_SAMPLING)
        hashes["gradients"] = gradients_of(session)
        session.optimizer.sums.clear()
    for step in range(2):  # the first of a low-rank adapter moves its B only
        result = session.forward_backward(data(config), LossName.IMPORTANCE_SAMPLING)
        logprobs = {f"logprobs {i}": output.logprobs for i, output in enumerate(result.outputs)}
        sums = np.array([*session.optim_step(PARAMS).values(), *result.metrics.values()])
        hashes[f"said at step {step}"] = tensors_sha256({**logprobs, "sums": sums})
    trained = {name: tensor.numpy() for name, tensor in values(adapter.slots).items()}
    return {**hashes, "weights": tensors_sha256(trained)}


def gradients_of(session: TrainingSession) -> str:
    """The hash of every buffer's gradient."""
    total = session.optimizer.sums.total()
    return tensors_sha256({f"{i:03d}": grad.numpy() for i, grad in enumerate(total)})


def draws(kernels: NativeKernels) -> str:
    """The hash of tokens drawn from flat and from peaked logits, greedy to cut at top-k and top-p."""
    count, width = 96, 211
    logits = uniform(derive(0, "logits"), (count, width), 8.0)
    logits[::2] *= np.float32(0.05)
    index = np.arange(count)
    drawn, logprobs = kernels.choose(
        torch.from_numpy(logits),
        Draws(
            rows=index[::-1].copy(),
            seeds=random_bits(5, count),
            samples=index % 7,
            positions=index * 3,
            temperatures=np.array([0.0, 0.3, 1.0, 1.7], np.float32)[index % 4],
            top_ks=np.array([-1, 1, 40])[index % 3],
            top_ps=np.array([1.0, 0.9, 0.2, 1.0, 0.5])[index % 5],
        ),
    )
    return tensors_sha256({"tokens": drawn, "logprobs": logprobs})


def hashes() -> dict[str, str]:
    kernels = NativeKernels()
    found = {"draws": draws(kernels)}
    for kind in AdapterKind:
        words = step_of(PRESETS["nano"], kind)
        found.update({f"nano {kind.value}: {name}": sha for name, sha in words.items()})
    for unit in GradientUnit:
        for kind in (AdapterKind.LORA, AdapterKind.DORA):
            words = step_of(PRESETS["nano"], kind, forked, unit)
            found.update({f"nano {kind.value}, forks by {unit}: {n}": s for n, s in words.items()})
        words = step_of(QWEN, AdapterKind.FULL, forked, unit)
        found.update({f"qwen full, forks by {unit}: {name}": sha for name, sha in words.items()})
    for kind in AdapterKind:
        words = step_of(MIXTURE, kind, forked)
        found.update({f"mixture {kind.value}: {name}": sha for name, sha in words.items()})
    words = step_of(OLMOE, AdapterKind.LORA, forked, router=True)
    found.update({f"olmoe lora, router: {name}": sha for name, sha in words.items()})
    for tied in (False, True):
        words = step_of(replace(QWEN, tied=tied), AdapterKind.FULL)
        head = "tied" if tied else "free"
        found.update({f"qwen full, {head} head: {name}": sha for name, sha in words.items()})
    return dict(sorted(found.items()))


def main() -> None:
    text = json.dumps(hashes(), indent=2) + "\n"
    assert module().isa() == os.environ.get("TINSMITH_ISA", module().isa())
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
