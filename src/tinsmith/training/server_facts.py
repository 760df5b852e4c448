"""What a tinsmith server tells of itself beyond the protocol: what a manifest needs, and nothing a loop depends on.

Another Tinker server says nothing of it, and the manifest then has None there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

import httpx

from tinsmith.training.connect import Connection

_SECONDS = 30.0


def model_identity(connection: Connection, model_name: str) -> Mapping[str, object] | None:
    """Return fingerprint, arithmetic, certificate and version behind a served model; None where it is not told."""
    answer = _ask(connection, "GET", "get_server_capabilities", None)
    models = cast(list[Mapping[str, object]], (answer or {}).get("supported_models") or [])
    for model in models:
        if model.get("model_name") == model_name:
            return cast(Mapping[str, object] | None, model.get("identity"))
    return None


def weights_sha256(connection: Connection, path: str) -> str | None:
    """Return the SHA-256 over a checkpoint's adapter tensors by sorted name; None where it is not told."""
    answer = _ask(connection, "POST", "weights_info", {"tinker_path": path})
    found = (answer or {}).get("weights_sha256")
    return found if isinstance(found, str) else None


def _ask(
    connection: Connection, method: str, endpoint: str, body: Mapping[str, object] | None
) -> Mapping[str, object] | None:
    base_url = connection.base_url or os.environ.get("TINKER_BASE_URL")
    key = connection.key or os.environ.get("TINKER_API_KEY")
    if base_url is None or key is None:
        return None
    try:
        answer = httpx.request(
            method,
            f"{base_url.rstrip('/')}/api/v1/{endpoint}",
            headers={"X-API-Key": key},
            json=body,
            timeout=_SECONDS,
        )
        return answer.json() if answer.is_success else None
    except (httpx.HTTPError, ValueError):
        return None
