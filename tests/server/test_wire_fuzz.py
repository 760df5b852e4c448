"""A live server's endpoints under requests that are wrong, repeated, too large, or somebody else's."""

import json
import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from bad_requests import bodies
from training_requests import forward_backward, train

from running import HANG_S, KEY, NANO, Running
from tinsmith.server.database.request_rows import REFUSED

MAX_BODY = 100_000
GROWTH_MIB = 12
"""The most that 1,000 requests add to the server's memory: results and records are in SQLite's caches, not in ours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[Running, None, None]:
    with Running(folder / "state", "--max-body", str(MAX_BODY)) as running:
        yield running


@pytest.fixture(scope="module")
def model(server: Running) -> str:
    return server.model()


def known(model: str, sampler: str) -> dict[str, dict[str, Any]]:
    """A right body for every route of the SDK that takes JSON and leaves the model where it is."""
    every = bodies(model.partition(":")[0], model, sampler, f"{model}:0:create_model")
    routes = [route for route in every if route.startswith("/api/v1/") and "{" not in route]
    return {route.removeprefix("/api/v1/"): every[route] for route in routes if not route.endswith("/unload_model")}


GETS = (
    *("get_server_capabilities", "training_runs", "training_runs/x", "training_runs/x/checkpoints"),
    *("checkpoints", "sessions", "sessions/x", "samplers/x", "nothing"),
)


def check(answer: httpx.Response) -> None:
    """Never a status that the SDK repeats, and never an empty refusal, which it repeats too."""
    right = {200, 400, 404, 405, 413}
    if answer.url.path.endswith("/session_heartbeat"):
        right.add(410)  # which ends its heartbeats
    assert answer.status_code in right, (answer.status_code, answer.text)
    assert answer.status_code == 200 or answer.content


def send(server: Running, method: str, path: str, content: bytes) -> httpx.Response:
    return server.http.request(method, f"/api/v1/{path}", content=content)


def test_a_wrong_key_is_always_refused(server: Running, model: str) -> None:
    run = f"training_runs/{model}/checkpoints"
    requests = [("POST", path) for path in (*known(model, "s"), "forward_backward", "unload_model")]
    requests += [("GET", path) for path in GETS]
    requests += [
        ("DELETE", f"{run}/weights/healthz"),
        ("PUT", f"{run}/weights/healthz/ttl"),
        ("GET", "sessions/healthz"),
        ("GET", "external_files"),
    ]
    headers = [{"x-api-key": key} for key in ("", "tml-wrong", KEY[:-1], KEY + "x")]
    headers += [{"authorization": "Bearer tml-wrong"}, {}]
    with httpx.Client(base_url=server.url, timeout=HANG_S) as stranger:
        for method, path in requests:
            for header in headers:
                answer = stranger.request(method, f"/api/v1/{path}", headers=header)
                assert answer.status_code == 401, (method, path, header)
        assert stranger.get("/api/v1/healthz").json() == {"status": "ok"}
        answer = stranger.get("/api/v1/sessions", headers={"authorization": f"bearer {KEY}"})
        assert answer.status_code == 200


def test_a_body_over_the_limit_is_refused(server: Running) -> None:
    large = b'{"tags": ["' + b"x" * MAX_BODY + b'"]}'
    assert send(server, "POST", "create_session", large).status_code == 413

    def pieces() -> Generator[bytes, None, None]:
        for start in range(0, len(large), 10_000):
            yield large[start : start + 10_000]

    for path in ("create_session", "forward_backward", "telemetry"):
        answer = server.http.post(f"/api/v1/{path}", content=pieces())
        assert answer.status_code == 413, path
        assert str(MAX_BODY) in answer.text
    within = b'{"tags": ["' + b"x" * (MAX_BODY - 20) + b'"]}'
    assert send(server, "POST", "telemetry", within).status_code == 200


def weights_of(server: Running, model: str, seq_id: int) -> bytes:
    """The model's log-probabilities, as bits."""
    return server.future(train(server, model, seq_id, forward_only=True)).content


def test_a_repeated_post_is_answered_by_the_first(server: Running) -> None:
    once, twice = server.model(), server.model()
    adam = {"adam_params": {"learning_rate": 0.01}}
    fresh = weights_of(server, once, 1)
    assert weights_of(server, twice, 1) == fresh
    step: dict[str, Any]
    for model, repeats in ((once, 1), (twice, 3)):
        step = {"model_id": model, "seq_id": 3} | adam
        # The later number first, as it may arrive.
        steps = {server.ok("optim_step", step)["request_id"] for _ in range(repeats)}
        forwards = {train(server, model, 2) for _ in range(repeats)}
        assert len(steps) == len(forwards) == 1
        first = server.future(steps.pop()).content
        assert b'"error"' not in first
        server.future(forwards.pop())
        for _ in range(repeats):
            request_id = server.ok("optim_step", step)["request_id"]
            assert server.future(request_id).content == first
    trained = weights_of(server, once, 4)
    assert trained != fresh
    assert weights_of(server, twice, 4) == trained


