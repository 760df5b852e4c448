"""`tinsmith doctor`: what it finds, what it says is to be done, and that it shows no key."""

import importlib.metadata
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from answering import Quiet, answering

from command_line import command
from sentences import missing
from tinsmith.cli import findings as doctor
from tinsmith.cli.checks import _print
from tinsmith.cli.findings import server
from tinsmith.ops import extension
from tinsmith.types.errors import BackendError

pytestmark = pytest.mark.whole

KEY = "tml-a-key-that-appears-nowhere"


WORKERS = [
    {"name": "a", "node": "one", "threads": 2, "alive": True, "under_way": 3, "done": 17},
    {"name": "b", "node": "three", "threads": 1, "alive": False, "under_way": 0, "done": 4} | {"lost": "it was killed"},
]


class _Answers(Quiet):
    """A server that is healthy or says why not, takes one key and may have workers."""

    version = "9.9"
    workers: ClassVar[list[dict[str, object]]] = []
    unready: ClassVar[str | None] = None
    answer: ClassVar[bytes | None] = None
    """Instead of all that."""

    def do_GET(self) -> None:
        known = self.path.endswith("healthz") or self.headers.get("X-API-Key") == KEY
        model = {"model_name": "m", "identity": {"version": self.version}}
        lines: dict[str, object] = {"supported_models": [model]}
        if self.path.endswith("workers"):
            lines = {"workers": self.workers, "retries": 1, "waiting": 5}
        unready = self.unready if self.path.endswith("healthz") else None
        body = json.dumps({"reason": unready} if unready else lines).encode() if self.answer is None else self.answer
        self.send_response(503 if unready else 200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    with answering(_Answers) as url:
        yield url


def test_a_server_is_asked_with_the_key_and_the_key_is_not_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    (found,) = server(url)
    assert "answers in" in found.text
    assert "tinsmith 9.9" in found.text
    assert found.todo is not None
    assert not found.must
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"no JSON",
        b"[" * 100_000,
        b'{"supported_models": 3}',
        b'{"supported_models": ["m"]}',
        b'{"supported_models": [{"model_name": 7, "identity": "x"}]}',
        b"\xff",
    ],
)
def test_a_server_that_answers_anything_is_a_line_and_no_traceback(
    url: str, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.setattr(_Answers, "answer", body)
    (found,) = server(url)
    assert "does not answer as a Tinker server" in found.text
    assert len(found.text.splitlines()) == 1


def test_what_a_server_calls_itself_does_not_act_on_the_terminal(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.setattr(_Answers, "version", "9\x1b]0;title\x07")
    for as_json in (False, True):
        _print(server(url), as_json=as_json)
    words = capsys.readouterr().out
    assert "\x1b" not in words
    assert words.count("9\\u001b]0;title\\u0007") >= 3


def test_the_workers_of_a_server_are_a_line_each_and_a_lost_one_can_wait(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.setattr(_Answers, "workers", WORKERS)
    _, every, first, lost = server(url)
    assert missing(every.text, "1 worker on 1 node", "1 lost", "5 waiting", "1 retry") == []
    assert (first.topic, lost.topic) == ("worker a", "worker b")
    assert missing(first.text, "one", "2 threads", "3 under way", "17 done") == []
    assert (first.todo, lost.must, lost.facts["lost"]) == (None, False, "it was killed")
    assert lost.todo is not None


def test_a_server_without_workers_must_be_looked_after(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    monkeypatch.setattr(_Answers, "workers", [{**worker, "alive": False} for worker in WORKERS])
    every = server(url)[1]
    assert every.must
    assert missing(every.todo, "0 of 1") == []


def test_a_server_that_cannot_compute_says_why(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "unready", "Ray's raylet ended")
    (found,) = server(url)
    assert found.must
    assert missing(found.text, "cannot compute", "Ray's raylet ended") == []


@pytest.mark.parametrize("key", ["tml-another", ""])
def test_a_key_that_does_not_fit_is_told(url: str, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("TINKER_API_KEY", key)
    (found,) = server(url)
    assert missing(found.todo, "TINKER_API_KEY") == []
    assert found.must
    assert not key or key not in repr(found)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "nonsense", "http://[::1"])
def test_a_server_that_does_not_answer_must_be_started(address: str) -> None:
    (found,) = server(address)
    assert "does not answer" in found.text
    assert found.must


def test_no_server_is_nothing_to_do() -> None:
    (found,) = server(None)
    assert found.todo is None


def test_versions_are_compared_with_what_the_package_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.todo for one in doctor.versions()] == [None]
    there = importlib.metadata.version

    def other(name: str) -> str:
        if name == "msgspec":
            raise importlib.metadata.PackageNotFoundError
        return "0.0.1" if name == "torch" else there(name)

    monkeypatch.setattr(importlib.metadata, "version", other)
    _, *wrong = doctor.versions()
    assert [one.text.split()[0] for one in wrong] == ["torch", "msgspec"]
    assert all(one.must and "pip install" in (one.todo or "") for one in wrong)


def test_packages_for_a_gpu_where_there_is_none_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = SimpleNamespace(metadata={"Name": "nvidia-cublas"})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [installed])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    (found,) = doctor.gpu()
    assert "nvidia-cublas" in found.text
    assert found.todo is not None
    assert not found.must


def test_too_little_room_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "not" / "there"))
    assert [one.topic for one in doctor.disk()] == ["TINSMITH_HOME", "this folder"]
    usage = SimpleNamespace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert all("make room" in (one.todo or "") for one in doctor.disk())


def test_a_probe_that_cannot_tell_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise BackendError("the compiled extension is missing", fix="install a compiler")

    monkeypatch.setattr(doctor, "module", missing)
    (found,) = doctor.examine([doctor.arithmetic])
    assert (found.text, found.todo) == ("the compiled extension is missing", "install a compiler")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    return command(capsys, "doctor", *arguments)[:2]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_BASE_URL", raising=False)
    monkeypatch.setattr(doctor, "PRESETS", ("nano",))
    monkeypatch.setattr(doctor, "LEAST_FREE", 0)


@pytest.mark.usefixtures("quick")
def test_the_command_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, messages = run(capsys)
    *_, last = messages.splitlines()
    assert code == 0
    assert last == "nothing to do" or "(can wait)" in last
    assert extension.module().supported_isas()[0] in messages
    assert "nano: holds" in messages
    code, messages = run(capsys, "--base-url", "http://127.0.0.1:1")
    assert code == 1
    assert "1. " in messages.partition("to do:")[2]


@pytest.mark.usefixtures("quick")
def test_the_command_in_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    code, printed = run(capsys, "--json")
    answer = json.loads(printed)
    assert (code, answer["ok"]) == (1, False)
    certificate = next(one for one in answer["findings"] if one["topic"] == "certificate")
    assert len(certificate["sha256"]) == 64
    assert answer["findings"][-1]["topic"] == "server"
    assert KEY not in printed
