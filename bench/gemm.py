"""Matrix products on the model's shapes: our one-chain kernel against torch.mm.

nn is a forward product (rows . weight), nt the gradient of the rows (against the weight's transpose), tn the gradient of
the weight (one chain per datum of 192 rows; torch's is one sum over all rows). Limit: the best rate of any shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from peers import report, threads
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels

WEIGHTS = {
    "qkv": (256, 512),
    "o": (256, 256),
    "gate_up": (256, 1376),
    "down": (688, 256),
    "head": (256, 4096),
}
DATUM, TRAINED, DECODED, ROUNDS = 192, 1536, 64, 9

Run = Callable[[], object]


def products(kernels: Kernels) -> Iterator[tuple[str, int, Run, Run]]:
    """(name, FLOP, ours, torch's) of every product."""
    torch.manual_seed(0)
    segments = torch.arange(0, TRAINED + 1, DATUM)
    for name, (k, n) in WEIGHTS.items():
        w, grad = torch.randn(k, n), torch.zeros(k, n)
        for rows in (DECODED, TRAINED):
            x = torch.randn(rows, k)
            yield f"nn {name} {rows}x{k}x{n}", 2 * rows * k * n, *_pair(kernels, x, w)
        dy = torch.randn(TRAINED, n)
        yield f"nt {name} {TRAINED}x{n}x{k}", 2 * TRAINED * k * n, *_pair(kernels, dy, w.t())
        yield (
            f"tn {name} {k}x{TRAINED}x{n}",
            2 * TRAINED * k * n,
            *_gradient(kernels, x, dy, segments, grad),
        )


def _pair(kernels: Kernels, a: Tensor, b: Tensor) -> tuple[Run, Run]:
    return lambda: kernels.gemm(a, b), lambda: torch.mm(a, b)


def _gradient(
    kernels: Kernels, x: Tensor, dy: Tensor, segments: Tensor, grad: Tensor
) -> tuple[Run, Run]:
    other = grad.clone()
    return lambda: kernels.grad_gemm(x, dy, segments, grad), lambda: other.addmm_(x.t(), dy)


def seconds(run: Run, flop: int) -> float:
    """Wall time of one call, averaged over at least 40 MFLOP."""
    calls = max(1, 40_000_000 // flop)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def best_rate(kernels: Kernels) -> float:
    """GFLOP/s of our fastest product on these shapes, at the threads now set."""
    return max(
        flop / min(seconds(ours, flop) for _ in range(ROUNDS)) / 1e9
        for _, flop, ours, _ in products(kernels)
    )


def main() -> None:
    kernels = NativeKernels()
    for count in (1, 2):
        threads(count)
        peak, total, total_torch = 0.0, 0.0, 0.0
        for name, flop, ours, theirs in products(kernels):
            a, b = zip(
                *((seconds(ours, flop), seconds(theirs, flop)) for _ in range(ROUNDS)), strict=True
            )
            mine, other = flop / min(a) / 1e9, flop / min(b) / 1e9
            peak = max(peak, mine, other)
            if str(DECODED) + "x" not in name:
                total, total_torch = total + min(a), total_torch + min(b)
            print(
                f"  {name}: tinsmith {mine:.0f} GFLOP/s, torch {other:.0f}, ratio of times {other / mine:.2f}"
            )
        report(
            f"training products, {count} thread(s), wall, best",
            total * 1e3,
            total_torch * 1e3,
            1.0,
            "ms",
        )
        print(f"  best rate of any product, {count} thread(s): {peak:.0f} GFLOP/s")


if __name__ == "__main__":
    main()
