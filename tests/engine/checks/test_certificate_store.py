"""A kept certificate is found again in the circumstances it was found in, and in no other."""

from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
from torch import Tensor

from tinsmith.engine import engine as engine_module
from tinsmith.engine.checks import certificate, certificate_store
from tinsmith.engine.checks.certificate import Certificate, Check
from tinsmith.engine.checks.certificate_store import CertificateStore, Circumstances, circumstances
from tinsmith.engine.checks.checked_ops import row_steps
from tinsmith.engine.engine import Engine
from tinsmith.engine.parts import Parts
from tinsmith.models.decoder import Decoder
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import DeterminismError

pytestmark = pytest.mark.whole

NANO = {"nano": "tinsmith/nano"}


@pytest.fixture
def kept(tmp_path: Path) -> CertificateStore:
    return CertificateStore(tmp_path / "certificates")


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Decoder]:
    """Every decoder that was checked from now on; a sound one has the certificate of here, a deviating one fails."""
    seen, holds = list[Decoder](), sound().certificates["nano"]
    fails = Certificate(holds.arithmetic, (Check("linear", "[1]", 2, "ab"),))

    def noted(decoder: Decoder, *, parts: Parts) -> Certificate:
        seen.append(decoder)
        return holds if parts.deviation is Deviation.NONE else fails

    monkeypatch.setattr(engine_module, "certify", noted)
    return seen


def files(kept: CertificateStore) -> list[Path]:
    return sorted(kept.folder.iterdir()) if kept.folder.exists() else []


@cache
def sound() -> Engine:
    return Engine(NANO)


@cache
def here() -> Circumstances:
    found = circumstances(sound().base("nano"), sound().kernels)
    assert found is not None
    return found


def test_a_second_start_checks_nothing_and_says_the_same(kept: CertificateStore, checked: list[Decoder]) -> None:
    lines: list[str] = []
    first = Engine(NANO, certificate_store=kept)
    second = Engine(NANO, certificate_store=kept, say=lines.append)
    assert len(checked) == 1
    assert first.certificates == second.certificates
    assert second.certificates["nano"].checks
    assert any("kept" in line for line in lines)
    assert len(files(kept)) == 1


def test_without_a_folder_every_engine_checks(checked: list[Decoder]) -> None:
    Engine(NANO)
    Engine(NANO)
    assert len(checked) == 2


def test_other_weights_or_threads_are_checked_anew(kept: CertificateStore, checked: list[Decoder]) -> None:
    Engine(NANO, certificate_store=kept)
    Engine(NANO, certificate_store=kept, seed=1)
    assert len(checked) == 2
    try:
        configure(threads=3)
        Engine(NANO, certificate_store=kept)
    finally:
        configure()
    assert len(checked) == 3
    assert len(files(kept)) == 3


def test_another_processor_kernel_file_or_package_is_checked_anew(
    kept: CertificateStore, checked: list[Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    Engine(NANO, certificate_store=kept)
    for name, other in (
        ("cpu_identity", lambda: ("x86_64", "Linux", "model=99")),
        ("file_sha256", lambda path: "0" * 64 if isinstance(path, Path) else ""),  # pyright: ignore[reportUnknownLambdaType]
        ("source_sha256", lambda: "0" * 64),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(certificate_store, name, other)
            Engine(NANO, certificate_store=kept)
    assert len(checked) == 4
    Engine(NANO, certificate_store=kept)
    assert len(checked) == 4


def test_a_processor_that_is_not_told_keeps_nothing(
    kept: CertificateStore, checked: list[Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_store, "cpu_identity", tuple)
    for _ in range(2):
        Engine(NANO, certificate_store=kept)
    assert len(checked) == 2
    assert files(kept) == []


@pytest.mark.parametrize("field", [field.name for field in fields(Circumstances)])
def test_every_circumstance_counts(kept: CertificateStore, field: str) -> None:
    where = here()
    certificate = Certificate(Arithmetic.CANONICAL, (Check("linear", "[1]", 1, "ab"),))
    kept.keep(where, certificate)
    assert kept.find(where) == certificate
    value = getattr(where, field)
    changes = {
        str: lambda: value + "x",
        int: lambda: value + 1,
        tuple: lambda: (*value, "x"),
        Arithmetic: lambda: Arithmetic.INVARIANT,
    }
    assert kept.find(replace(where, **{field: changes[type(value)]()})) is None


def test_a_damaged_file_is_checked_anew_and_mended(kept: CertificateStore, checked: list[Decoder]) -> None:
    whole = Engine(NANO, certificate_store=kept).certificates["nano"]
    (file,) = files(kept)
    sound = file.read_bytes()
    digest = whole.checks[0].digest.encode()
    other = digest[:-1] + (b"0" if digest[-1:] != b"0" else b"1")
    damaged = (b"", sound[: len(sound) // 2], sound.replace(digest, other), b"\xff" + sound)
    for number, content in enumerate(damaged, start=2):
        file.write_bytes(content)
        assert Engine(NANO, certificate_store=kept).certificates["nano"] == whole
        assert len(checked) == number
        assert file.read_bytes() == sound
    assert files(kept) == [file]


def test_a_certificate_under_another_name_is_not_believed(kept: CertificateStore) -> None:
    where = here()
    certificate = Certificate(Arithmetic.CANONICAL, (Check("linear", "[1]", 1, "ab"),))
    kept.keep(where, certificate)
    (file,) = files(kept)
    other = replace(where, isa="another")
    kept.keep(other, certificate)
    (second,) = (each for each in files(kept) if each != file)
    second.write_bytes(file.read_bytes())
    assert kept.find(other) is None


def test_an_engine_that_deviates_neither_keeps_nor_believes(kept: CertificateStore, checked: list[Decoder]) -> None:
    Engine(NANO, certificate_store=kept, deviation=Deviation.MERGED_ADAPTER)
    assert files(kept) == []
    Engine(NANO, certificate_store=kept)
    deviating = Engine(NANO, certificate_store=kept, deviation=Deviation.MERGED_ADAPTER)
    assert len(checked) == 3
    assert not deviating.certificates["nano"].holds
    assert len(files(kept)) == 1


def test_what_does_not_hold_is_not_kept(kept: CertificateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(NativeKernels):
        def silu_gate(self, gate_up: Tensor) -> Tensor:
            return super().silu_gate(gate_up) * (1.0 + 1e-6 * (len(gate_up) > 1))

    where = here()
    monkeypatch.setattr(certificate, "CHECKS", (row_steps,))
    monkeypatch.setattr(engine_module, "select", lambda arithmetic, device: Wrong())  # pyright: ignore[reportUnknownLambdaType]  # noqa: ARG005
    with pytest.raises(DeterminismError, match="silu_gate"):
        Engine(NANO, certificate_store=kept)
    assert files(kept) == []
    kept.keep(where, Certificate(Arithmetic.CANONICAL, (Check("linear", "[1]", 2, "ab"),)))
    assert files(kept) == []


def test_a_folder_that_cannot_be_written_is_told_and_stops_nothing(
    tmp_path: Path, checked: list[Decoder], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    engine = Engine(NANO, certificate_store=CertificateStore(tmp_path / "file" / "certificates"))
    assert engine.certificates["nano"].holds
    assert len(checked) == 1
    assert "could not be kept" in caplog.text
