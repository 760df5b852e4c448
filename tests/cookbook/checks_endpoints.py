"""Every endpoint of the SDK does here what scripts/sdk_served.toml says: it is served, or refused by its name."""

from __future__ import annotations

import tomllib

import pytest
from foreign_programs import ROOT

from running import Running

RECORD = tomllib.loads((ROOT / "scripts" / "sdk_served.toml").read_text(encoding="utf-8"))
MISSING = "there is no such endpoint"


def endpoints(table: str) -> list[str]:
    return [line for line in RECORD[table] if " /" in line]


def said(server: Running, endpoint: str) -> tuple[int, str]:
    verb, path = endpoint.split(" ")
    kind = "external_weights" if "external" in path else "weights"
    path = path.replace("checkpoints/*", f"checkpoints/{kind}/x").replace("*", "x")
    answer = server.http.request(verb, path, json=None if verb == "GET" else {})
    return answer.status_code, answer.text


@pytest.mark.parametrize("endpoint", endpoints("served"))
def test_it_is_served(server: Running, endpoint: str) -> None:
    status, text = said(server, endpoint)
    assert status < 500
    assert MISSING not in text


@pytest.mark.parametrize("endpoint", endpoints("refused"))
def test_it_is_refused_by_name(server: Running, endpoint: str) -> None:
    status, text = said(server, endpoint)
    assert 400 <= status < 500
    assert endpoint.rsplit("/", 1)[1] in text
