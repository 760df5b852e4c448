"""Decode: batch 32, context 256, 5M parameters: `canonical` against eager transformers with a static cache.

Ours is the whole engine step (scheduling, sampling, stop rules); the peer's is a forward pass, log-softmax and a
multinomial draw. Limit: 32 x 10.8 MFLOP for the weights plus 0.26 MFLOP x 6 layers of attention per token.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import StaticCache

from peers import report, sampling, threads, tiny_decoder, tiny_transformers
from tinsmith.ops.native import NativeKernels

BATCH, CONTEXT, STEPS = 32, 256, 24


def ours() -> Callable[[], Callable[[], None]]:
    decoder = tiny_decoder(NativeKernels())
    prompts = np.random.default_rng(0).integers(0, 4096, (BATCH, CONTEXT - STEPS // 2))

    def prepare() -> Callable[[], None]:
        sampler = sampling(decoder, prompts, 200)

        def run() -> None:
            for _ in range(STEPS):
                sampler.step()

        return run

    return prepare


def theirs() -> Callable[[], Callable[[], None]]:
    model = tiny_transformers()
    prompts = np.random.default_rng(0).integers(0, 4096, (BATCH, CONTEXT - STEPS // 2))

    def prepare() -> Callable[[], None]:
        cache = StaticCache(config=model.config, max_cache_len=CONTEXT + STEPS)
        with torch.no_grad():
            model(torch.from_numpy(prompts), past_key_values=cache)

        def run() -> None:
            token = torch.zeros(BATCH, 1, dtype=torch.long)
            with torch.no_grad():
                for _ in range(STEPS):
                    out = model(token, past_key_values=cache)
                    logp = torch.log_softmax(out.logits[:, -1], -1)
                    token = torch.multinomial(logp.exp(), 1)
                    logp.gather(1, token)

        return run

    return prepare


def main() -> None:
    for count in (1, 2):
        threads(count)
        sides = (ours(), theirs())
        wall: tuple[list[float], list[float]] = ([], [])
        cpu: tuple[list[float], list[float]] = ([], [])
        for _ in range(7):
            for side, walls, cpus in zip(sides, wall, cpu, strict=True):
                run = side()
                start, start_cpu = time.perf_counter(), time.process_time()
                run()
                walls.append((time.perf_counter() - start) / STEPS * 1e3)
                cpus.append((time.process_time() - start_cpu) / STEPS * 1e3)
        for name, (a, b) in (("wall", wall), ("CPU", cpu)):
            report(f"decode, {count} thread(s), {name}, best", min(a), min(b), 0.7, "ms/step")
            report(
                f"decode, {count} thread(s), {name}, median", statistics.median(a), statistics.median(b), 0.7, "ms/step"
            )


if __name__ == "__main__":
    main()
