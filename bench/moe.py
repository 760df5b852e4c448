"""A mixture of experts: decode at batch 32, and forward + backward, against transformers' fastest experts, and peft.

55M parameters, 4 layers, 32 experts of which a token takes 4; with `nano` the preset of 1M, 8 experts, 2 a token.
Ours is the whole engine step (scheduling, sampling, stop rules); the peer's is a forward pass, log-softmax and a
multinomial draw. `python bench/moe.py decode` runs one part. The peer is the faster of transformers' implementations of
experts, chosen by a run of its own beforehand.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, StaticCache

from peers import Clock, idle_threads_sleep, report, sampling, threads
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, LossName

LARGE = DecoderConfig(
    family=Family.QWEN3_MOE,
    vocab_size=4096,
    hidden_size=512,
    intermediate_size=1024,
    num_layers=4,
    num_heads=8,
    num_kv_heads=4,
    head_dim=64,
    max_positions=1024,
    norm_eps=1e-6,
    rope_theta=10_000.0,
    qk_norm=True,
    tied=False,
    mixture=Mixture(num_experts=32, num_active=4, expert_size=256, normalised=True),
)
CONFIG = PRESETS["moe-nano"] if "nano" in sys.argv else LARGE
BATCH, CONTEXT, STEPS = 32, 128, 12
TRAIN_BATCH, LENGTH, RANK = 8, 128, 8
ROUNDS = 5
GOAL = 0.5
IMPLEMENTATIONS = ("eager", "grouped_mm")
"""Without batched_mm, which copies an expert's weights for every token: 24 GiB for the prompts here."""
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]

Run = Callable[[], object]


@cache
def weights() -> dict[str, torch.Tensor]:
    return initial_weights(CONFIG, 0)


@cache
def decoder() -> Decoder:
    return build_decoder(CONFIG, weights(), NativeKernels())


@cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp()) / "mixture"
    write_folder(path, CONFIG, weights(), dtype=torch.float32)
    return path


def transformers_model(experts: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        folder(), attn_implementation="eager", experts_implementation=experts
    ).eval()


def our_decode() -> Run:
    sampler = sampling(decoder(), np.random.default_rng(0).integers(0, CONFIG.vocab_size, (BATCH, CONTEXT)), 500)
    return lambda: [sampler.step() for _ in range(STEPS)]


def their_decode(experts: str) -> Run:
    model = transformers_model(experts)
    prompts = np.random.default_rng(0).integers(0, CONFIG.vocab_size, (BATCH, CONTEXT))
    cache = StaticCache(config=model.config, max_cache_len=CONTEXT + (ROUNDS + 3) * STEPS)
    with torch.no_grad():
        model(torch.from_numpy(prompts), past_key_values=cache)

    def run() -> None:
        token = torch.zeros(BATCH, 1, dtype=torch.long)
        with torch.no_grad():
            for _ in range(STEPS):
                logits = model(token, past_key_values=cache).logits[:, -1]
                token = torch.multinomial(torch.log_softmax(logits, -1).exp(), 1)

    return run


def tokens() -> np.ndarray:
    return np.random.default_rng(0).integers(0, CONFIG.vocab_size, (TRAIN_BATCH, LENGTH + 1))


def our_training(kind: AdapterKind) -> Run:
    spec = AdapterSpec(kind=kind, rank=RANK, train_unembed=kind is AdapterKind.FULL)
    session = TrainingSession(create_adapter(decoder(), spec))
    datums = [
        Datum(tokens=row[:-1].astype(np.int32), inputs={"target_tokens": row[1:].astype(np.int32)}) for row in tokens()
    ]

    def run() -> None:
        session.forward_backward(datums, LossName.CROSS_ENTROPY)
        session.optimizer.sums.clear()

    return run


def their_training(experts: str, *, lora: bool) -> Run:
    model = transformers_model(experts).train()
    if lora:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=RANK, target_modules=LINEARS, target_parameters=EXPERTS))
    ids = torch.from_numpy(tokens())

    def run() -> None:
        model.zero_grad()
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        loss.backward()

    return run


def seconds(run: Run) -> float:
    clock = Clock()
    run()
    return clock.read().cpu


def fastest(make: Callable[[str], Run]) -> tuple[str, Run]:
    """The peer's fastest implementation, by the better of two runs after one that warms up."""
    found: list[tuple[float, str, Run]] = []
    for name in IMPLEMENTATIONS:
        run = make(name)
        run()
        best = min(seconds(run) for _ in range(2))
        print(f"  peer with {name} experts: {best * 1e3:.0f} ms CPU")
        found.append((best, name, run))
    _, name, run = min(found, key=lambda each: each[0])
    return name, run


def compare(title: str, ours: Run, make: Callable[[str], Run], per: int) -> None:
    """CPU-seconds in turn, and the median and the best of them."""
    name, theirs = fastest(make)
    ours()
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for run, into in zip((ours, theirs), spent, strict=True):
            into.append(seconds(run) / per * 1e3)
    for how, of in (("median", statistics.median), ("best", min)):
        report(f"{title}, CPU, {how}, peer {name}", of(spent[0]), of(spent[1]), GOAL, "ms")


def main() -> None:
    idle_threads_sleep()
    wanted = [part for part in sys.argv[1:] if part != "nano"] or ["decode", "lora", "full"]
    threads(1)
    if "decode" in wanted:
        compare("mixture, decode of 32, a step", our_decode(), their_decode, STEPS)
    if "lora" in wanted:
        compare(
            "mixture, forward + backward with LoRA",
            our_training(AdapterKind.LORA),
            lambda name: their_training(name, lora=True),
            1,
        )
    if "full" in wanted:
        compare(
            "mixture, forward + backward, all weights",
            our_training(AdapterKind.FULL),
            lambda name: their_training(name, lora=False),
            1,
        )


if __name__ == "__main__":
    main()
