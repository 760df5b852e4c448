"""Facts of a tinsmith server beyond the protocol, for manifests and traces; no loop depends on them.

Another Tinker server says nothing of it; the manifest then has None there, and the trace is empty.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import quote

import httpx

from tinsmith.lab.service.connect import Connection
from tinsmith.types.errors import BackendError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.http_answers import ENCODINGS, BoundedBody
from tinsmith.types.json_text import parse_json

_LARGEST: Final = 64 << 20  # Bytes of a body, decompressed.


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """True for a status from 200 to 299."""
        return 200 <= self.status < 300


def answer_of(
    client: httpx.Client,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    seconds: float,
    body: Mapping[str, object] | None = None,
) -> Answer:
    """Send a request and read its answer, for at most so many seconds."""
    end = time.monotonic() + seconds
    with client.stream(method, path, headers={**headers, "Accept-Encoding": ENCODINGS}, json=body) as response:
        read = BoundedBody(response.headers.get("content-encoding"), _LARGEST)
        for chunk in response.iter_raw():
            read.add(chunk)
            if time.monotonic() > end:
                raise httpx.ReadTimeout(f"the answer did not end in {seconds:g} s")
        return Answer(response.status_code, read.whole())


_SECONDS = 30.0


def model_identity(connection: Connection, model_name: str) -> Mapping[str, object] | None:
    """Return fingerprint, arithmetic, certificate and version of a served model; None if not reported."""
    served = _served(connection).get(model_name) or {}
    identity = served.get("identity")
    return cast(Mapping[str, object], identity) if isinstance(identity, dict) else None


def serves(connection: Connection, model_name: str) -> bool:
    """Return whether a server lists a model under this name."""
    return model_name in _served(connection)


def _served(connection: Connection) -> dict[str, Mapping[str, object]]:
    answer = ask(connection, "GET", "get_server_capabilities", None)
    models = (answer or {}).get("supported_models")
    listed = cast(list[object], models) if isinstance(models, list) else []
    named = [cast(Mapping[str, object], model) for model in listed if isinstance(model, dict)]
    return {name: model for model in named if isinstance(name := model.get("model_name"), str)}


def weights_sha256(connection: Connection, path: str) -> str | None:
    """Return the SHA-256 over a checkpoint's adapter tensors by sorted name; None if not reported.

    Of a policy of several agents, whose paths stand in one text: that of their hashes.
    """
    answers = [ask(connection, "POST", "weights_info", {"tinker_path": one}) or {} for one in path.split()]
    found = [one.get("weights_sha256") for one in answers]
    hashes = [one for one in found if isinstance(one, str)]
    if not hashes or len(hashes) < len(found):
        return None
    return policy_sha256(hashes)


def policy_sha256(hashes: Sequence[str]) -> str:
    """Return the hash of a policy by those of its agents' weights: of one agent its own."""
    return hashes[0] if len(hashes) == 1 else sha256_of(hashes)


@dataclass(slots=True)
class TraceReader:
    """Reader of one model's new optimizer steps."""

    connection: Connection
    model_id: str
    _last: int = 0  # The number of the last step that was read, in the model's own count; 0: none was.
    _answers: bool | None = None  # True if this server answers for its trace; None: it was not asked yet.

    def new(self) -> list[Mapping[str, object]]:
        """Return the steps since the last call, ascending; empty if the server does not answer.

        Each has `gradient` and `weights`: by tensor `sha256`, `norm` and `sketch` (see `types.sketches`).
        """
        if self._answers is False:
            return []
        path = f"training_runs/{quote(self.model_id)}/trace?after={self._last}"
        answer = ask(self.connection, "GET", path, None)
        steps = cast(list[Mapping[str, object]] | None, (answer or {}).get("steps"))
        if steps is None and self._answers:
            raise BackendError("the server no longer reports what its optimizer steps changed")
        self._answers = steps is not None
        if not steps:
            return []
        # A loaded model goes on counting: the first number that is read is free.
        if self._last and steps[0]["step"] != self._last + 1:
            raise BackendError(f"the server has forgotten optimizer step {self._last + 1}")
        self._last = cast(int, steps[-1]["step"])
        return steps


def ask(
    connection: Connection, method: str, endpoint: str, body: Mapping[str, object] | None, *, seconds: float = _SECONDS
) -> Mapping[str, object] | None:
    """Return a server's answer below `/api/v1/`; None after an error, or so many seconds."""
    base_url = connection.base_url or os.environ.get("TINKER_BASE_URL")
    key = connection.key or os.environ.get("TINKER_API_KEY")
    if base_url is None or key is None:
        return None
    try:
        # Without TLS there is nothing to verify, and to load the certificates takes longer than to ask.
        with httpx.Client(timeout=seconds, verify=base_url.startswith("https:")) as client:
            url = f"{base_url.rstrip('/')}/api/v1/{endpoint}"
            answer = answer_of(client, method, url, headers={"X-API-Key": key}, seconds=seconds, body=body)
        parsed = parse_json(answer.content) if answer.is_success else None
        return cast(Mapping[str, object], parsed) if isinstance(parsed, dict) else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
