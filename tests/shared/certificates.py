"""Certificates of the tests' own."""

import subprocess
from pathlib import Path

import pytest


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that signs itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no openssl here that makes a certificate")
    return cert, key
