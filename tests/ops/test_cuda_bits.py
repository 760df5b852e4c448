"""The CUDA kernels over an emulated grid: the native kernels' bits, whatever the tiles and the order of threads."""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from canonical_cases import Outputs, assert_same_outputs, compute, make_inputs, moved, normal
from emulated import FLAGS, compiler, emulated
from torch import Tensor

from tinsmith.ops.cuda import nvrtc, table
from tinsmith.ops.cuda.kernels import LARGE, SMALL
from tinsmith.ops.cuda.lists import chains_of
from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.types.errors import BackendError

Case = Callable[[Kernels], Outputs]
"""Computation by some kernels."""


class Everything(NamedTuple):
    """Every kernel once, at a model's heads."""

    shape: HeadShape
    lengths: list[int]
    hidden: int
    vocab: int
    scale: float = 1.0

    def __call__(self, kernels: Kernels) -> Outputs:
        inputs = make_inputs(self.shape, self.lengths, self.hidden, self.vocab, scale=self.scale)
        return compute(moved(inputs, kernels.device), kernels)


class Product(NamedTuple):
    """a [m, k], rows of a wider matrix, times b [k, n], as it lies, transposed, and added into a part of another."""

    m: int
    k: int
    n: int
    held: torch.dtype = torch.float32

    def operands(self) -> tuple[Tensor, Tensor]:
        return normal(1, self.m, self.k + 7)[:, 3 : self.k + 3], normal(2, self.k, self.n).to(self.held)

    def __call__(self, kernels: Kernels) -> Outputs:
        a, b = (x.to(kernels.device) for x in self.operands())
        into = normal(3, self.m, self.n + 5).to(kernels.device)
        kernels.gemm(a, b, into=into[:, 2 : self.n + 2])
        return {"y": kernels.gemm(a, b), "transposed": kernels.gemm(a, b.t().contiguous().t()), "into": into}


class Gradients(NamedTuple):
    """Gradients of a weight and of an embedding by units, of which some are empty, or all."""

    m: int
    n: int
    bounds: tuple[int, ...]

    def __call__(self, kernels: Kernels) -> Outputs:
        rows, units = self.bounds[-1], torch.tensor(self.bounds)
        x, dy, dw, rest, table = (
            normal(seed, *shape).to(kernels.device)
            for seed, shape in enumerate([(rows, self.m), (rows, self.n), *[(self.m, self.n)] * 2, (20, self.n)])
        )
        kernels.grad_gemm(x, dy, units, dw)
        kernels.grad_gemm(x, dy, torch.tensor([0, 0, 0]), rest)
        kernels.embed_backward(torch.from_numpy(np.random.default_rng(1).integers(0, 20, rows)), dy, units, table)
        return {"weight": dw, "no rows": rest, "embedding": table}


CASES: Mapping[str, Case] = {
    "several pages": Everything(HeadShape(heads=4, kv_heads=2, head_dim=16), [37, 5, 1, 70], 48, 2100),
    "odd widths": Everything(HeadShape(heads=3, kv_heads=1, head_dim=80), [9, 130], 97, 70),
    "subnormal": Everything(HeadShape(heads=2, kv_heads=1, head_dim=6), [3, 20], 21, 33, 1e-20),
    **{
        f"{shape} {held}": Product(*shape, held)
        for shape in ((1, 1030, 70), (6, 2304, 33), (70, 1153, 129), (130, 129, 257))
        for held in (torch.float32, torch.bfloat16)
    },
    "units": Gradients(66, 35, (0, 0, 3, 3, 3, 40, 41, 77, 77, 90, 131, 131, 200, 200)),
}


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kernels_have_the_native_bits_whatever_the_tiles_and_the_order_of_threads(case: Case, order: int) -> None:
    kernels, expected = emulated(order=order), case(NativeKernels())
    for tiles in {0: (SMALL, LARGE), 1: (LARGE,), 2: (SMALL,)}[order]:
        kernels.set_threads(tiles)
        assert_same_outputs(case(kernels), expected)


