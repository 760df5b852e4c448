"""Servers of the small models, and the folder that the clients run in."""

import signal
from collections.abc import Iterator

import pytest
from talking_model import NAME, write_model
from workbench import CLIENTS, Workbench

from running import Running


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    CLIENTS.require()
    folder = tmp_path_factory.mktemp("bench")
    write_model(folder / NAME)
    return Workbench(folder)


@pytest.fixture(scope="session")
def server(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for every check that needs none of its own; it ends well, and nothing failed in it."""
    with bench.serve(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0
    assert "Traceback" not in running.log.read_text(encoding="utf-8")
