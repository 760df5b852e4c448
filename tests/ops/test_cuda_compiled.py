"""The CUDA kernels as NVRTC compiles them, and the structs they take."""

import re
import subprocess
from pathlib import Path

import pytest
from emulated import FLAGS, compiler

from tinsmith.ops.cuda import nvrtc, table
from tinsmith.types.errors import BackendError

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
