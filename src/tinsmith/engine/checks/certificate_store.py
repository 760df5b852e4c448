"""Certificates saved between starts, each for the exact circumstances in which it was issued.

A saved certificate must still be true. Everything that could change a bit of it is part of its key: the weights, the
package's source, the compiled kernels and their settings, the libraries that call them, the processor and the system.
If any of these differs, or the file is incomplete, the model is checked again.
"""

from __future__ import annotations

import logging
import os
import platform
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch

from tinsmith.engine.checks.certificate import Certificate
from tinsmith.models.base import BaseModel
from tinsmith.ops.extension import module
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.processor import cpu_identity
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.source import source_sha256

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Conditions on which a certificate may depend."""

    fingerprint: str
    """Digest of the weights; all other digests follow from their values."""
    config_sha256: str
    arithmetic: Arithmetic
    source_sha256: str
    """Digest of the whole package: the checks and all Python code they run."""
    extension_sha256: str
    """Digest of the compiled kernels' file."""
    isa: str
    threads: int
    libraries: tuple[str, ...]
    """Versions of Python, numpy and torch."""
    processor: tuple[str, ...]
    system: str
    """Versions of the kernel and the C library."""
    gpu: tuple[str, ...]
    """GPU, driver, compiler and cubins; empty on CPU."""


def circumstances(base: BaseModel, kernels: Kernels) -> Circumstances | None:
    """Return the circumstances of a model here and now; None if they cannot be determined and nothing may be saved."""
    processor = cpu_identity()
    if kernels.arithmetic is not Arithmetic.CANONICAL or not processor:
        return None
    native = module()
    return Circumstances(
        fingerprint=base.fingerprint,
        config_sha256=base.config_sha256,
        arithmetic=kernels.arithmetic,
        source_sha256=source_sha256(),
        extension_sha256=file_sha256(Path(str(native.__file__))),
        isa=native.isa(),
        threads=kernels.threads(),
        libraries=(platform.python_version(), np.__version__, str(torch.__version__)),
        processor=processor,
        system=platform.platform(),
        gpu=tuple(f"{name}={value}" for name, value in kernels.identity().items()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredCertificate:
    """Content of a certificate file."""

    circumstances: Circumstances
    certificate: Certificate
    sha256: str
    """SHA-256 of the certificate; it proves that the file is complete."""


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """A folder of certificates, one file for each set of circumstances."""

    folder: Path

    def find(self, where: Circumstances) -> Certificate | None:
        """Return the certificate issued in these circumstances, or None."""
        try:
            stored = msgspec.json.decode(self._file(where).read_bytes(), type=_StoredCertificate)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        certificate = stored.certificate
        sound = certificate.holds and stored.sha256 == certificate.sha256
        return certificate if sound and stored.circumstances == where else None

    def keep(self, where: Circumstances, certificate: Certificate) -> None:
        """Write a valid certificate; if that fails, warn, and the next start checks again."""
        if not certificate.holds:
            return
        stored = _StoredCertificate(circumstances=where, certificate=certificate, sha256=certificate.sha256)
        try:
            self._write(self._file(where), msgspec.json.encode(stored))
        except OSError as error:
            logger.warning("a certificate could not be kept in %s: %s", self.folder, error)

    def _file(self, where: Circumstances) -> Path:
        return self.folder / f"{sha256_of(where)}.json"

    def _write(self, file: Path, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(part, file)
        except OSError:
            with suppress(OSError):
                os.unlink(part)
            raise
