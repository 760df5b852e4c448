"""One process's answers and workers in threads, which the files here share."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import pytest
from course import course
from in_process import MODELS, Threads

from loopback import KEPT
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.engine import Engine


@pytest.fixture(scope="session")
def alone() -> Engine:
    """One process."""
    return Engine(MODELS, certificate_store=KEPT)


@pytest.fixture(scope="session")
def expected(alone: Engine) -> Callable[..., list[object]]:
    """Results of one process, each kind and number of steps computed once."""
    return cache(partial(course, alone))


@pytest.fixture(scope="session")
def hosts() -> list[Host]:
    """Four workers' engines."""
    return [Host(Engine(MODELS, certificate_store=KEPT)) for _ in range(4)]


@pytest.fixture
def transport() -> Iterator[Threads]:
    """Workers to come."""
    made = Threads()
    yield made
    made.close()
