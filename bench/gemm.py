"""Matrix products on the model's shapes: our one-chain kernel against torch.mm.

nn is a forward product (rows . weight), nt the gradient of the rows (against the weight's transpose), tn the gradient
of the weight (one chain per datum of 192 rows; torch's is one sum over all rows). Limit: the best rate of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from peers import Clock, Times, idle_threads_sleep, report, threads
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels

WEIGHTS = {"qkv": (256, 512), "o": (256, 256), "gate_up": (256, 1376), "down": (688, 256), "head": (256, 4096)}
DATUM, TRAINED, DECODED, ROUNDS = 192, 1536, 64, 9
GOAL = 1.0

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
        yield (f"tn {name} {k}x{TRAINED}x{n}", 2 * TRAINED * k * n, *_gradient(kernels, x, dy, segments, grad))


def _pair(kernels: Kernels, a: Tensor, b: Tensor) -> tuple[Run, Run]:
    return lambda: kernels.gemm(a, b), lambda: torch.mm(a, b)


def _gradient(kernels: Kernels, x: Tensor, dy: Tensor, segments: Tensor, grad: Tensor) -> tuple[Run, Run]:
    other = grad.clone()
    return lambda: kernels.grad_gemm(x, dy, segments, grad), lambda: other.addmm_(x.t(), dy)


def times(run: Run, flop: int) -> Times:
    """Times of one call, averaged over at least 40 MFLOP."""
    calls = max(1, 40_000_000 // flop)
    clock = Clock()
    for _ in range(calls):
        run()
    whole = clock.read()
    return Times(whole.wall / calls, whole.cpu / calls)


def best_rate(kernels: Kernels) -> float:
    """GFLOP per CPU-second of our fastest product on these shapes, at the threads now set."""
    return max(flop / min(times(ours, flop).cpu for _ in range(ROUNDS)) / 1e9 for _, flop, ours, _ in products(kernels))


def main() -> None:
    kernels = NativeKernels()
    for count in (1, 2):
        threads(count)
        wall, cpu, best = np.zeros(2), np.zeros(2), np.zeros(2)
        for name, flop, *sides in products(kernels):
            measured = [[times(side, flop) for side in sides] for _ in range(ROUNDS)]
            walls = np.array([[t.wall for t in both] for both in measured]).min(0)
            cpus = np.array([[t.cpu for t in both] for both in measured]).min(0)
            mine, other = flop / cpus / 1e9
            best = np.maximum(best, [(flop / walls / 1e9).max(), max(mine, other)])
            if f" {DECODED}x" not in name:
                wall, cpu = wall + walls, cpu + cpus
            rates = f"tinsmith {mine:.0f} GFLOP per CPU-second, torch {other:.0f}"
            print(f"  {name}: {rates}, ratio of times {other / mine:.2f}")
        for clock, (ours, theirs) in (("CPU", cpu * 1e3), ("wall", wall * 1e3)):
            report(f"training products, {count} thread(s), {clock}, best", ours, theirs, GOAL, "ms")
        rates = f"{best[0]:.0f} GFLOP/s, {best[1]:.0f} GFLOP per CPU-second"
        print(f"  best of any product, {count} thread(s): {rates}")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
