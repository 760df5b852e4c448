"""Servers of the tiny model, and the folder that the cookbook's programs run in."""

import signal
from collections.abc import Iterator

import pytest
from made_data import write_gsm8k, write_no_robots, write_rubrics
from tiny_model import NAME, write_model
from workbench import COOKBOOK, Workbench

from running import Running


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """Tokenizers and data sets are looked for by their public names in the working folder first."""
    COOKBOOK.require()
    folder = tmp_path_factory.mktemp("bench")
    write_model(folder / NAME)
    write_no_robots(folder / "HuggingFaceH4" / "no_robots")
    write_gsm8k(folder / "openai" / "gsm8k")
    write_rubrics(folder / "rubrics")
    return Workbench(folder)


@pytest.fixture(scope="session")
def server(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for every check that needs none of its own; it ends well, and nothing failed in it."""
    with bench.serve(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0
    assert "Traceback" not in running.log.read_text(encoding="utf-8")
