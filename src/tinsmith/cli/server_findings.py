"""What `tinsmith doctor` finds of a server: whether it answers, how fast, what it is, and whether the key fits."""

from __future__ import annotations

import os
import statistics
import time

import httpx
import msgspec

from tinsmith.cli.findings import Finding
from tinsmith.lab.service.bounded import Answer, answer_of
from tinsmith.lab.service.workers import ENDPOINT, read_workers
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE, parse_json
from tinsmith.types.version import VERSION

_SECONDS = 5.0
_ASKED = 5
_UNAVAILABLE = 503


class _Identity(msgspec.Struct):
    version: str | None = None


class _Model(msgspec.Struct):
    model_name: str | None = None
    identity: _Identity | None = None


class _Capabilities(msgspec.Struct):
    """What of a server's capabilities is told."""

    supported_models: list[_Model] = []


class _Unready(msgspec.Struct):
    """What a server says that cannot compute."""

    reason: str = "it does not say why"


def server(base_url: str | None) -> list[Finding]:
    """Ask a server; without one, say that none is named."""
    if base_url is None:
        return [Finding(topic="server", text="none is named; runs start their own")]
    try:
        with httpx.Client(base_url=base_url.rstrip("/"), timeout=_SECONDS) as client:
            return _asked(client, base_url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = f"{base_url} does not answer: {type(error).__name__}"
        return [Finding(topic="server", text=text, todo="start it, or name another --base-url")]
    except UNREADABLE as error:
        first, *_ = str(error).splitlines()
        text = f"{base_url} does not answer as a Tinker server: {first}"
        return [Finding(topic="server", text=text, todo="start it, or name another --base-url")]


def _asked(client: httpx.Client, base_url: str) -> list[Finding]:
    times: list[float] = []
    for _ in range(_ASKED):
        began = time.perf_counter()
        health = answer_of(client, "GET", "/api/v1/healthz", headers={}, seconds=_SECONDS)
        if health.status == _UNAVAILABLE:
            return [_unready(base_url, health)]
        if not health.is_success:
            raise DataError(f"status {health.status} of /api/v1/healthz")
        times.append(time.perf_counter() - began)
    latency = statistics.median(times)
    facts: dict[str, object] = {"base_url": base_url, "latency_s": round(latency, 5)}
    reached = f"{base_url} answers in {1e3 * latency:.1f} ms"
    key = os.environ.get("TINKER_API_KEY")
    if not key:
        return [Finding(topic="server", text=reached, todo="set TINKER_API_KEY to its key", facts=facts)]
    path = "/api/v1/get_server_capabilities"
    answer = answer_of(client, "GET", path, headers={"X-API-Key": key}, seconds=_SECONDS)
    if answer.status in (401, 403):
        text = f"{reached}, but refuses the key in TINKER_API_KEY"
        return [Finding(topic="server", text=text, todo="set TINKER_API_KEY to its key")]
    if not answer.is_success:
        raise DataError(f"status {answer.status} of {path}")
    models = msgspec.json.decode(answer.content, type=_Capabilities).supported_models
    theirs = next((one.identity.version for one in models if one.identity and one.identity.version), None)
    what = "not tinsmith, or it does not say so" if theirs is None else f"tinsmith {theirs}"
    facts |= {"version": theirs, "models": [model.model_name for model in models]}
    other = theirs is not None and theirs != VERSION
    return [
        Finding(
            topic="server",
            text=f"{reached}: {what}, {len(models)} models",
            todo=f"it runs tinsmith {theirs} and this is {VERSION}" if other else None,
            must=False,
            facts=facts,
        ),
        *_workers(client, key),
    ]


def _unready(base_url: str, answer: Answer) -> Finding:
    said = msgspec.json.decode(answer.content, type=_Unready).reason
    return Finding(
        topic="server",
        text=f"{base_url} answers, but cannot compute: {said}",
        todo="ask again in a minute; if it has ended by then, start it again: its state is whole",
        facts={"base_url": base_url, "unready": said},
    )


def _workers(client: httpx.Client, key: str) -> list[Finding]:
    """Return a line on all workers and one on each; none where the server tells of none."""
    answer = answer_of(client, "GET", f"/api/v1/{ENDPOINT}", headers={"X-API-Key": key}, seconds=_SECONDS)
    found = read_workers(parse_json(answer.content)) if answer.is_success else None
    if found is None:
        return []
    page = f"; {found.dashboard}" if found.dashboard else ""
    facts: dict[str, object] = {
        "retries": found.retries,
        "waiting": found.waiting,
        "tokens_per_second": found.tokens_per_second,
        "dashboard": found.dashboard,
    }
    alive = sum(worker.alive for worker in found.workers)
    short = alive < (found.wanted or 1)
    replaced = found.wanted is not None and not short
    width = max(len(worker.node) for worker in found.workers)
    return [
        Finding(
            topic="workers",
            text=f"{found.words}{page}",
            todo=None
            if not short
            else f"{alive} of {found.wanted or 1} workers are there: look at the server's messages",
            must=alive == 0,
            facts=facts,
        ),
        *(
            Finding(
                topic=f"worker {worker.name}",
                text=f"{worker.node:{width}}  {worker.doing}",
                todo=None if worker.alive or replaced else f"look after worker {worker.name} on {worker.node}",
                must=False,
                facts=msgspec.to_builtins(worker),
            )
            for worker in found.workers
        ),
    ]
