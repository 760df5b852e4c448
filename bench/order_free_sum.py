"""Cost of adding units of gradient by a fixed tree instead of in one chain: a step's CPU, both ways, interleaved.

    python bench/order_free_sum.py [MODEL]

A step of 8 groups of 8 answers on a LoRA of rank 32. The other side is the same step with one segment in place of the
units' boundaries: the same products, no sums between units, and a gradient that depends on who computes what.
The model is `tinsmith/nano`, or another, as `tinsmith/smollm2`. Limit: a tree over n units adds n - 1 times what a
unit's gradient has, in the registers and caches of the product that made it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from peers import report, threads
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName

GROUPS, SIZE, PROMPT, ANSWER, LIMIT = 8, 8, 48, 32, 1.05


class OneChain(NativeKernels):
    """The kernels, blind to where a unit ends."""

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        super().grad_gemm(a, b, _whole(segments), into)

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        super().column_chain(x, y, _whole(segments), into)

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        super().embed_backward(ids, dy, _whole(segments), into)


def _whole(segments: Tensor) -> Tensor:
    return segments[[0, -1]].contiguous()


def step(model: str, kernels: NativeKernels) -> Callable[[], None]:
    """A training step on fresh weights."""
    base = open_base(model)
    decoder = build_decoder(base.config, base.weights, kernels)
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=32)))
    rng = np.random.default_rng(0)
    datums: list[Datum] = []
    for _ in range(GROUPS):
        stem = rng.integers(5, 90, PROMPT)
        for _ in range(SIZE):
            row = np.concatenate([stem, rng.integers(5, 90, ANSWER + 1)])
            inputs = {"target_tokens": row[1:].astype(np.int32)}
            datums.append(Datum(tokens=row[:-1].astype(np.int32), inputs=inputs))

    def run() -> None:
        session.forward_backward(datums, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=1e-5))

    return run


def main() -> None:
    """Measure."""
    model = sys.argv[1] if len(sys.argv) > 1 else "tinsmith/nano"
    rounds = 15 if model == "tinsmith/nano" else 5
    threads(2)
    torch.set_num_threads(1)
    sides = (step(model, NativeKernels()), step(model, OneChain()))
    cpu: tuple[list[float], list[float]] = ([], [])
    for i in range(rounds + 1):
        for run, seconds in zip(sides, cpu, strict=True):
            began = time.process_time()
            run()
            if i:
                seconds.append((time.process_time() - began) * 1e3)
    report(f"{model}: step, CPU, best", min(cpu[0]), min(cpu[1]), LIMIT, "ms")
    medians = [statistics.median(seconds) for seconds in cpu]
    report(f"{model}: step, CPU, median", *medians, LIMIT, "ms")


if __name__ == "__main__":
    main()
