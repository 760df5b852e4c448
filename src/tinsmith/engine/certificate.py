"""The start-up certificate: does this machine keep the arithmetic's promise on this model's own shapes?

Each check computes one fixed row (or one fixed sequence) many times: in batches of many sizes, at several positions,
among other neighbours, for several thread counts, cached and uncached, and counts the distinct bit patterns. Where a
mode promises one and there are more, the engine refuses to start and names the op and the shape.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tinsmith.engine.parts import SOUND, Parts
from tinsmith.engine.sampler import Sampler, SamplerLimits
from tinsmith.engine.training import MicroBatches, TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.decoder import Decoder, Place
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Linear, Run, forward
from tinsmith.ops.paging import PAGE, Pages, Rows
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import DeterminismError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.seeds import derive, uniform

logger = logging.getLogger(__name__)

ROW_COUNTS = (1, 2, 3, 5, 7, 8, 9, 16, 17, 33, 64, 257)
_FEW_COUNTS = (1, 2, 3, 5, 8, 17, 64)
_PRODUCT_BUDGET = 40e9
"""Floating-point operations spent on one weight's shape; large weights are tried with fewer row counts."""


@dataclass(frozen=True, slots=True)
class Check:
    """One op on one shape: how many bit patterns one input gave, and a digest of the first."""

    op: str
    shape: str
    patterns: int
    digest: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was checked and found. Equal certificates: equal bits on everything checked, whatever the machine."""

    arithmetic: Arithmetic
    checks: tuple[Check, ...]

    @property
    def sha256(self) -> str:
        """Identity of the numbers behind it."""
        return sha256_of(self)

    @property
    def holds(self) -> bool:
        """Whether every input gave one bit pattern."""
        return all(check.patterns == 1 for check in self.checks)


def certify(decoder: Decoder, *, parts: Parts = SOUND) -> Certificate:
    """Check every op on the shapes of `decoder`. Parts that deviate on purpose are not refused, but warned of.

    Raises:
        DeterminismError: if the arithmetic promises one bit pattern and an op gave more.
    """
    checks = tuple(_checks(decoder, parts))
    certificate = Certificate(decoder.kernels.arithmetic, checks)
    bad = next((check for check in checks if check.patterns != 1), None)
    found = "" if bad is None else f"{bad.op} on {bad.shape} gave {bad.patterns} bit patterns"
    if parts.deviation is not Deviation.NONE:
        logger.warning(
            "deviation=%s: this engine is wrong on purpose; %s",
            parts.deviation,
            found or "its certificate does not show it",
        )
    elif bad is not None and decoder.kernels.arithmetic is not Arithmetic.FAST:
        raise DeterminismError(
            f"arithmetic={decoder.kernels.arithmetic} does not hold here: {found}",
            field="arithmetic",
            value=decoder.kernels.arithmetic.value,
            allowed="one bit pattern for any batch, position, thread count and cache",
            fix="use arithmetic=fast if repeatable results do not matter, or report this machine",
        )
    return certificate


def _checks(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    kernels, config = decoder.kernels, decoder.config
    seen: set[tuple[int, int]] = set()
    for place, linear in decoder.linears().items():
        if (linear.in_size, linear.out_size) not in seen:
            seen.add((linear.in_size, linear.out_size))
            yield _product(kernels, place, linear)
    for in_size in sorted({size for size, _ in seen}):
        yield _product_gradient(kernels, in_size)
    hidden, inner = config.hidden_size, config.intermediate_size
    gain = decoder.final_norm.value

    def norm(x: Tensor) -> Tensor:
        return kernels.add_rms_norm(x, x, gain, config.norm_eps)[1]

    yield _by_row(kernels, "rms_norm", hidden, norm)
    yield _by_row(kernels, "silu_gate", 2 * inner, kernels.silu_gate)
    width = config.q_size + 2 * config.kv_size

    def rotate(x: Tensor) -> Tensor:
        return kernels.rotate(x, decoder.shape, torch.full((x.shape[0],), 5), decoder.rope, None)

    yield _by_row(kernels, "rotate", width, rotate)

    def logprob(x: Tensor) -> Tensor:
        targets = torch.full((x.shape[0],), 1, dtype=torch.int32, device=x.device)
        return kernels.gather_logprobs(x, targets, kernels.row_stats(x, 1.0))[:, None]

    yield _by_row(kernels, "logprob", config.vocab_size, logprob)
    yield _attention(decoder)
    for kind in (AdapterKind.LORA, AdapterKind.DORA):
        yield _whole_model(decoder, kind, parts)


def _draw(kernels: Kernels, name: str, *shape: int) -> Tensor:
    return torch.from_numpy(uniform(derive(0, "certificate", name, *shape), shape, 2.0)).to(
        kernels.device
    )


def _bits(x: Tensor) -> bytes:
    return (x.detach().cpu().numpy() + np.float32(0)).tobytes()


def _check(op: str, shape: str, patterns: list[bytes]) -> Check:
    return Check(op, shape, len(set(patterns)), hashlib.sha256(patterns[0]).hexdigest()[:16])


def _thread_counts(kernels: Kernels) -> Iterator[int]:
    """1, 2 and the configured count, each set while the body runs; the configured one is put back."""
    configured = kernels.threads()
    try:
        for count in sorted({1, 2, configured}):
            kernels.set_threads(count)
            yield count
    finally:
        kernels.set_threads(configured)


def _by_row(
    kernels: Kernels,
    op: str,
    width: int,
    compute: Callable[[Tensor], Tensor],
    counts: tuple[int, ...] = _FEW_COUNTS,
    draws: int = 6,
) -> Check:
    """Fixed rows, each first, middle and last of batches of every size."""
    fixed = _draw(kernels, op, draws, width)
    rest = _draw(kernels, f"{op} neighbours", max(counts), width)
    patterns: list[list[bytes]] = [[] for _ in range(draws)]
    for _ in _thread_counts(kernels):
        for row, seen in zip(fixed, patterns, strict=True):
            for count in counts:
                places = sorted({0, count // 2, count - 1})
                batch = rest[:count].clone()
                batch[places] = row
                out = compute(batch)
                seen += [_bits(out[place]) for place in places]
    most = max(patterns, key=lambda seen: len(set(seen)))
    return _check(op, f"[rows, {width}]", most)


def _product(kernels: Kernels, place: Place, linear: Linear) -> Check:
    flops = 2.0 * linear.in_size * linear.out_size
    counts = tuple(
        c
        for i, c in enumerate(ROW_COUNTS)
        if i < 4 or 3 * flops * sum(ROW_COUNTS[: i + 1]) <= _PRODUCT_BUDGET
    )
    check = _by_row(
        kernels,
        f"linear {place.site}",
        linear.in_size,
        lambda x: forward(kernels, x, linear, (Run(0, x.shape[0], None),)),
        counts,
        draws=1,
    )
    return Check(
        check.op,
        f"[rows, {linear.in_size}] x [{linear.in_size}, {linear.out_size}]",
        check.patterns,
        check.digest,
    )


def _product_gradient(kernels: Kernels, in_size: int) -> Check:
    """The gradient of three datums, all at once and one by one."""
    width = 64
    x, dy = _draw(kernels, "x", 40, in_size), _draw(kernels, "dy", 40, width)
    bounds = [0, 17, 18, 40]
    patterns: list[bytes] = []
    for _ in _thread_counts(kernels):
        together = torch.zeros(in_size, width, device=kernels.device)
        kernels.grad_gemm(x, dy, torch.tensor(bounds), together)
        apart = torch.zeros_like(together)
        for begin, end in pairwise(bounds):
            kernels.grad_gemm(x[begin:end], dy[begin:end], torch.tensor([0, end - begin]), apart)
        patterns += [_bits(together), _bits(apart)]
    return _check("weight gradient", f"[tokens, {in_size}]^T x [tokens, {width}]", patterns)


def _attention(decoder: Decoder) -> Check:
    """One sequence: at once, in chunks and token by token; alone and among others; in shuffled, wider page tables."""
    kernels, shape, config = decoder.kernels, decoder.shape, decoder.config
    length = min(37, config.max_positions)
    qkv = _draw(kernels, "qkv", length, config.q_size + 2 * config.kv_size)
    pages_each = (length + PAGE - 1) // PAGE
    patterns: list[bytes] = []
    for _ in _thread_counts(kernels):
        for chunk in (length, 16, 5, 1):
            for copies, extra in ((1, 0), (3, 5)):
                pages = Pages.allocate(
                    copies * pages_each + extra, shape.kv_heads, shape.head_dim, kernels.device
                )
                table = torch.zeros(copies, pages_each + extra, dtype=torch.int32)
                order = (
                    torch.arange(copies * pages_each, dtype=torch.int32).flip(0)
                    if copies > 1
                    else torch.arange(pages_each)
                )
                table[:, :pages_each] = order.view(copies, pages_each)
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
                    outs.append(
                        kernels.attention(batch, shape, rows, pages, want_stats=recorded)[0][
                            -len(part) :
                        ]
                    )
                patterns.append(_bits(torch.cat(outs)))
    return _check(
        "attention", f"{shape.heads} heads, {shape.kv_heads} kv heads, d {shape.head_dim}", patterns
    )


def _whole_model(decoder: Decoder, kind: AdapterKind, parts: Parts) -> Check:
    """An adapter trained one step: log-probabilities as sampled, alone and batched, and as the trainer scores them."""
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1))
    session = TrainingSession(adapter, order=parts.order)
    prompts = [_tokens(decoder, n) for n in (3, 17, 30)]
    data = [Datum(tokens=p[:-1], inputs={"target_tokens": p[1:]}) for p in prompts]
    session.forward_backward(data, LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams(learning_rate=1e-2))
    policy, kernels = parts.policy_of(adapter), parts.sampling(decoder.kernels)
    patterns: list[bytes] = []
    for _ in _thread_counts(decoder.kernels):
        for limits in (SamplerLimits(), SamplerLimits(max_samples=1, prefill_tokens=7)):
            requests = [
                SampleRequest(
                    prompt=p, params=SamplingParams(seed=7, max_tokens=6, stop=()), num_samples=2
                )
                for p in prompts
            ]
            sampler = Sampler(decoder.config, kernels, limits=limits)
            results = sampler.sample(requests, [policy] * len(requests))
            sampled = [(p, s) for p, r in zip(prompts, results, strict=True) for s in r.sequences]
            patterns.append(b"".join(s.logprobs.tobytes() for _, s in sampled))
            full = [np.concatenate([p, s.tokens]) for p, s in sampled]
            for size in (1, 4):
                session.micro_batches = MicroBatches(units=size)
                out = session.forward(
                    [Datum(tokens=f[:-1], inputs={"target_tokens": f[1:]}) for f in full],
                    LossName.CROSS_ENTROPY,
                )
                scored = [
                    o.logprobs[len(p) - 1 :] for (p, _), o in zip(sampled, out.outputs, strict=True)
                ]
                patterns.append(b"".join(x.tobytes() for x in scored))
    return _check(f"sampler and trainer, {kind}", f"{decoder.config.num_layers} layers", patterns)


def _tokens(decoder: Decoder, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    unit = uniform(derive(0, "certificate", "tokens", count), (count,), 0.5) + np.float32(0.5)
    return np.minimum(unit * decoder.config.vocab_size, decoder.config.vocab_size - 1).astype(
        np.int32
    )
