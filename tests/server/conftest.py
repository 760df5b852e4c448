"""A state folder and a store on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import NOW

from tinsmith.server.database.store import Store


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    with Store(state, clock=lambda: NOW) as store:
        yield store
