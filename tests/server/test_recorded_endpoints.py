"""Every endpoint of the SDK does here what scripts/sdk_served.toml says: it is served, or refused by its name."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from tenants import NANO, Tenants, let

from loopback import KEPT
from tinsmith.engine.engine import Engine

pytestmark = pytest.mark.whole

RECORD = tomllib.loads((Path(__file__).parents[2] / "scripts/sdk_served.toml").read_text("utf-8"))


def endpoints(table: str) -> list[str]:
    return [line for line in RECORD[table] if " /" in line]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[int, str]]:
    """What every endpoint says to an empty request about things that are not there."""
    said: dict[str, tuple[int, str]] = {}

    async def script(tenants: Tenants) -> None:
        for endpoint in (*endpoints("served"), *endpoints("refused"), "GET /api/v1/elsewhere"):
            verb, path = endpoint.split(" ")
            kind = "external_weights" if "external" in path else "weights"
            path = path.replace("checkpoints/*", f"checkpoints/{kind}/x").replace("*", "x")
            answer = await tenants["alice"].http.request(verb, path, content=b"{}")
            said[endpoint] = answer.status_code, answer.text.replace(path, "PATH")

    let(Engine({NANO: NANO}, kept=KEPT), tmp_path_factory.mktemp("record") / "state", ("alice",), script)
    return said


@pytest.mark.parametrize("endpoint", endpoints("served"))
def test_it_is_served(answers: Mapping[str, tuple[int, str]], endpoint: str) -> None:
    status, text = answers[endpoint]
    assert status < 500
    assert text != answers["GET /api/v1/elsewhere"][1]


@pytest.mark.parametrize("endpoint", endpoints("refused"))
def test_it_is_refused_by_name(answers: Mapping[str, tuple[int, str]], endpoint: str) -> None:
    status, text = answers[endpoint]
    assert 400 <= status < 500
    assert "PATH" in text or endpoint.rsplit("/", 1)[1] in text
