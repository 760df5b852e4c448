"""Cases of the CUDA kernels at real models' shapes: each gives a tensor that must have the native kernels' bits."""

# ruff: noqa: E402

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("shared", "ops", "engine")]

from canonical_cases import bits, compute, make_inputs, moved
from emulated import emulated
from test_engine_on_cuda import CASES as CASES_OF_TRAINING
from test_engine_on_cuda import steps_of

from tinsmith.ops.cuda import arguments
from tinsmith.ops.cuda.chains import CHAIN
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.native import NativeKernels

__all__ = ["CASES_OF_TRAINING", "emulated", "steps_of"]


class Model(NamedTuple):
    """Shapes of a published model."""

    hidden: int
    inner: int
    vocab: int
    heads: HeadShape


MODELS = {
    "SmolLM2-135M": Model(576, 1536, 49152, HeadShape(heads=9, kv_heads=3, head_dim=64)),
    "Qwen3-0.6B": Model(1024, 3072, 151936, HeadShape(heads=16, kv_heads=8, head_dim=128)),
    "Llama-3.1-8B": Model(4096, 14336, 128256, HeadShape(heads=32, kv_heads=8, head_dim=128)),
}
SMALL, LARGE, BY_SIZE = 1, 2, 3


class Case(NamedTuple):
    """What is computed on either side, by name; and of a product, its operands for whoever looks for a difference."""

    name: str
    run: Callable[[Kernels], dict[str, Tensor]]
    product: tuple[Tensor, Tensor] | None = None


def normal(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale))


def small_cases() -> Iterator[Case]:
    """Every kernel on small and odd shapes."""
    shapes = {
        "several pages": (HeadShape(heads=4, kv_heads=2, head_dim=16), [37, 5, 1, 70], 48, 303, 1.0),
        "odd widths": (HeadShape(heads=3, kv_heads=1, head_dim=80), [9, 130], 97, 70, 1.0),
        "subnormal": (HeadShape(heads=2, kv_heads=1, head_dim=6), [3, 20], 21, 33, 1e-20),
    }
    for name, (shape, lengths, hidden, vocab, scale) in shapes.items():
        inputs = make_inputs(shape, lengths, hidden, vocab, scale=scale)

        def run(kernels: Kernels, inputs: object = inputs) -> dict[str, Tensor]:
            found = compute(moved(inputs, kernels.device), kernels)
            return {key: torch.as_tensor(value) for key, value in found.items()}

        yield Case(f"every kernel, {name}", run)


def product_cases(model: Model, rows: tuple[int, ...]) -> Iterator[Case]:
    """Forward, dx and weight gradients of a model's linear steps, fp32 and bf16; few rows and many."""
    qkv = (model.heads.heads + 2 * model.heads.kv_heads) * model.heads.head_dim
    for k, n in ((model.hidden, qkv), (model.hidden, 2 * model.inner), (model.inner, model.hidden)):
        weight = normal(k + n, k, n, scale=k**-0.5)
        for m in rows:
            x, dy = normal(m, m, k), normal(m + 1, m, n)
            for held in (weight, weight.bfloat16()):

                def run(kernels: Kernels, x: Tensor = x, dy: Tensor = dy, w: Tensor = held) -> dict[str, Tensor]:
                    there = w.to(kernels.device)
                    a, b = x.to(kernels.device), dy.to(kernels.device)
                    return {"y": kernels.gemm(a, there), "dx": kernels.gemm(b, there.t())}

                yield Case(f"[{m}, {k}] x [{k}, {n}] {held.dtype}", run, (x, weight))
        x, dy = normal(7, 70, k), normal(8, 70, min(n, 512))

        def gradient(kernels: Kernels, x: Tensor = x, dy: Tensor = dy) -> dict[str, Tensor]:
            into = torch.zeros(x.shape[1], dy.shape[1], device=kernels.device)
            units = torch.tensor([0, 23, 23, 40, 70])
            kernels.grad_gemm(x.to(kernels.device), dy.to(kernels.device), units, into)
            return {"dW": into}

        yield Case(f"gradient [{k}, {dy.shape[1]}] of units", gradient)


