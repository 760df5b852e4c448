"""Times of the canonical kernels on a GPU, beside torch's own in fp32 and bf16 on the same one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.kernels import Draws
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.sampling import SampleRequest, SamplingParams

Say = Callable[[str], None]

PRODUCTS = ((2048, 576, 3072), (2048, 1536, 576), (2048, 576, 49152), (2048, 4096, 14336), (2048, 14336, 4096))
FEW = ((1, 576, 3072), (1, 4096, 14336), (4, 4096, 14336), (8, 4096, 14336))


def milliseconds(run: Callable[[], object], repeats: int = 20) -> float:
    """Median of five means."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    for _ in range(5):
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / repeats)
    return sorted(times)[2]


def speeds(kernels: CudaKernels, decoder: Decoder, say: Say) -> None:
    """Products, few rows, vocabulary, decoding, training."""
    torch.backends.cuda.matmul.allow_tf32 = False
    products(kernels, say)
    few_rows(kernels, say)
    vocabulary(kernels, say)
    decoding(kernels, decoder, say)
    training(decoder, say)


def products(kernels: CudaKernels, say: Say) -> None:
    """TFLOP/s by tile."""
    for m, k, n in PRODUCTS:
        a, w = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
        into, narrow, half = torch.empty(m, n, device="cuda"), w.bfloat16(), a.bfloat16()
        flop, found = 2e-9 * m * k * n, list[str]()
        for name, tiles, weight in (("small", 1, w), ("large", 2, w), ("large, bf16 held", 2, narrow)):
            kernels.set_threads(tiles)
            found.append(f"{name} {flop / milliseconds(partial(kernels.gemm, a, weight), 5):.1f}")
        kernels.set_threads(3)
        fp32 = flop / milliseconds(partial(torch.mm, a, w, out=into), 5)
        bf16 = flop / milliseconds(partial(torch.mm, half, narrow), 5)
        say(f"{m} x {k} x {n}, TFLOP/s: {', '.join(found)}; torch fp32 {fp32:.1f}, bf16 {bf16:.1f}")


def few_rows(kernels: CudaKernels, say: Say) -> None:
    """GB/s of weights read."""
    for m, k, n in FEW:
        a, w = torch.randn(m, k, device="cuda"), torch.randn(k, n, device="cuda")
        for weight in (w, w.bfloat16()):
            ms = milliseconds(partial(kernels.gemm, a, weight))
            theirs = milliseconds(partial(torch.mm, a.to(weight.dtype), weight))
            rate = weight.nbytes / ms / 1e6
            say(f"{m} x {k} x {n} {weight.dtype}: {1e3 * ms:.1f} us, {rate:.0f} GB/s; torch {1e3 * theirs:.1f} us")


def vocabulary(kernels: CudaKernels, say: Say) -> None:
    """Statistics and draws, the latter with their copies."""
    for rows, vocab in ((1, 49152), (256, 49152), (64, 151936)):
        x = torch.randn(rows, vocab, device="cuda") * 3
        for top_p in (1.0, 0.95):
            draws = Draws(
                rows=np.arange(rows), seeds=np.arange(rows, dtype=np.uint64), samples=np.arange(rows),
                positions=np.arange(rows), temperatures=np.ones(rows, np.float32), top_ks=np.full(rows, -1),
                top_ps=np.full(rows, top_p),
            )  # fmt: skip
            ms = milliseconds(partial(kernels.choose, x, draws), 5)
            stats = milliseconds(partial(kernels.row_stats, x, 1.0), 5)
            say(f"{rows} x {vocab}, top_p {top_p}: draws {1e3 * ms:.0f} us, statistics {1e3 * stats:.0f} us")


def decoding(kernels: CudaKernels, decoder: Decoder, say: Say) -> None:
    """Tokens a second of the whole sampler, with graphs and without."""
    for batch in (1, 32, 256):
        for use in (True, False):
            kernels.use_graphs = use
            sampler = Sampler(decoder.config, kernels)
            params = SamplingParams(seed=1, max_tokens=96, stop=())
            prompt = np.arange(1, 33, dtype=np.int32)
            group = sampler.submit(SampleRequest(prompt=prompt, params=params, num_samples=batch), Policy(decoder, {}))
            while sampler.num_running < batch:
                sampler.step()
            for _ in range(8):
                sampler.step()
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(64):
                sampler.step()
            torch.cuda.synchronize()
            rate = 64 * batch / (time.perf_counter() - began)
            sampler.cancel(group)
            say(f"decode, batch {batch}, {'graphs' if use else 'no graphs'}: {rate:.0f} tokens/s")
    kernels.use_graphs = True


def training(decoder: Decoder, say: Say) -> None:
    """Tokens a second of LoRA training, 32 x 512."""
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=16, seed=1)))
    rng = np.random.default_rng(0)
    ids = rng.integers(1, decoder.config.vocab_size, (32, 513)).astype(np.int32)
    data = [Datum(tokens=row[:-1], inputs={"target_tokens": row[1:]}) for row in ids]
    for name in ("first", "second", "third"):
        torch.cuda.synchronize()
        began = time.perf_counter()
        session.forward_backward(data, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=1e-4))
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        say(f"LoRA step of 32 x 512 tokens, {name}: {seconds:.2f} s, {32 * 512 / seconds:.0f} tokens/s")
