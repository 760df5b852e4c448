"""The certificate holds for the canonical kernels, and refuses each known way to break them, naming op and shape."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tinsmith.engine.checks import certificate as certificate_module
from tinsmith.engine.checks.certificate import CHECKS, Certificate, certify
from tinsmith.engine.checks.checked_ops import Check, attention, choice, products
from tinsmith.engine.checks.deviations import StockSilu, merged
from tinsmith.engine.parts import SOUND, Parts
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.extension import configure
from tinsmith.ops.kernels import Draws, HeadShape, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.paging import PAGE, Pages, Rows
from tinsmith.types.arithmetic import Isa
from tinsmith.types.errors import DeterminismError

pytestmark = pytest.mark.whole

NANO = replace(PRESETS["nano"], vocab_size=200, hidden_size=64, intermediate_size=204, head_dim=16)
"""An inner width that is no multiple of a vector, so that a scalar tail exists somewhere."""


def decoder_of(kernels: Kernels, config: DecoderConfig = NANO) -> Decoder:
    return build_decoder(config, _weights(config), kernels)


@cache
def _weights(config: DecoderConfig) -> dict[str, Tensor]:
    return dict(initial_weights(config, 0))


class StockLinear(NativeKernels):
    """The library's product, whose kernel for one row is another than for many."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        return super().gemm(a, b, into=into) if into is not None else torch.mm(a.detach(), b.detach())


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
            values = pages.values[table].permute(1, 0, 2, 3).reshape(kv, -1, pages.values.shape[-1])[..., :d]
            for r in range(begin[s], begin[s + 1]):
                seen = first[s] + r - begin[s] + 1
                pad = table.numel() * PAGE - seen
                q = qkv[r, : heads * d].detach().view(kv, heads // kv, d) * shape.scale
                scores = functional.pad(q @ keys[:, :seen].transpose(1, 2), (pad, 0), value=-torch.inf)
                weights = torch.softmax(scores, dim=-1)
                out[r] = (weights @ functional.pad(values[:, :seen], (0, 0, pad, 0))).reshape(-1)
        return out, None


class SplitSum(NativeKernels):
    """A weight gradient summed over the whole micro-batch in one chain, not datum by datum."""

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        super().grad_gemm(a, b, segments[[0, -1]], into)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shows:
    """Conditions of a fault: products of at least so many rows and columns, on at least so many threads."""

    rows: int = 1
    columns: int = 1
    threads: int = 1
    row: int = -1
    """Which row comes out wrong, by the least bit there is."""
    column: int = -1


class Faulty(NativeKernels):
    """A product that is wrong in one element once the batch is large enough, and right in every smaller one."""

    def __init__(self, shows: Shows) -> None:
        super().__init__()
        self.shows = shows

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        out, shows = super().gemm(a, b, into=into), self.shows
        large = out.shape[0] >= shows.rows and out.shape[1] >= shows.columns
        if large and self.threads() >= shows.threads:
            wrong = out[shows.row, shows.column]
            wrong.copy_(torch.nextafter(wrong, torch.tensor(torch.inf)))
        return out


class WideLogprobs(NativeKernels):
    """The sampler's log-probability of its choice is off by the least bit, over a vocabulary of 30,000 and more."""

    def choose(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        tokens, logprobs = super().choose(logits, draws)
        if logits.shape[1] >= 30_000:
            logprobs = np.nextafter(logprobs, np.float32(-np.inf))
        return tokens, logprobs


class LongKeys(NativeKernels):
    """Attention over more than 64 keys (four pages of them) depends on how many rows are computed at once."""

    def attention(
        self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        out, stats = super().attention(qkv, shape, rows, pages, want_stats=want_stats)
        if int(rows.first_pos[-1]) >= 64 and len(qkv) > 1:
            out[-1] = torch.nextafter(out[-1], torch.tensor(torch.inf))
        return out, stats


WIDE = replace(PRESETS["nano"], vocab_size=40_003, hidden_size=64, num_layers=1)
"""A vocabulary as real models have it, and no multiple of a vector."""
# Rows of which a good part is left over by vectors of every width: the vendor's scalar code seldom differs.
UNEVEN = replace(NANO, intermediate_size=31)
LARGE = replace(PRESETS["nano"], hidden_size=512, intermediate_size=1536, num_layers=1)
"""Matrices large enough for several threads whatever the number of rows."""


def first_broken(checks: Callable[[Decoder, Parts], Iterator[Check]], decoder: Decoder) -> Check:
    """Return the first of these checks that gives several patterns; the other checks are not made."""
    return next(check for check in checks(decoder, SOUND) if check.patterns != 1)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify(decoder_of(NativeKernels()))


@pytest.fixture
def ops_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the checks of single ops only: those of the whole model are the last, and take most of the time."""
    monkeypatch.setattr(certificate_module, "CHECKS", CHECKS[:-1])


def test_canonical_kernels_give_one_pattern_for_everything(certificate: Certificate) -> None:
    assert certificate.holds
    assert {check.patterns for check in certificate.checks} == {1}
    assert len(certificate.checks) >= 12


@pytest.mark.parametrize("isa", [Isa.AVX2, Isa.AVX512])
def test_the_certificate_is_the_same_on_every_instruction_set(certificate: Certificate, isa: Isa) -> None:
    from tinsmith.ops.extension import native

    if isa.value not in native.supported_isas():
        pytest.skip(f"this CPU has no {isa}")
    try:
        configure(isa=isa)
        assert certify(decoder_of(NativeKernels())).sha256 == certificate.sha256
    finally:
        configure()


@pytest.mark.usefixtures("ops_alone")
@pytest.mark.parametrize(
    ("kernels", "config", "op", "shape"),
    [
        (StockLinear(), NANO, "linear", "[rows, 64] x [64, "),
        (StockSilu(), UNEVEN, "silu_gate", "[rows, 62]"),
        (LeftPadding(), NANO, "attention", "4 heads, 2 kv heads, d 16"),
        (SplitSum(), NANO, "weight gradient", "[tokens, 64]^T"),
    ],
)
def test_a_broken_kernel_is_refused_with_op_and_shape(
    kernels: Kernels, config: DecoderConfig, op: str, shape: str
) -> None:
    with pytest.raises(DeterminismError) as error:
        certify(decoder_of(kernels, config))
    assert op in str(error.value)
    assert shape in str(error.value)


@pytest.mark.parametrize(
    ("config", "shows", "op"),
    [
        (LARGE, Shows(rows=7, row=6), "linear"),  # the row beyond a tile
        (LARGE, Shows(rows=7, row=0, column=0), "linear"),
        (LARGE, Shows(rows=48, row=0), "linear"),  # from here on the weight is packed
        (LARGE, Shows(rows=48, threads=2), "linear"),
        (LARGE, Shows(rows=380, row=0), "linear"),  # two threads, each with packed runs of rows
        (LARGE, Shows(rows=380, threads=2), "linear"),
        (LARGE, Shows(threads=3), "linear"),  # only as many threads as are configured
        (WIDE, Shows(rows=2, columns=40_003), "linear head"),
        (WIDE, Shows(rows=48, columns=40_003, row=0), "linear head"),
        (WIDE, Shows(rows=48, columns=40_003, threads=2), "linear head"),
    ],
)
def test_a_fault_that_only_shows_on_large_products_is_found(config: DecoderConfig, shows: Shows, op: str) -> None:
    kernels = Faulty(shows)
    try:
        kernels.set_threads(3)
        assert first_broken(products, decoder_of(kernels, config)).op.startswith(op)
    finally:
        configure()


def test_a_fault_that_only_shows_on_a_wide_vocabulary_is_found() -> None:
    assert first_broken(choice, decoder_of(WideLogprobs(), WIDE)).op == "choice and logprob"


def test_a_fault_that_only_shows_on_long_sequences_is_found() -> None:
    assert first_broken(attention, decoder_of(LongKeys())).shape.startswith("4 heads")


def test_a_deep_model_costs_no_more_than_a_shallow_one() -> None:
    rows: list[list[int]] = []

    class Counting(NativeKernels):
        def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
            rows[-1].append(a.shape[0])  # on any thread
            return super().gemm(a, b, into=into)

    for layers in (2, 5):
        rows.append([])
        decoder = decoder_of(Counting(), replace(NANO, num_layers=layers))
        certify(decoder)
    assert sorted(rows[0]) == sorted(rows[1])


def test_a_merged_adapter_is_refused() -> None:
    with pytest.raises(DeterminismError, match="lora on 2 of 4 layers"):
        certify(decoder_of(NativeKernels()), parts=Parts(policy_of=merged))


def test_checks_that_are_made_at_once_give_the_same_certificate(certificate: Certificate) -> None:
    kernels = NativeKernels()
    try:
        kernels.set_threads(4)
        assert certify(decoder_of(kernels)).sha256 == certificate.sha256
    finally:
        configure()


@pytest.mark.usefixtures("ops_alone")
def test_other_weights_give_another_certificate_and_the_number_of_threads_is_put_back(certificate: Certificate) -> None:
    kernels = NativeKernels()
    other = build_decoder(NANO, initial_weights(NANO, 1), kernels)
    try:
        kernels.set_threads(3)
        found = certify(other).checks
        assert found != certificate.checks[: len(found)]
        assert kernels.threads() == 3
    finally:
        configure()
    assert np.unique([check.digest for check in certificate.checks]).size > 10
