"""The usual number of threads after every test of a metric."""

from collections.abc import Iterator

import pytest

from tinsmith.ops.extension import configure


@pytest.fixture(autouse=True)
def usual_threads() -> Iterator[None]:
    """Whatever number a test computes with is gone after it."""
    yield
    configure()
