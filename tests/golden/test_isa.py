"""One set of bits for every instruction set, thread count and library build: `isa.json`, with `==`.

After a change that is meant to change bits: `python tests/golden/isa_probe.py --write`, and say why.
"""

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from tinsmith.ops import extension
from tinsmith.types.arithmetic import Isa
from tinsmith.types.errors import ConfigError
from warm import SCRIPT

pytestmark = pytest.mark.whole

FOLDER = Path(__file__).parent

SLOWEST_LIBRARIES = {
    "ATEN_CPU_CAPABILITY": "default",
    **({"NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"} if platform.machine() == "x86_64" else {}),
}
"""torch and numpy without the vector units that they would choose here."""

ENVIRONMENTS = {
    Isa.SCALAR: {"TINSMITH_THREADS": "3", **SLOWEST_LIBRARIES},
    Isa.AVX2: {"TINSMITH_THREADS": "2"},
    Isa.AVX512: {"TINSMITH_THREADS": "1"},
    Isa.NEON: {"TINSMITH_THREADS": "2"},
}


def _supported() -> list[str]:
    return extension.module().supported_isas()


def _assert_refused_in_one_line(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as refused:
        extension.configure()
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{name}={value!r} is not possible")
    assert "allowed are" in line


@pytest.mark.golden
@pytest.mark.parametrize("isa", list(Isa))
def test_an_instruction_set_gives_the_committed_bits_or_is_refused(isa: Isa, monkeypatch: pytest.MonkeyPatch) -> None:
    if isa not in _supported():
        _assert_refused_in_one_line("TINSMITH_ISA", isa.value, monkeypatch)
        return
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TINSMITH_")}
    done = subprocess.run(
        [*SCRIPT, str(FOLDER / "isa_probe.py")],
        env={**kept, "TINSMITH_ISA": isa.value, **ENVIRONMENTS[isa]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((FOLDER / "isa.json").read_text())


@pytest.mark.parametrize(("name", "value"), [("TINSMITH_ISA", "sse9"), ("TINSMITH_THREADS", "two")])
def test_nonsense_in_the_environment_is_refused_in_one_line(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _assert_refused_in_one_line(name, value, monkeypatch)


def test_the_simplest_instruction_set_is_supported_everywhere() -> None:
    assert _supported()[0] == Isa.SCALAR
    assert set(_supported()) <= set(Isa)
