"""One server that all tests of `tinsmith conform` ask."""

import gc
from collections.abc import Iterator

import pytest

from running import KEY, Running


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
    gc.collect()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what the verb sets."""
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