def model_cases(model: Model, tokens: int, width: int) -> Iterator[Case]:
    """Every other kernel at a model's heads, and a row of its whole vocabulary."""
    inputs = make_inputs(model.heads, [tokens, tokens // 3], width, model.vocab // 8)

    def run(kernels: Kernels) -> dict[str, Tensor]:
        found = compute(moved(inputs, kernels.device), kernels)
        return {key: torch.as_tensor(value) for key, value in found.items()}

    yield Case(f"every kernel, {model.heads}", run)


def compared(case: Case, ours: Kernels, theirs: Kernels, say: Callable[[str], None]) -> tuple[int, int]:
    """(elements, unequal ones) of a case; the first unequal one is told, with a product's sums chain by chain."""
    got, want = case.run(ours), case.run(theirs)
    elements = unequal = 0
    for name, value in want.items():
        a, b = bits(got[name].cpu()), bits(value.cpu())
        differ = np.flatnonzero((a != b).ravel())
        elements, unequal = elements + a.size, unequal + len(differ)
        if len(differ):
            at = np.unravel_index(differ[0], a.shape)
            where = f"{case.name}: {name}{[int(i) for i in at]}"
            say(f"UNEQUAL {where}: {int(a[at]):#x}, not {int(b[at]):#x}; {len(differ)}")
            if case.product is not None and name == "y":
                _tell_chains(case.product, int(at[0]), int(at[1]), ours, theirs, say)
    return elements, unequal


def _tell_chains(
    operands: tuple[Tensor, Tensor], m: int, n: int, ours: Kernels, theirs: Kernels, say: Callable[[str], None]
) -> None:
    x, w = operands[0][m : m + 1], operands[1][:, n : n + 1].contiguous()
    for k in range(0, x.shape[1], CHAIN):
        one, other = (
            float(each.gemm(x[:, k : k + CHAIN].to(each.device), w[k : k + CHAIN].to(each.device)).cpu())
            for each in (ours, theirs)
        )
        say(f"  chain of k {k}: {one.hex()} and {other.hex()}{'' if one == other else '  <-'}")


def sweep(kernels: CudaKernels, count: int, seed: int, say: Callable[[str], None]) -> tuple[int, int]:
    """Division, root and reciprocal over random bit patterns, a fifth of them subnormal, against numpy's."""
    drawn = np.random.default_rng(seed).integers(0, 1 << 32, (2, count), dtype=np.uint64).astype(np.uint32)
    drawn[:, ::5] &= np.uint32(0x807FFFFF)
    x, y = (part.view(np.float32) for part in drawn)
    with np.errstate(all="ignore"):
        want = (x / y, np.sqrt(x), np.float32(1) / x)
    held = [torch.from_numpy(part.copy()).to(kernels.device) for part in (x, y)]
    got = [torch.empty(count, device=kernels.device) for _ in want]
    made = arguments.QuotientArgs(*(each.data_ptr() for each in (*held, *got)), count)
    kernels.backend.launch("state", "quotients", (-(-count // 256),), 256, made)
    unequal = 0
    for name, ours, theirs in zip(("x / y", "square root", "1 / x"), got, want, strict=True):
        a, b = (np.where(np.isnan(v), np.float32(7), v).view(np.uint32) for v in (ours.cpu().numpy(), theirs))
        differ = np.flatnonzero(a != b)
        unequal += len(differ)
        if len(differ):
            i = int(differ[0])
            say(f"UNEQUAL {name} of {drawn[0][i]:#x}, {drawn[1][i]:#x}: {a[i]:#x}, not {b[i]:#x}; {len(differ)}")
    return 3 * count, unequal


def all_equal(cases: Iterator[Case], ours: CudaKernels, tiles: tuple[int, ...], say: Callable[[str], None]) -> bool:
    """Compare cases with every choice of tiles, and say how many elements were equal."""
    elements = unequal = count = 0
    began, theirs = time.perf_counter(), NativeKernels()
    for case in cases:
        for choice in tiles:
            ours.set_threads(choice)
            found = compared(case, ours, theirs, say)
            elements, unequal, count = elements + found[0], unequal + found[1], count + 1
    ours.set_threads(BY_SIZE)
    say(f"{count} cases, {elements} elements, {unequal} unequal, {time.perf_counter() - began:.0f} s")
    return unequal == 0
