"""TLS certificate and private key, checked before anything is loaded."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Matching pair of certificate and key files."""

    cert: Path
    key: Path


def tls_files(cert: Path | None, key: Path | None) -> TlsFiles | None:
    """Return the pair; None if neither is given, which means plain HTTP.

    Raises:
        ConfigError: one is missing or cannot be read, they do not match, or the key has a passphrase.
    """
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigError(
            "TLS needs a certificate and its key",
            field="--tls-key" if key is None else "--tls-cert",
            value=None,
            allowed="both --tls-cert FILE and --tls-key FILE, or neither",
        )
    for flag, file in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise ConfigError(f"this file cannot be read: {error.strerror}", field=flag, value=str(file)) from None
    try:
        # An empty passphrase fails for every protected key, and prevents a prompt on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        raise ConfigError(
            f"this certificate and this key cannot be used: {_reason(error)}",
            field="--tls-cert, --tls-key",
            value=f"{cert}, {key}",
            allowed="PEM files that belong together; the key without a passphrase",
        ) from None
    return TlsFiles(cert, key)


def _reason(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is another certificate's"
    return "not PEM, or the key has a passphrase"
