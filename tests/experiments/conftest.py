"""The slice and the base that these tests run on, made once in a home of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_slice import Made, build


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(home))
    source, base = build([])
    yield Made(home, source.folder, base)
    patch.undo()
