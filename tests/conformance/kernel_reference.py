"""Every kernel's formula in float64, written out plainly, and the kernels that must agree with it.

Gradients come from autograd through these formulas, never from a second hand-written formula.
"""

import numpy as np
import pytest
import torch
from emulated import emulated
from torch import Tensor

from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.stock import StockKernels

KERNELS: dict[str, Kernels] = {
    "native": NativeKernels(),
    "emulated": emulated(),
    "stock": StockKernels(torch.device("cpu")),
}
if torch.cuda.is_available():
    KERNELS["stock-cuda"] = StockKernels(torch.device("cuda"))

every_kernels = pytest.mark.parametrize("kernels", KERNELS.values(), ids=KERNELS.keys())


def normal(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    """Seeded float32 normals on the CPU."""
    draws = np.random.default_rng(seed).standard_normal(shape) * scale
    return torch.from_numpy(draws.astype(np.float32))


def leaf(x: Tensor) -> Tensor:
    """A float64 copy that records."""
    return x.double().requires_grad_()


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 2e-6) -> None:
    """Every |actual - expected| <= tolerance * the largest |expected| (at least 1)."""
    assert actual.dtype == torch.float32
    assert actual.shape == expected.shape
    difference = (actual.detach().cpu().double() - expected.detach()).abs().max().item()
    allowed = tolerance * max(1.0, expected.detach().abs().max().item())
    assert difference <= allowed, f"off by {difference:.3g}, allowed {allowed:.3g}"


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def silu_gate(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return gate / (1 + torch.exp(-gate)) * up


def rotate(
    qkv: Tensor, shape: HeadShape, positions: Tensor, frequencies: Tensor, gains: tuple[Tensor, Tensor, float] | None
) -> Tensor:
    """Each pair (x_j, x_j+half) of q and k as a complex number, turned by position * frequency."""
    n, d = len(qkv), shape.head_dim
    heads = qkv.view(n, -1, d)
    q, k, v = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
    if gains is not None:
        q, k = rms_norm(q, gains[0], gains[2]), rms_norm(k, gains[1], gains[2])
    angle = positions.double()[:, None] * frequencies.double()
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]

    def turned(x: Tensor) -> Tensor:
        y = torch.complex(x[..., : d // 2], x[..., d // 2 :]) * turn
        return torch.cat([y.real, y.imag], dim=-1)

    return torch.cat([turned(q), turned(k), v], dim=1).reshape(n, -1)


def attention(qkv: Tensor, shape: HeadShape) -> Tensor:
    """Causal softmax attention of one whole sequence, query head by query head."""
    n, d, group = len(qkv), shape.head_dim, shape.heads // shape.kv_heads
    heads = qkv.view(n, -1, d)
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    outputs: list[Tensor] = []
    for h in range(shape.heads):
        q = heads[:, h]
        k = heads[:, shape.heads + h // group]
        v = heads[:, shape.heads + shape.kv_heads + h // group]
        scores = (q @ k.T / d**0.5).masked_fill(future, -torch.inf)
        outputs.append(torch.softmax(scores, dim=1) @ v)
    return torch.cat(outputs, dim=1)
