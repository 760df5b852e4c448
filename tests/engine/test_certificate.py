"""The certificate holds for the canonical kernels, and refuses each known way to break them, naming op and shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tinsmith.engine.certificate import Certificate, certify
from tinsmith.engine.deviations import StockSilu, merged
from tinsmith.engine.parts import Parts
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.presets import PRESETS, initial_weights
from tinsmith.ops.extension import configure
from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.paging import PAGE, Pages, Rows
from tinsmith.types.arithmetic import Isa
from tinsmith.types.errors import DeterminismError

NANO = replace(PRESETS["nano"], intermediate_size=684)
"""An inner width that is no multiple of a vector, so that a scalar tail exists somewhere."""


def decoder_of(kernels: Kernels, config: DecoderConfig = NANO) -> Decoder:
    return build_decoder(config, initial_weights(config, 0), kernels)


class StockLinear(NativeKernels):
    """The library's product, whose kernel for one row is another than for many."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        return (
            super().gemm(a, b, into=into) if into is not None else torch.mm(a.detach(), b.detach())
        )


class LeftPadding(NativeKernels):
    """Keys moved to the end of a cache whose length is that of the longest sequence of the batch."""

    def attention(
        self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        if want_stats:
            return super().attention(qkv, shape, rows, pages, want_stats=True)
        heads, kv, d = shape.heads, shape.kv_heads, shape.head_dim
        out = torch.empty(len(qkv), heads * d)
        begin, first = rows.row_begin.tolist(), rows.first_pos.tolist()
        for s in range(len(first)):
            table = rows.table[s].long()
            keys = pages.keys[table].permute(1, 0, 3, 2).reshape(kv, -1, d)
            values = (
                pages.values[table]
                .permute(1, 0, 2, 3)
                .reshape(kv, -1, pages.values.shape[-1])[..., :d]
            )
            for r in range(begin[s], begin[s + 1]):
                seen = first[s] + r - begin[s] + 1
                pad = table.numel() * PAGE - seen
                q = qkv[r, : heads * d].detach().view(kv, heads // kv, d) * shape.scale
                scores = functional.pad(
                    q @ keys[:, :seen].transpose(1, 2), (pad, 0), value=-torch.inf
                )
                weights = torch.softmax(scores, dim=-1)
                out[r] = (weights @ functional.pad(values[:, :seen], (0, 0, pad, 0))).reshape(-1)
        return out, None


class SplitSum(NativeKernels):
    """A weight gradient summed over the whole micro-batch in one chain, not datum by datum."""

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        super().grad_gemm(a, b, segments[[0, -1]], into)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify(decoder_of(NativeKernels()))


def test_canonical_kernels_give_one_pattern_for_everything(certificate: Certificate) -> None:
    assert certificate.holds
    assert {check.patterns for check in certificate.checks} == {1}
    assert len(certificate.checks) >= 12


@pytest.mark.parametrize("isa", [Isa.AVX2, Isa.AVX512])
def test_the_certificate_is_the_same_on_every_instruction_set(
    certificate: Certificate, isa: Isa
) -> None:
    from tinsmith.ops.extension import native

    if isa.value not in native.supported_isas():
        pytest.skip(f"this CPU has no {isa}")
    try:
        configure(isa=isa)
        assert certify(decoder_of(NativeKernels())).sha256 == certificate.sha256
    finally:
        configure()


@pytest.mark.parametrize(
    ("kernels", "op", "shape"),
    [
        (StockLinear(), "linear", "[rows, 128] x [128, "),
        (StockSilu(), "silu_gate", "[rows, 1368]"),
        (LeftPadding(), "attention", "4 heads, 2 kv heads, d 32"),
        (SplitSum(), "weight gradient", "[tokens, 128]^T"),
    ],
)
def test_a_broken_kernel_is_refused_with_op_and_shape(
    kernels: Kernels, op: str, shape: str
) -> None:
    with pytest.raises(DeterminismError) as error:
        certify(decoder_of(kernels))
    assert op in str(error.value)
    assert shape in str(error.value)
    assert len(str(error.value).splitlines()) <= 5


def test_a_merged_adapter_is_refused() -> None:
    with pytest.raises(DeterminismError, match="sampler and trainer, lora on 4 layers"):
        certify(decoder_of(NativeKernels()), parts=Parts(policy_of=merged))


def test_the_number_of_threads_is_put_back() -> None:
    kernels = NativeKernels()
    try:
        kernels.set_threads(3)
        certify(decoder_of(kernels))
        assert kernels.threads() == 3
    finally:
        configure()


def test_other_weights_give_another_certificate(certificate: Certificate) -> None:
    other = build_decoder(NANO, initial_weights(NANO, 1), NativeKernels())
    assert certify(other).sha256 != certificate.sha256
    assert np.unique([check.digest for check in certificate.checks]).size > 10
