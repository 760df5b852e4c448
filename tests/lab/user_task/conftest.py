"""One server for all runs on tasks of one's own, and a folder with the task of a test's module."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from own_task import KEYS, NANO

from command_line import Ran, command
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.renderer import Renderer
from tinsmith.renderers.tokenizer import train_tokenizer


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    state = tmp_path_factory.mktemp("own-task") / "state"
    connection = open_connection(None, EmbeddedSettings(models={NANO: NANO}, state=state, seed=5))
    yield connection
    connection.close()


@pytest.fixture
def place(server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A home of its own, the server's key, and a folder with the module's TASK."""
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TINKER_API_KEY", str(server.key))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(request.module.TASK)


@pytest.fixture
def run(server: Connection, place: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a task on the shared server."""
    del place

    def run(file: str = "mine.py", without: Sequence[str] = (), code: int | None = None, **changes: str) -> Ran:
        keys = {**KEYS, "base_url": str(server.base_url), "model_name": NANO, **changes}
        given = (f"{key}={one}" for key, one in keys.items() if key not in without)
        return command(capsys, "run", file, *given, code=code)

    return run


@pytest.fixture(scope="package")
def renderer() -> Renderer:
    return renderer_for(train_tokenizer(builtin_corpus(num_sentences=200), 400))
