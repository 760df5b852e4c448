"""A state folder and a store on it; an engine; the service on a loopback port, with a client of OpenAI's."""

import gc
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import OpenAI
from scripted import serving
from stored import NOW
from tool_templates import QWEN

from loopback import KEPT, MODEL, Running, start, stop
from tinsmith.engine.engine import Engine
from tinsmith.server.database.store import Store


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    with Store(state, clock=lambda: NOW) as store:
        yield store


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine({MODEL: MODEL}, certificate_store=KEPT)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    own = start(tmp_path_factory.mktemp("state"))
    yield own
    stop(own)
    gc.collect()


@pytest.fixture(scope="session")
def http(running: Running) -> Iterator[httpx.Client]:
    with running.http() as own:
        yield own


@pytest.fixture(scope="session")
def tooled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose template has tools."""
    with serving(tmp_path_factory.mktemp("state"), QWEN) as own:
        yield own


@pytest.fixture(scope="session")
def client(running: Running) -> Iterator[OpenAI]:
    with running.client() as own:
        yield own
