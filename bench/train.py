"""Forward and backward, 8 x 192 tokens, 5M parameters, all weights: `canonical` against eager torch.

Limit: 1,536 tokens x 32.4 MFLOP (three products per weight, head included) = 50 GFLOP, and attention.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from peers import report, threads, tiny_decoder, tiny_transformers
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, LossName

BATCH, LENGTH, ROUNDS = 8, 192, 7


def ours(tokens: np.ndarray) -> Callable[[], None]:
    session = TrainingSession(create_adapter(tiny_decoder(NativeKernels()), AdapterSpec(kind=AdapterKind.FULL)))
    datums = [
        Datum(tokens=row[:-1].astype(np.int32), inputs={"target_tokens": row[1:].astype(np.int32)}) for row in tokens
    ]
    return lambda: session.forward_backward(datums, LossName.CROSS_ENTROPY) and None


def theirs(tokens: np.ndarray) -> Callable[[], None]:
    model = tiny_transformers().train()
    ids = torch.from_numpy(tokens)

    def run() -> None:
        logits = model(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        loss.backward()
        loss.item()

    return run


def main() -> None:
    tokens = np.random.default_rng(0).integers(0, 4096, (BATCH, LENGTH + 1))
    for count in (1, 2):
        threads(count)
        sides = (ours(tokens), theirs(tokens))
        wall: tuple[list[float], list[float]] = ([], [])
        cpu: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for run, walls, cpus in zip(sides, wall, cpu, strict=True):
                start, start_cpu = time.perf_counter(), time.process_time()
                run()
                walls.append((time.perf_counter() - start) * 1e3)
                cpus.append((time.process_time() - start_cpu) * 1e3)
        for name, (a, b) in (("wall", wall), ("CPU", cpu)):
            report(f"forward+backward, {count} thread(s), {name}, best", min(a), min(b), 1.1, "ms")
            report(
                f"forward+backward, {count} thread(s), {name}, median",
                statistics.median(a),
                statistics.median(b),
                1.1,
                "ms",
            )


if __name__ == "__main__":
    main()
