"""Times of the canonical kernels on a GPU, beside torch's in fp32 and bf16, transformers' and TRL's on the same one."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch

from peers import QUIET_TRAINER, sampling, transformers_of
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.renderers.tokenizer import train_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName

Say = Callable[[str], None]

PRODUCTS = (
    (2048, 576, 3072), (2048, 1536, 576), (2048, 576, 49152), (2048, 4096, 14336), (2048, 14336, 4096),
    (1, 576, 3072), (1, 4096, 14336), (4, 4096, 14336), (8, 4096, 14336),
)  # fmt: skip


def seconds(run: Callable[[], object], device: torch.device, repeats: int = 1, rounds: int = 1) -> float:
    """Median of several means, after three of them that are not counted; without a GPU of one run."""
    settle, before, times = torch.cuda.synchronize, 3 * (rounds > 1), list[float]()
    if device.type != "cuda":
        settle, before, rounds, repeats = int, 0, 1, 1
    for _ in range(before + rounds):
        settle()
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        settle()
        times.append((time.perf_counter() - began) / repeats)
    return statistics.median(times[before:])


def products(kernels: CudaKernels, _: Decoder, say: Say, *, dry: bool) -> None:
    """TFLOP/s and GB/s of weights read, by tile; few rows have no tiles."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for sizes in PRODUCTS:
        m, k, n = (-(-size // 64) if dry else size for size in sizes)
        a, w = torch.randn(m, k, device=kernels.device), torch.randn(k, n, device=kernels.device)
        narrow, found = w.bfloat16(), list[str]()
        peers = (("torch fp32", partial(torch.mm, a, w)), ("bf16", partial(torch.mm, a.bfloat16(), narrow)))
        for name, tiles, weight in (("small", 1, w), ("large", 2, w), ("by size", 3, w), ("bf16 held", 3, narrow)):
            kernels.set_threads(tiles)
            took = seconds(partial(kernels.gemm, a, weight), kernels.device, 10, 5)
            found.append(f"{name} {2e-12 * m * k * n / took:.1f} ({weight.nbytes / took / 1e9:.0f})")
        found += [f"{name} {2e-12 * m * k * n / seconds(run, kernels.device, 10, 5):.1f}" for name, run in peers]
        say(f"{m} x {k} x {n}, TFLOP/s (GB/s): {', '.join(found)}")


def decoding(kernels: CudaKernels, decoder: Decoder, say: Say, *, dry: bool) -> None:
    """Tokens a second of the whole sampler, with graphs and without; beside it `generate` in bf16."""
    peer = transformers_of(decoder.config, torch.bfloat16) if find_spec("transformers") else None
    prompt, steps = np.arange(1, 33, dtype=np.int32), 3 if dry else 64
    for batch in (1, 3) if dry else (1, 32, 256):
        for use in (False, True):
            kernels.use_graphs = use
            sampler = sampling(decoder, np.tile(prompt, (batch, 1)), 32 + steps + batch)
            for _ in range(8):
                sampler.step()
            took = seconds(sampler.step, kernels.device, steps)
            say(f"decode, batch {batch}, {'graphs' if use else 'no graphs'}: {batch / took:.0f} tokens/s")
        if peer is None:
            say(f"transformers, batch {batch}: it is not installed here")
            continue
        peer.to(kernels.device)
        ids = torch.from_numpy(prompt.astype(np.int64)).to(kernels.device).repeat(batch, 1)
        run = partial(peer.generate, ids, max_new_tokens=steps, min_new_tokens=steps, do_sample=True, pad_token_id=0)
        run()
        took = seconds(run, kernels.device)
        say(f"transformers {peer.dtype}, generate, batch {batch}: {steps * batch / took:.0f} tokens/s")


def training(kernels: CudaKernels, decoder: Decoder, say: Say, *, dry: bool) -> None:
    """Tokens a second of LoRA training, 32 x 512; beside it TRL in bf16."""
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=16, seed=1)))
    count, length = (2, 9) if dry else (32, 512)
    ids = np.random.default_rng(0).integers(1, decoder.config.vocab_size, (count, length + 1)).astype(np.int32)
    data = [Datum(tokens=row[:-1], inputs={"target_tokens": row[1:]}) for row in ids]

    def step() -> None:
        session.forward_backward(data, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=1e-4))

    for name in ("first", "second", "third"):
        took = seconds(step, kernels.device)
        say(f"LoRA step of {count} x {length} tokens, {name}: {took:.2f} s, {count * length / took:.0f} tokens/s")
    if find_spec("trl") is None or find_spec("peft") is None:
        say("TRL: it is not installed here")
        return
    say(f"TRL bf16, LoRA step of {count} x {length} tokens: {length * _trl(decoder, ids):.0f} tokens/s")


def _trl(decoder: Decoder, ids: np.ndarray) -> float:
    """Samples a second of ten steps, after as many that are not counted."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=transformers_of(decoder.config, torch.bfloat16),
            args=SFTConfig(
                output_dir=folder, per_device_train_batch_size=len(ids), max_steps=10, max_length=ids.shape[1],
                gradient_checkpointing=False,
                **{**QUIET_TRAINER, "bf16": True, "use_cpu": decoder.kernels.device.type == "cpu"},
            ),
            train_dataset=Dataset.from_list([{"input_ids": row.tolist()} for row in ids]),
            processing_class=train_tokenizer(["a"], 300),
            peft_config=LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"),
        )  # fmt: skip
        trainer.train()
        return trainer.train().metrics["train_samples_per_second"]


SPEEDS = (products, decoding, training)
