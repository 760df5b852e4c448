"""Certificate checks of single ops: each fixed row gives the same bits in every batch.

The batches cross every boundary at which the kernels take another path: tiles of 6 rows (2 in scalar code), strips of
16 or 64 columns, packing from 48 rows on, and the runs of rows that several threads take (native/gemm.hpp,
native/bind_products.cpp).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tinsmith.engine.parts import Parts
from tinsmith.models.decoder import Decoder, Place
from tinsmith.ops.kernels import Draws, Kernels, Turn
from tinsmith.ops.linear import Linear, Run, forward
from tinsmith.ops.paging import PAGE, Pages, Rows
from tinsmith.types.seeds import derive, uniform

_ALWAYS = (1, 2, 7, 49)
"""Row counts for every product: one row, a partial tile, a tile and one row; the last with its weight packed."""
_AFFORDABLE = (48, 47, 3, 5, 6, 13, 97, 385)
"""Further row counts, tried in this order within `_PRODUCT_BUDGET`; 385 rows are several packed runs of two threads."""
_PRODUCT_BUDGET = 13e9
"""Floating-point operations spent on one weight's shape, over all thread counts."""
_ROW_COUNTS = (1, 2, 3, 5, 8, 17, 64)
_WIDE_COUNTS = (1, 2, 3, 7, 16)
"""Row counts of logits, which are so wide that any two rows are computed by several threads."""
_LENGTH = 83
"""Tokens of the sequence for the attention check: six pages of keys, the last of them partly filled."""


@dataclass(frozen=True, slots=True)
class Check:
    """Finding for one op on one shape: number of bit patterns from one input, and a digest of the first."""

    op: str
    shape: str
    patterns: int
    digest: str


def counted(op: str, shape: str, patterns: list[bytes]) -> Check:
    """Return the finding for the repeated results of one input."""
    return Check(op, shape, len(set(patterns)), hashlib.sha256(patterns[0]).hexdigest()[:16])


def thread_counts(kernels: Kernels) -> tuple[int, ...]:
    """Return the checked thread counts: 1, 2 and the configured one."""
    return tuple(sorted({1, 2, kernels.threads()}))


def each_thread_count(kernels: Kernels) -> Iterator[int]:
    """Set each of `thread_counts` while the body runs, then restore the configured one."""
    configured = kernels.threads()
    try:
        for count in thread_counts(kernels):
            kernels.set_threads(count)
            yield count
    finally:
        kernels.set_threads(configured)