def test_a_refused_post_uses_its_number_up(server: Running) -> None:
    model = server.model()
    refused: list[tuple[str, dict[str, Any]]] = [
        ("optim_step", {"adam_params": {"learning_rate": "fast"}}),
        ("optim_step", {}),
        ("optim_step", {"adam_params": {"beta1": 2.0}}),
        ("save_weights", {"path": "../x"}),
        ("save_weights", {"path": 5}),
        ("save_weights_for_sampler", {}),
        ("save_weights_external", {"path": "x", "ttl_seconds": 3600}),
        ("load_weights", {"path": "nowhere", "optimizer": 1}),
    ]
    seq_id = 0
    for seq_id, (path, body) in enumerate(refused, 1):
        answer = server.post(path, {"model_id": model, "seq_id": seq_id} | body)
        wrong_later = answer.status_code == 200 and server.future(answer.json()["request_id"])
        if wrong_later:
            assert wrong_later.json()["category"] == "user"
        else:
            assert answer.status_code == 400, (path, answer.text)
    unread = bytearray(forward_backward(model, seq_id + 1))
    unread += bytes([0x98, 0x06, 0x01])  # field 99: not understood
    assert send(server, "POST", "forward_backward", bytes(unread)).status_code == 400
    assert b'"error"' not in weights_of(server, model, seq_id + 2)
    again = {"model_id": model, "seq_id": 1, "adam_params": {}}
    answer = server.post("optim_step", again)
    assert answer.status_code == 400
    assert REFUSED in answer.json()["error"]


def new_sampler(server: Running) -> str:
    session = server.ok("create_session", {})["session_id"]
    request = {"session_id": session, "sampling_session_seq_id": 0, "base_model": NANO}
    return str(server.ok("create_sampling_session", request)["sampling_session_id"])


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_a_bad_name_writes_nothing_outside_the_state(server: Running, folder: Path) -> None:
    before = {path for path in files_below(folder) if "sqlite3" not in path.name}
    model = server.model()
    names = ["../x", "a/b", "x" * 200, ".hidden", "..", "", "/tmp/x", "a\\b", "a b", "x\n", "\x00"]
    paths = ("save_weights", "save_weights_for_sampler", "save_weights_external")
    seq_id = 0
    for name in names:
        for path in paths:
            if name == "" and path == "save_weights":
                continue  # no name: the server gives one
            seq_id += 1
            body = {"model_id": model, "seq_id": seq_id, "path": name}
            answer = server.post(path, body)
            if answer.status_code == 200:
                failed = server.future(answer.json()["request_id"]).json()
                assert failed["category"] == "user", (path, name, failed)
            else:
                assert answer.status_code == 400, (path, name)
    after = {path for path in files_below(folder) if "sqlite3" not in path.name}
    assert after == before
    session = server.ok("create_session", {})["session_id"]
    for bad in ("tinker://../weights/x", f"tinker://{model}/weights/..", "tinker://a/b/c/d", "/x"):
        question = {"session_id": session, "sampling_session_seq_id": 0, "model_path": bad}
        assert server.post("create_sampling_session", question).status_code == 400
        assert server.post("weights_info", {"tinker_path": bad}).status_code == 400


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def mixed(server: Running, model: str, sampler: str, first: int, count: int) -> None:
    rng = random.Random(first)
    right = known(model, sampler)
    paths = sorted(right)
    for i in range(first, first + count):
        path = rng.choice(paths)
        body = dict(right[path])
        if path == "asample":
            body |= {"seq_id": i}
        if path == "create_session":
            body |= {"tags": ["x" * 50]}
        if rng.random() < 0.5 and body:
            body[rng.choice(sorted(body))] = rng.choice([None, -1, "x" * 1000, [], 2**70])
        check(send(server, "POST", path, json.dumps(body).encode()))
        if rng.random() < 0.2:
            check(send(server, "POST", "forward_backward", rng.randbytes(200)))
            check(server.http.get(f"/api/v1/{rng.choice(GETS)}"))


def test_a_thousand_requests_leave_no_memory_behind(server: Running, model: str) -> None:
    sampler = new_sampler(server)
    mixed(server, model, sampler, 0, 500)
    before = rss_mib(server.process.pid)
    mixed(server, model, sampler, 1000, 1000)
    growth = rss_mib(server.process.pid) - before
    print(f"growth {growth:.1f} MiB of {before:.0f}")
    assert growth < GROWTH_MIB
    assert server.http.get("/api/v1/healthz").status_code == 200


def test_the_key_is_nowhere(server: Running, folder: Path) -> None:
    server.http.post("/api/v1/telemetry", content=KEY)
    for path in files_below(folder):
        assert KEY.encode() not in path.read_bytes(), path
    assert "Traceback" not in server.log.read_text()
