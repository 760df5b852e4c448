"""Puts this folder on the path; the same examples everywhere, what is more than a unit marked."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
import typer.main
from hypothesis import settings

from tinsmith.lab.live import progress
from tinsmith.types.errors import TinsmithError
from warm import HUB, cold, share_certificates, warm

if TYPE_CHECKING:
    from small_slice import Made

    from tinsmith.lab.service.connect import Connection

os.environ["HF_HUB_CACHE"] = HUB
share_certificates()

# Threads of torch's that spin while they wait take the cores from those that compute; it is not loaded yet.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Nobody outside is asked: one authority is enough, and each HTTP client would read all of them (0.04 s).
AUTHORITY = Path(tempfile.gettempdir()) / "tinsmith-tests-authority.pem"
if not AUTHORITY.exists():
    first, mark, _ = Path(certifi.where()).read_text(encoding="ascii").partition("-----END CERTIFICATE-----\n")
    part = AUTHORITY.with_suffix(f".{os.getpid()}")
    part.write_text(first + mark, encoding="ascii")
    part.replace(AUTHORITY)
os.environ["SSL_CERT_FILE"] = str(AUTHORITY)

# The commands of `tinsmith` are read from their functions once a process, not at each call (0.05 s).
typer.main.get_command = cache(typer.main.get_command)

# A command that forecasts keeps all cores at work for 1.8 s where other work runs, as it does beside other tests.
progress.slowdown = lambda cores: 1.0  # noqa: ARG005

# A busy machine is no finding, and an example that only one machine drew is none that another can look at.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")


MOST_LINES = 5
"""Of what a user is told of a mistake."""


def _told_in_few_lines(self: TinsmithError, *parts: Any, **named: Any) -> None:
    _BEGIN(self, *parts, **named)
    assert len(str(self).splitlines()) <= MOST_LINES, str(self)


# Every error that any test meets, so that none has to count its lines.
_BEGIN = TinsmithError.__init__
TinsmithError.__init__ = _told_in_few_lines


OF_WHOLES = frozenset(
    ("base", "connection", "embedded", "made", "place", "running", "server", "service", "tooled", "whole")
)
"""Fixtures that start a server or train a model."""


_WHOLE_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*?)?pytest\.mark\.whole", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, before they are imported, what needs other environments, and files marked as whole where not wanted.

    What they import (transformers, peft, scikit-learn) takes longer than most units do.
    """
    if collection_path.name in ("clients", "cookbook"):
        return True
    if config.option.markexpr != "not whole" or collection_path.suffix != ".py":
        return None
    return _WHOLE_FILE.search(collection_path.read_text(encoding="utf-8")) is not None or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for a whole. What was imported stays, and the garbage collector looks at it no more."""
    for item in items:
        named = item.fixturenames if isinstance(item, pytest.Function) else ()
        if not OF_WHOLES.isdisjoint(named):
            item.add_marker(pytest.mark.whole)
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # libraries complain of what is not collected at the end


@pytest.fixture(scope="session", autouse=True)
def warm_servers() -> Iterator[None]:
    """Start servers out of a process that has their libraries, where the system can hand over a child."""
    if sys.platform != "linux":
        yield
        return
    with warm():
        yield


@pytest.fixture
def cold_servers() -> Iterator[None]:
    """Let each server load its libraries itself."""
    with cold():
        yield


def built(tmp_path_factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return a folder of this process's own with what is built once for all that run at once (scripts/run_tests.py)."""
    own, shared = tmp_path_factory.mktemp(name) / name, os.environ.get("TESTS_SHARED", "")
    if not shared:
        build(own)
        return own
    place = Path(shared) / name
    with Path(f"{place}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            build(place.with_name(f"{name}.half"))
            place.with_name(f"{name}.half").rename(place)
    return Path(shutil.copytree(place, own))


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def without_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw none, unless the module is marked with `pictures`: it looks at them."""
    from pages_of import undrawn

    with nullcontext() if request.node.get_closest_marker("pictures") else undrawn():
        yield


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base that the loops' tests train on, built once."""
    from small_study import build

    return built(tmp_path_factory, "base", build)


@pytest.fixture(scope="session")
def connection(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    from small_study import connect_to

    opened = connect_to(base, tmp_path_factory.mktemp("state"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The slice and the base that whole runs are made on, in a home of their own."""
    from small_slice import Made, build

    def in_home(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TINSMITH_HOME", str(folder))
            build([])

    home = built(tmp_path_factory, "home", in_home)
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(home))
    source, base = build([])  # found again
    yield Made(home, source.folder, base)
    patch.undo()
