"""The base that the loops' tests train on, built once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_study import build, connect_to

from tinsmith.training.connect import Connection


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="session")
def connection(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    opened = connect_to(base, tmp_path_factory.mktemp("state"))
    yield opened
    opened.close()
