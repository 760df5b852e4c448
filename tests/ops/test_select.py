"""Which kernels an arithmetic gets on a device, and one line where it gets none."""

import os
import re
import subprocess
import sys

import pytest
import torch

from tinsmith.ops.cuda import device, nvrtc
from tinsmith.ops.extension import configure, module, physical_cores
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.select import select
from tinsmith.ops.stock import StockKernels
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.errors import BackendError, ConfigError

pytestmark = pytest.mark.whole


def test_canonical_on_cpu_is_native() -> None:
    kernels = select(Arithmetic.CANONICAL)
    assert isinstance(kernels, NativeKernels)
    assert kernels.arithmetic is Arithmetic.CANONICAL
    assert kernels.device == torch.device("cpu")


def test_fast_on_cpu_is_stock() -> None:
    kernels = select(Arithmetic.FAST, "cpu")
    assert isinstance(kernels, StockKernels)
    assert kernels.arithmetic is Arithmetic.FAST
    assert kernels.device == torch.device("cpu")


@pytest.mark.parametrize(
    ("arithmetic", "device"),
    [
        (Arithmetic.CANONICAL, "cuda:-1"),
        (Arithmetic.INVARIANT, "cuda:0"),
        (Arithmetic.INVARIANT, "cpu"),
        (Arithmetic.FAST, "mps"),
        (Arithmetic.FAST, "cpu:1"),
        (Arithmetic.FAST, "cuda:x"),
        (Arithmetic.FAST, ""),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(arithmetic: Arithmetic, device: str) -> None:
    with pytest.raises(BackendError) as refused:
        select(arithmetic, device)
    message = str(refused.value)
    assert "\n" not in message
    assert f"arithmetic={arithmetic}" in message
    assert f"device={device}:" in message
    assert re.search(r"\bcanonical on cpu, canonical on cuda, fast on cpu, fast on cuda\b", message)


@pytest.mark.parametrize("arithmetic", [Arithmetic.CANONICAL, Arithmetic.FAST])
def test_a_gpu_that_is_not_here_is_refused_in_one_line(arithmetic: Arithmetic) -> None:
    found = torch.cuda.device_count()
    with pytest.raises(BackendError, match=f"device=cuda:{found} ") as refused:
        select(arithmetic, f"cuda:{found}")
    assert "\n" not in str(refused.value)
    if found == 0:
        with pytest.raises(BackendError, match="device=cuda "):
            select(arithmetic, "cuda")


def test_an_old_gpu_or_no_compiler_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_library", lambda: None)
    nvrtc.compiler.cache_clear()
    for capability, text in (((6, 1), r"a card has compute capability 6\.1, not 7\.5"), ((9, 0), "NVRTC is not here")):
        gpu = device.Gpu("a card", capability, "13.0")
        monkeypatch.setattr(device, "find_gpu", lambda _, gpu=gpu: gpu)
        with pytest.raises(BackendError, match=text) as refused:
            device.require_gpu("cuda:1")
        assert "\n" not in str(refused.value)
    nvrtc.compiler.cache_clear()


WITHOUT_EXTENSION = """
import sys
sys.modules["tinsmith._native"] = None
import torch
from tinsmith.ops.select import select
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError
print(select(Arithmetic.FAST).gemm(torch.ones(1, 2), torch.ones(2, 1)).item())
try:
    select(Arithmetic.CANONICAL)
except BackendError as error:
    print(error)
"""


def run(code: str, **environment: str) -> list[str]:
    """Run Python code in a process of its own and return the lines it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_without_the_extension_fast_computes_and_canonical_says_one_line() -> None:
    computed, *message = run(WITHOUT_EXTENSION)
    assert float(computed) == 2.0
    assert len(message) == 1
    assert "tinsmith._native" in message[0]
    assert "pip install ." in message[0]


def test_the_environment_is_applied_before_the_first_use() -> None:
    code = """
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.extension import module, native
before = native.num_threads()
NativeKernels()
print(before, native.num_threads(), native.isa(), module() is native)
"""
    lines = run(code, TINSMITH_THREADS="3", TINSMITH_ISA="scalar")
    assert lines == ["1 3 scalar True"]


def test_what_was_configured_is_kept() -> None:
    configure(threads=5, isa=Isa.SCALAR)
    NativeKernels()
    assert (module().num_threads(), module().isa()) == (5, "scalar")


def test_impossible_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="TINSMITH_THREADS='0'"):
        configure(threads=0)
    with pytest.raises(ConfigError, match="TINSMITH_THREADS='1025'"):
        configure(threads=1025)
    missing = next(isa for isa in Isa if isa not in module().supported_isas())
    with pytest.raises(ConfigError, match=f"TINSMITH_ISA='{missing}'"):
        configure(isa=missing)


def test_physical_cores_are_at_most_the_cpus() -> None:
    assert 1 <= physical_cores() <= (os.cpu_count() or 1)
