"""A server that is killed, stopped, and started again on the same state."""

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from training_requests import train

from running import HANG_S, KEY, NANO, Running, complaints
from tinsmith.engine.checkpoints import list_checkpoints, read

pytestmark = pytest.mark.whole

ROUNDS = 3


class Client:
    """Trains and saves until the server is gone; knows what it was told."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.model = server.model()
        self.finished: dict[str, bytes] = {}
        self.open: list[str] = []
        self.saved: list[str] = []
        self.answered = threading.Semaphore(0)
        """Counts what it was told."""
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self) -> None:
        seq_id = 0
        try:
            while True:
                step = seq_id // 4
                self.open = [train(self.server, self.model, seq_id + 1)]
                self.answered.release()
                body: dict[str, Any] = {"model_id": self.model, "seq_id": seq_id + 2}
                adam = {"adam_params": {"learning_rate": 0.001}}
                self.open.append(self.server.ok("optim_step", body | adam)["request_id"])
                body |= {"seq_id": seq_id + 3, "path": f"step-{step}"}
                self.open.append(self.server.ok("save_weights", body)["request_id"])
                body |= {"seq_id": seq_id + 4}
                self.open.append(self.server.ok("save_weights_for_sampler", body)["request_id"])
                self.answered.release(3)
                for request_id in tuple(self.open):
                    answer = self.server.future(request_id)
                    self.finished[request_id] = answer.content
                    self.open.remove(request_id)
                    self.answered.release()
                self.saved.append(f"step-{step}")
                seq_id += 4
        except httpx.HTTPError:
            return

    def stopped(self) -> None:
        self.thread.join(timeout=HANG_S)
        assert not self.thread.is_alive()


def check_state(server: Running, state: Path, clients: list[Client]) -> None:
    listed = server.http.get("/api/v1/checkpoints", params={"limit": 10_000}).json()
    paths = {row["tinker_path"] for row in listed["checkpoints"]}
    assert paths == {str(path) for path in list_checkpoints(state)}
    for path in list_checkpoints(state):
        read(path.folder(state))
    for client in clients:
        for name in client.saved:
            assert f"tinker://{client.model}/weights/{name}" in paths
            assert f"tinker://{client.model}/sampler_weights/{name}" in paths
        for request_id, content in client.finished.items():
            assert server.future(request_id).content == content


def check_loads(server: Running, paths: list[str]) -> None:
    """Every checkpoint can be trained on or sampled from."""
    session = server.ok("create_session", {})["session_id"]
    for i, path in enumerate(paths):
        if "/weights/" in path:
            asked = {"session_id": session, "model_seq_id": i, "path": path, "optimizer": True}
            made = server.ok("load_weights", asked)
            assert server.future(made["request_id"]).json()["model_id"] == made["model_id"]
            server.ok("unload_model", {"model_id": made["model_id"]})
        else:
            asked = {"session_id": session, "sampling_session_seq_id": i, "model_path": path}
            assert server.ok("create_sampling_session", asked)["sampling_session_id"]


def test_a_server_killed_at_any_moment_loses_nothing_it_told_of(tmp_path: Path) -> None:
    rng = random.Random(3)
    state = tmp_path / "state"
    clients: list[Client] = []
    server = Running(state)
    for _ in range(ROUNDS):
        client = Client(server)
        clients.append(client)
        for _ in range(rng.randrange(12, 40)):
            assert client.answered.acquire(timeout=HANG_S)
        server.process.kill()
        client.stopped()  # before the connections that it shares are closed
        server.stop()
        server = Running(state)
        check_state(server, state, clients)
        for request_id in client.open:
            answer = server.future(request_id)
            if "json" in answer.headers["content-type"] and "error" in answer.json():
                assert answer.json()["category"] == "server"
                assert "restarted" in answer.json()["error"]
        body = {"model_id": client.model, "seq_id": 10_000, "adam_params": {}}
        lost = server.post("optim_step", body)
        assert lost.status_code == 400
        assert client.model in lost.json()["error"]
    assert sum(len(client.finished) for client in clients) > 8
    rows = server.http.get("/api/v1/checkpoints", params={"limit": 10_000}).json()["checkpoints"]
    check_loads(server, [row["tinker_path"] for row in rows])
    assert server.stop(signal.SIGTERM) == 0


def test_sigterm_finishes_what_was_accepted(tmp_path: Path) -> None:
    state = tmp_path / "state"
    server = Running(state)
    model = server.model()
    accepted = [train(server, model, 1)]
    for seq_id in (2, 3, 4):
        body = {"model_id": model, "seq_id": seq_id, "adam_params": {}}
        accepted.append(server.ok("optim_step", body)["request_id"])
    body = {"model_id": model, "seq_id": 5, "path": "last"}
    accepted.append(server.ok("save_weights", body)["request_id"])
    # This one waits for a number that never comes.
    early = server.ok("optim_step", {"model_id": model, "seq_id": 9, "adam_params": {}})
    # Whoever waits is answered before the server leaves.
    session = server.ok("create_session", {})["session_id"]
    assert session
    assert server.stop(signal.SIGTERM) == 0
    assert [line.partition(":")[0] for line in server.complaints] == ["SIGTERM"]
    assert not (state / "tinsmith.sqlite3-wal").exists()
    with Running(state) as again:
        for request_id in accepted:
            answer = again.future(request_id)
            assert b'"error"' not in answer.content, answer.text
        failed = again.future(early["request_id"]).json()
        assert failed["category"] == "server"
        assert "stopped" in failed["error"]
        (row,) = again.http.get("/api/v1/checkpoints").json()["checkpoints"]
        assert row["tinker_path"] == f"tinker://{model}/weights/last"


def test_a_long_poll_does_not_hold_the_server_up(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    model = server.model()
    early = server.ok("optim_step", {"model_id": model, "seq_id": 9, "adam_params": {}})
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps(early).encode()
    head = f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: {host}\r\nX-Api-Key: {KEY}\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=HANG_S) as poll:
        poll.sendall(head.encode() + body)
        for _ in range(3):  # by then the server has the poll, which came before
            server.ok("client/config", {})
        assert server.stop(signal.SIGTERM) == 0
        answer = b"".join(iter(lambda: poll.recv(65536), b""))
    # As a 200 the SDK would tell its user of it, once a request and poll.
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "try_again"
    assert [line.partition(":")[0] for line in server.complaints] == ["SIGTERM"]


def test_a_second_server_on_the_same_state_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Running(state):
        second = subprocess.run(
            [sys.executable, "-m", "tinsmith", "serve", "--model", NANO, "--state", str(state)],
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
    assert second.returncode == 2
    said = complaints(second.stderr)
    assert str(state) in "\n".join(said)
    assert len(said) <= 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_leaves_at_once(tmp_path: Path, number: signal.Signals) -> None:
    server = Running(tmp_path / "state")
    assert server.stop(number) == 0
    assert [line.partition(":")[0] for line in server.complaints] == [number.name]
