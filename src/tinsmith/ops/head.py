"""Head of a decoder in training: log-probabilities of targets, and the logits saved for the backward pass.

A row of logits is read for as many targets as there are datums that share its tokens. A small number of logits is saved
from forward to backward. A large number is computed in chunks of rows, and again in backward for all rows with a
gradient; the bits are the same, as a row's logits do not depend on the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from tinsmith.ops.forest import Reads
from tinsmith.ops.functions import _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Linear, LinearActivations, LowRank, Run, backward, forward_and_save

MAX_SAVED_LOGITS: Final = 1 << 25
"""Most logits saved from forward to backward: 128 MiB."""
CHUNK_LOGITS: Final = 1 << 23
"""Most logits held at once if none are saved: 32 MiB."""


class HeadLogprobs(torch.autograd.Function):
    """Log-probability of the target of every read: the head's product, log-softmax and gather as one step.

    Backward touches only rows with a read whose gradient is not zero: a zero row adds fma(0, x, acc) = acc to every
    chain of finite x.
    """

    @staticmethod
    def forward(
        ctx: _Ctx, x: Tensor, kernels: Kernels, linear: Linear, low: LowRank | None, reads: Reads, segments: Tensor
    ) -> Tensor:
        count, width = x.shape[0], linear.out_size
        keep = count * width <= MAX_SAVED_LOGITS
        size = count if keep else max(1, CHUNK_LOGITS // width)
        out = torch.empty(len(reads.rows), device=x.device)
        saved = None
        for begin in range(0, count, size):
            rows = x[begin : begin + size]
            logits, needed = forward_and_save(kernels, rows, linear, (Run(0, rows.shape[0], low),), keep=keep)
            stats = kernels.row_stats(logits, 1.0)
            here = np.flatnonzero((reads.rows >= begin) & (reads.rows < begin + size))
            if len(here):
                out[torch.from_numpy(here).to(x.device)] = kernels.gather_logprobs(
                    logits,
                    torch.from_numpy(reads.targets[here]),
                    stats,
                    rows=torch.from_numpy(reads.rows[here] - begin),
                )
            saved = (logits, needed, stats) if keep else None
        ctx.kernels, ctx.saved = kernels, (x, linear, low, reads, segments, saved)
        return out

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, linear, low, reads, segments, saved = ctx.saved
        dx = torch.zeros_like(x)
        counting = np.flatnonzero(dy.cpu().numpy())
        by_row = counting[np.argsort(reads.rows[counting], kind="stable")]
        rows_read, begins = np.unique(reads.rows[by_row], return_index=True)
        if len(rows_read):
            rows = torch.from_numpy(rows_read)
            x_read = x[rows.to(x.device)]
            logits, needed, stats = _logits(ctx.kernels, x_read, rows, linear, low, saved)
            d_logits = ctx.kernels.logprob_backward(
                logits,
                torch.from_numpy(np.append(begins, len(by_row)).astype(np.int64)),
                torch.from_numpy(reads.targets[by_row]),
                dy[torch.from_numpy(by_row).to(dy.device)].contiguous(),
                stats,
            )
            bounds = torch.searchsorted(rows, segments)
            dx[rows.to(x.device)] = backward(ctx.kernels, x_read, d_logits, linear, low, needed, bounds)
        return dx, None, None, None, None, None


_Logits = tuple[Tensor, LinearActivations, tuple[Tensor, Tensor]]
"""Logits, the values for their backward pass, and the rows' statistics."""


def _logits(
    kernels: Kernels, some: Tensor, rows: Tensor, linear: Linear, low: LowRank | None, saved: _Logits | None
) -> _Logits:
    """Return the logits of some rows for overwriting: the saved ones, or computed anew."""
    if saved is None:
        logits, needed = forward_and_save(kernels, some, linear, (Run(0, some.shape[0], low),), keep=True)
        return logits, needed, kernels.row_stats(logits, 1.0)
    at = rows.to(some.device)
    logits, needed, (largest, log_sum) = saved
    if len(rows) == len(logits):
        return saved
    part = LinearActivations(
        xa=None if needed.xa is None else needed.xa[at],
        direction=None if needed.direction is None else needed.direction[at],
    )
    return logits[at], part, (largest[at], log_sum[at])
