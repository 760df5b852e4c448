"""The CUDA kernels as NVRTC compiles them, the structs they take, and torch operations beside them."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from emulated import FLAGS, compiler

from tinsmith.ops.cuda import nvrtc, table
from tinsmith.types.errors import BackendError

ROOT = Path(__file__).parents[2]
FLOATING = re.compile(
    r"^\s*(?:@!?%p\d+ )?((?:fma|mad|mul|add|sub|div|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|tanh)\.\S*f(?:32|64)\S*)", re.M
)


@pytest.mark.parametrize("arch", ["compute_80", "compute_90", "compute_100"])
@pytest.mark.parametrize("program", nvrtc.PROGRAMS)
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


_NAMES = """exp log log1p expm1 sigmoid silu softmax log_softmax rsqrt sin cos tanh pow mean mm matmul bmm addmm addmm_
addcmul addcmul_ addcdiv addcdiv_ lerp lerp_ index_add index_add_ cumsum norm einsum logsumexp var std"""
INEXACT = frozenset(_NAMES.split())
"""Operations of torch whose fp32 bits depend on the device, its libraries, or the order of threads."""
EXCUSED = {
    "ops/stock.py": "fast",
    "ops/stock_attention.py": "fast",
    "ops/noise.py": "fast",
    "ops/routing.py": "the routes of fast, and sums of whole numbers",
    "engine/checks/deviations.py": "wrong on purpose",
    "models/merge.py": "fp64, a distance between two models",
}


def inexact_calls(source: str) -> list[str]:
    """Calls of such operations on torch or on a value that is no module, with their lines."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)) if "torch" in source else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = ast.unparse(node.func.value), node.func.attr
            if name in INEXACT and owner not in {"np", "math", "canonical", "posixpath"}:
                found.append(f"{node.lineno}: {owner}.{name}")
            if {keyword.arg for keyword in node.keywords} & {"alpha", "accumulate"}:
                found.append(f"{node.lineno}: {name}(alpha, accumulate)")
    return found


def test_no_inexact_operation_of_torch_is_on_the_canonical_path() -> None:
    package = ROOT / "src" / "tinsmith"
    for file in sorted(path for folder in ("ops", "models", "engine") for path in (package / folder).rglob("*.py")):
        name = file.relative_to(package).as_posix()
        if name not in EXCUSED and not name.startswith(("ops/custom_loss/", "ops/objectives/")):
            assert (name, inexact_calls(file.read_text(encoding="utf-8"))) == (name, [])


def test_the_lint_sees_such_an_operation() -> None:
    assert inexact_calls("import torch\ny = torch.softmax(x, 1) + x.add(y, alpha=2)") == [
        "2: torch.softmax", "2: add(alpha, accumulate)",
    ]  # fmt: skip