def products(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check each distinct shape of a linear step once, on the first weight of that shape."""
    del parts
    for place, linear in _distinct(decoder).items():
        yield _product(decoder.kernels, place, linear)


def weight_gradients(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check the gradient of four units, computed together and one by one."""
    del parts
    kernels, width, bounds = decoder.kernels, 64, [0, 17, 18, 25, 40]
    for in_size in sorted({linear.in_size for linear in _distinct(decoder).values()}):
        x, dy = drawn(kernels, "x", 40, in_size), drawn(kernels, "dy", 40, width)
        patterns: list[bytes] = []
        for _ in each_thread_count(kernels):
            together = torch.zeros(in_size, width, device=kernels.device)
            kernels.grad_gemm(x, dy, torch.tensor(bounds), together)
            apart = [torch.zeros_like(together) for _ in bounds[1:]]
            for (begin, end), into in zip(pairwise(bounds), apart, strict=True):
                kernels.grad_gemm(x[begin:end], dy[begin:end], torch.tensor([0, end - begin]), into)
            one, two, three, four = apart
            patterns += [bits_of(together), bits_of((one + two) + (three + four))]
        yield counted("weight gradient", f"[tokens, {in_size}]^T x [tokens, {width}]", patterns)


def row_steps(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check norm, gate and rotation: row-wise steps without a weight matrix."""
    del parts
    kernels, config = decoder.kernels, decoder.config
    gain = decoder.final_norm.value

    def norm(x: Tensor) -> Tensor:
        return kernels.add_rms_norm(x, x, gain, config.norm_eps)[1]

    def rotate(x: Tensor) -> Tensor:
        return kernels.rotate(x, Turn(decoder.shape, torch.full((x.shape[0],), 5), decoder.rope, None))

    yield by_row(kernels, "rms_norm", config.hidden_size, norm)
    yield by_row(kernels, "silu_gate", 2 * config.intermediate_size, kernels.silu_gate)
    yield by_row(kernels, "rotate", config.q_size + 2 * config.kv_size, rotate)


def logprobs(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check a target's log-probability over the whole vocabulary."""
    del parts
    kernels = decoder.kernels

    def logprob(x: Tensor) -> Tensor:
        targets = torch.full((x.shape[0],), 1, dtype=torch.int32, device=x.device)
        return kernels.gather_logprobs(x, targets, kernels.row_stats(x, 1.0))[:, None]

    yield by_row(kernels, "logprob", decoder.config.vocab_size, logprob, counts=_WIDE_COUNTS, draws=2)


def choice(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check a sampled token and its log-probability, against the trainer's log-probability of that token."""
    del parts
    kernels, vocab = decoder.kernels, decoder.config.vocab_size
    rest = drawn(kernels, "choice neighbours", max(_WIDE_COUNTS), vocab)
    draws: list[list[bytes]] = []
    for fixed in drawn(kernels, "choice", 4, vocab):
        draws.append([])
        for _ in each_thread_count(kernels):
            for count in _WIDE_COUNTS:
                batch = rest[:count].clone()
                batch[count - 1] = fixed
                tokens, sampled = kernels.choose(batch, _equal_draws(count))
                targets = torch.from_numpy(tokens.copy()).to(kernels.device)
                scored = kernels.gather_logprobs(batch, targets, kernels.row_stats(batch, 1.0))
                token = tokens[-1:].tobytes()
                draws[-1] += [token + sampled[-1:].tobytes(), token + bits_of(scored[-1:])]
    patterns = max(draws, key=lambda results: len(set(results)))
    yield counted("choice and logprob", f"[rows, {vocab}]", patterns)


def attention(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check one sequence: at once, in chunks, token by token; alone and in batches; in shuffled, wider page tables."""
    del parts
    kernels, shape, config = decoder.kernels, decoder.shape, decoder.config
    length = min(_LENGTH, config.max_positions)
    qkv = drawn(kernels, "qkv", length, config.q_size + 2 * config.kv_size)
    patterns = [
        _attended(decoder, qkv, chunk, copies, extra)
        for _ in each_thread_count(kernels)
        for chunk in (length, 48, 16, 5, 1)
        for copies, extra in ((1, 0), (3, 5))
    ]
    yield counted("attention", f"{shape.heads} heads, {shape.kv_heads} kv heads, d {shape.head_dim}", patterns)


def _attended(decoder: Decoder, qkv: Tensor, chunk: int, copies: int, extra: int) -> bytes:
    """Attend over `qkv` chunk by chunk, beside `copies` - 1 other sequences, in tables with `extra` pages more."""
    kernels, shape, length = decoder.kernels, decoder.shape, len(qkv)
    pages_each = (length + PAGE - 1) // PAGE
    pages = Pages.allocate(copies * pages_each + extra, shape.kv_heads, shape.head_dim, kernels.device)
    order = torch.arange(copies * pages_each, dtype=torch.int32)
    table = torch.zeros(copies, pages_each + extra, dtype=torch.int32)
    table[:, :pages_each] = (order.flip(0) if copies > 1 else order).view(copies, pages_each)
    outs: list[Tensor] = []
    for begin in range(0, length, chunk):
        part = qkv[begin : begin + chunk]
        rows = Rows(
            row_begin=torch.arange(copies + 1) * len(part),
            first_pos=torch.full((copies,), begin),
            positions=torch.arange(begin, begin + len(part)).repeat(copies),
            table=table,
        )
        batch = torch.cat([part + 0.25 * i for i in range(1, copies)] + [part])
        kernels.store_keys(batch, shape, rows, pages)
        recorded = chunk == length and copies == 1  # as training calls it
        out, _ = kernels.attention(batch, shape, rows, pages, want_stats=recorded)
        outs.append(out[-len(part) :])
    return bits_of(torch.cat(outs))


def _distinct(decoder: Decoder) -> dict[Place, Linear]:
    """Yield the first linear step of each shape."""
    first: dict[tuple[int, int], Place] = {}
    linears = decoder.linears()
    for place, linear in linears.items():
        first.setdefault((linear.in_size, linear.out_size), place)
    return {place: linears[place] for place in first.values()}


def _product(kernels: Kernels, place: Place, linear: Linear) -> Check:
    flops_a_row = 2.0 * linear.in_size * linear.out_size * len(thread_counts(kernels))
    counts = _ALWAYS
    for count in _AFFORDABLE:
        if flops_a_row * (sum(counts) + count) <= _PRODUCT_BUDGET:
            counts += (count,)
    check = by_row(
        kernels,
        f"linear {place.site}",
        linear.in_size,
        lambda x: forward(kernels, x, linear, (Run(0, x.shape[0], None),)),
        counts=counts,
        draws=1,
    )
    shape = f"[rows, {linear.in_size}] x [{linear.in_size}, {linear.out_size}]"
    return Check(check.op, shape, check.patterns, check.digest)


def by_row(
    kernels: Kernels,
    op: str,
    width: int,
    compute: Callable[[Tensor], Tensor],
    *,
    counts: tuple[int, ...] = _ROW_COUNTS,
    draws: int = 6,
    rows: Tensor | None = None,
) -> Check:
    """Check fixed rows (random ones by default), each at the first, middle and last place of batches of every size."""
    fixed = drawn(kernels, op, draws, width) if rows is None else rows
    draws = len(fixed)
    rest = drawn(kernels, f"{op} neighbours", max(counts), width)
    patterns: list[list[bytes]] = [[] for _ in range(draws)]
    for _ in each_thread_count(kernels):
        for row, pattern in zip(fixed, patterns, strict=True):
            for count in counts:
                places = sorted({0, count // 2, count - 1})
                batch = rest[:count].clone()
                batch[places] = row
                out = compute(batch)
                pattern += [bits_of(out[place]) for place in places]
    most = max(patterns, key=lambda results: len(set(results)))
    return counted(op, f"[rows, {width}]", most)


def _equal_draws(count: int) -> Draws:
    """Draws with the same randomness for every row."""
    return Draws(
        rows=np.arange(count, dtype=np.int64),
        seeds=np.full(count, 7, np.uint64),
        samples=np.zeros(count, np.int64),
        positions=np.full(count, 3, np.int64),
        temperatures=np.ones(count, np.float32),
        top_ks=np.full(count, -1, np.int64),
        top_ps=np.ones(count, np.float64),
    )


def drawn(kernels: Kernels, name: str, *shape: int) -> Tensor:
    """Random values within 2 of zero, the same on every machine."""
    values = uniform(derive(0, "certificate", name, *shape), shape, 2.0)
    return torch.from_numpy(values).to(kernels.device)


def bits_of(x: Tensor) -> bytes:
    """Bytes of a tensor, with -0.0 as +0.0."""
    return (x.detach().cpu().numpy() + np.float32(0)).tobytes()