def test_a_sum_waits_for_its_neighbour_only() -> None:
    assert chains_of([0, 128, 256, 300]).tolist() == [[0, 128, 0, 0], [128, 256, 1, 0], [256, 300, 1, 0]]
    assert chains_of([0, 4, 4, 9, 12]).tolist() == [[0, 4, 0, 0], [4, 9, 0, 0], [9, 12, 2, 0]]


def test_kernels_that_are_wrong_on_purpose_are_caught() -> None:
    """Adam has no barrier: contraction alone shows there. Products are fused anyway: there only the barrier does."""
    contracted = ("-O1", "-fexpensive-optimizations", "-ffp-contract=fast")
    kernels, case = emulated(*contracted, "-DTS_TILE_BARRIER()=", order=1), CASES["odd widths"]
    kernels.set_threads(LARGE)
    right, wrong = case(NativeKernels()), case(kernels)
    differ = {name for name, value in right.items() if not np.array_equal(value, wrong[name], equal_nan=True)}
    assert {"weight", "first moment", "gemm"} <= differ


def test_chains_of_64_are_caught() -> None:
    kernels = emulated()
    kernels._chains = lambda k: kernels._segments(torch.tensor([*range(0, k, 64), k]))  # type: ignore[method-assign]
    a, b = Product(30, 512, 40).operands()
    assert int((kernels.gemm(a, b) != NativeKernels().gemm(a, b)).sum()) > 30 * 40 // 2


FLOATING = re.compile(
    r"^\s*(?:@!?%p\d+ )?((?:fma|mad|mul|add|sub|div|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|tanh)\.\S*f(?:32|64)\S*)", re.M
)


# No source asks for its architecture: each is compiled for one, and one for each.
@pytest.mark.parametrize(
    ("program", "arch"),
    [*((program, "compute_90") for program in nvrtc.PROGRAMS), ("rows", "compute_80"), ("rows", "compute_100")],
)
def test_a_program_compiles_to_ieee_operations_only(program: str, arch: str) -> None:
    text = nvrtc.compiler().compile(program, arch, kind="PTX").decode(errors="replace")
    named = [kernel.name for kernel in table.kernels().values() if kernel.program == program]
    assert sorted(re.findall(r"\.visible \.entry (\w+)", text)) == sorted(named)
    operations = set(FLOATING.findall(text))
    assert operations
    assert [name for name in operations if re.search(r"approx|ftz|full", name)] == []
    assert not any(name.startswith(("fma.rn.f64", "mad")) for name in operations), "fp64 steps are not fused"
    assert all(".rn" in name or ".rz" in name for name in operations if name.startswith(("div", "sqrt", "rcp", "fma")))


def test_a_cubin_is_compiled_once_and_a_damaged_one_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    compiler = nvrtc.compiler()
    first, sha256 = compiler.cubin("state", "sm_90")
    (file,) = (tmp_path / "cuda").glob("state-sm_90-*.cubin")
    assert compiler.cubin("state", "sm_90") == (first, sha256)
    before = file.stat().st_ino
    file.write_bytes(file.read_bytes()[:-9])
    assert compiler.cubin("state", "sm_90")[0] == first
    assert file.stat().st_ino != before


def test_source_that_does_not_compile_is_told_with_the_compilers_message() -> None:
    with pytest.raises(BackendError, match=r"state\.cu does not compile for sm_1"):
        nvrtc.compiler().compile("state", "sm_1")


def test_arguments_are_laid_out_as_the_compiler_lays_them_out() -> None:
    claims = [
        f'static_assert(offsetof({name}, {field}) == {getattr(layout, field).offset}, "{field}");'
        for name, layout in table.layouts().items()
        for field, _ in layout._fields_
    ]
    text = "\n".join(["#include <cstddef>", '#include "cuda/args.h"', *claims])
    subprocess.run([compiler(), *FLAGS, "-fsyntax-only", "-x", "c++", "-"], input=text.encode(), check=True)
    assert len(claims) > 150
