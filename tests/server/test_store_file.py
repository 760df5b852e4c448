"""The state's file itself: batches, durability, threads, foreign files, a killed process, a full disk."""

import json
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import OWNER, PROTO, finished
from training_requests import train

from running import HANG_S, KEY, NANO, Running, complaints
from tinsmith.engine.checkpoints import list_checkpoints, read
from tinsmith.server.database.database import Durability
from tinsmith.server.database.private import FILE
from tinsmith.server.database.records import Finished, NoResult
from tinsmith.server.database.schema import OWNED, VERSION
from tinsmith.server.database.store import Store
from tinsmith.types.errors import ConfigError, InputError
from warm import SCRIPT

pytestmark = pytest.mark.whole


def test_a_batch_is_all_or_nothing(store: Store) -> None:
    store.open_request(owner=OWNER, seq_id=1, kind="asample")

    def finish_both() -> None:
        with store.batch():
            store.finish(f"{OWNER}:1:asample", body=b"one", media_type=PROTO)
            store.finish("nothing", body=b"two", media_type=PROTO)

    with pytest.raises(InputError, match="field: request_id = 'nothing'"):
        finish_both()
    assert store.result(f"{OWNER}:1:asample") is NoResult.PENDING
    with store.batch():
        store.finish(f"{OWNER}:1:asample", body=b"one", media_type=PROTO)
        assert store.result(f"{OWNER}:1:asample") is NoResult.PENDING
    assert isinstance(store.result(f"{OWNER}:1:asample"), Finished)


@pytest.mark.parametrize(("durability", "synchronous"), [("DISK", 2), ("PROCESS", 1)])
def test_a_commit_to_disk_is_flushed(store: Store, durability: str, synchronous: int) -> None:
    for before in Durability:
        with store._database.transaction(before):
            pass
        with store._database.transaction(Durability[durability]):
            assert store._database.execute("PRAGMA synchronous")[0][0] == synchronous


def test_a_read_does_not_wait_for_a_write(store: Store) -> None:
    with ThreadPoolExecutor(1) as other, store.batch():
        store.create_session()
        assert other.submit(store.sessions).result(timeout=HANG_S) == ()
    assert len(store.sessions()) == 1


def test_threads_share_a_store(store: Store) -> None:
    start = threading.Barrier(8)

    def work(thread_idx: int) -> list[int]:
        start.wait()
        store.create_session()
        for seq_id in range(20):
            request_id = finished(store, f"owner-{thread_idx % 4}", seq_id, bytes([seq_id]))
            assert store.result(request_id) == Finished(body=bytes([seq_id]), media_type=PROTO)
        return [store.occurrence("key") for _ in range(20)]

    with ThreadPoolExecutor(8) as threads:
        occurrences = sorted(n for counted in threads.map(work, range(8)) for n in counted)
    assert occurrences == list(range(160))
    assert [session.session_id for session in store.sessions()] == [f"s{i:06d}" for i in range(1, 9)]
    assert store.pending() == ()


def test_a_newer_state_is_refused_and_left_alone(state: Path) -> None:
    Store(state).close()
    connection = sqlite3.connect(state / FILE)
    connection.execute("UPDATE schema_version SET version = ?", (VERSION + 1,))
    connection.commit()
    connection.close()
    before = (state / FILE).read_bytes()
    with pytest.raises(ConfigError, match=f"schema version {VERSION + 1}"):
        Store(state)
    assert (state / FILE).read_bytes() == before


def test_an_older_state_is_brought_up_to_date(state: Path) -> None:
    with Store(state) as store:
        session = store.create_session().session_id
        store.create_sampling_session(session_id=session, sampling_session_seq_id=0, base_model="m")
        store.open_request(owner=OWNER, seq_id=1, kind="optim_step")
    connection = sqlite3.connect(state / FILE)
    connection.execute("ALTER TABLE checkpoints DROP COLUMN public")
    for table in OWNED:
        connection.execute(f"DROP INDEX owned_{table}")
        connection.execute(f"ALTER TABLE {table} DROP COLUMN key_name")
    connection.execute("DROP INDEX checkpoints_of_model")
    connection.execute("ALTER TABLE bodies DROP COLUMN key_name")
    connection.execute("ALTER TABLE sampling_sessions DROP COLUMN weights")
    connection.execute("ALTER TABLE requests DROP COLUMN content")
    for request_id, owner in (("a", "bob.s000001:x"), ("b", "s000001:x")):
        values = (request_id, owner, "t", b"")
        connection.execute("INSERT INTO bodies (request_id, owner, media_type, body) VALUES (?, ?, ?, ?)", values)
    connection.execute("UPDATE schema_version SET version = 1")
    connection.commit()
    connection.close()
    with Store(state) as store:
        assert [known.session_id for known in store.sessions()] == [session]
        assert store.checkpoints() == ()
        assert [sampler.weights for sampler in store.sampling_sessions()] == [None]
        assert not store.open_request(owner=OWNER, seq_id=1, kind="optim_step", content=b"any")[1]
    connection = sqlite3.connect(state / FILE)
    assert connection.execute("SELECT key_name FROM bodies ORDER BY request_id").fetchall() == [("bob",), ("default",)]
    assert connection.execute("SELECT version FROM schema_version").fetchall() == [(VERSION,)]
    assert "public" in {row[1] for row in connection.execute("PRAGMA table_info(checkpoints)")}
    assert connection.execute("SELECT key_name FROM sessions").fetchall() == [("default",)]
    connection.close()


def test_a_file_of_something_else_is_refused_and_left_alone(state: Path) -> None:
    state.mkdir()
    (state / FILE).write_bytes(b"not a database, " * 100)
    with pytest.raises(ConfigError, match="not a database"):
        Store(state)
    assert (state / FILE).read_bytes() == b"not a database, " * 100
    (state / FILE).unlink()
    connection = sqlite3.connect(state / FILE)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(ConfigError, match="recipes"):
        Store(state)


def test_a_state_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--state"):
        Store(tmp_path / "file")
    with pytest.raises(ConfigError, match="--state"):
        Store(tmp_path / "file" / "below")
    (tmp_path / "state" / FILE).mkdir(parents=True)
    with pytest.raises(ConfigError, match="--state"):
        Store(tmp_path / "state")


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters()), number=st.integers())
def test_no_text_or_number_breaks_a_look_up(tmp_path_factory: pytest.TempPathFactory, text: str, number: int) -> None:
    with Store(tmp_path_factory.mktemp("state")) as store:
        assert store.session(text) is None
        assert store.training_run(text) is None
        assert store.sampling_session(text) is None
        assert store.result(text) is NoResult.UNKNOWN
        assert store.occurrence(text) == 0
        try:
            request_id, is_new = store.open_request(owner="o", seq_id=number, kind="k")
        except InputError:
            assert abs(number) >= 2**63
        else:
            assert is_new
            assert store.result(request_id) is NoResult.PENDING


def test_a_number_beyond_64_bits_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="too large"):
        store.open_request(owner="o", seq_id=2**63, kind="k")


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is of POSIX")
def test_nothing_told_is_lost_when_the_writer_is_killed(state: Path) -> None:
    script = Path(__file__).with_name("killed_store.py")
    done = subprocess.run(
        [*SCRIPT, str(script), str(state), "12", "0"], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 12


@contextmanager
def full(server: Running, most: int) -> Generator[None, None, None]:
    """No file that the server writes becomes larger than so many bytes."""
    limit: Callable[..., tuple[int, int]] = resource.prlimit
    before = limit(server.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        limit(server.process.pid, resource.RLIMIT_FSIZE, before)


def outcome(server: Running, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a request's outcome."""
    answer: dict[str, Any] = server.future(server.ok(path, body)["request_id"]).json()
    return answer


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs limits of another process")
def test_a_full_disk_is_told_and_the_server_serves_again_once_there_is_room(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    try:
        session = server.ok("create_session", {})["session_id"]
        requests = {
            "session_id": session,
            "model_seq_id": 0,
            "base_model": "tinsmith/nano",
            "lora_config": {"rank": 16},
        }
        model = outcome(server, "create_model", requests)["model_id"]
        with full(server, 300_000):  # the weights do not fit, the journal of the state does
            failed = outcome(server, "save_weights", {"model_id": model, "seq_id": 1, "path": "a"})
        assert failed["category"] == "server"
        assert "could not write" in failed["error"]
        assert "no space left" in failed["error"]
        assert [path.name for path in (tmp_path / "state").rglob("*") if "weights" in path.name] in ([], ["weights"])
        with full(server, 1):  # nothing can be written
            refused = server.post("create_session", {})
            assert refused.status_code == 507
            assert "could not write" in refused.json()["error"]
            assert server.http.get("/api/v1/healthz").status_code == 200
        assert "path" in outcome(server, "save_weights", {"model_id": model, "seq_id": 2, "path": "a"})
        assert server.post("create_session", {}).status_code == 200
    finally:
        server.stop()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs limits of another process")
def test_samples_that_cannot_be_recorded_are_answered_with_the_reason(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    try:
        session = server.ok("create_session", {})["session_id"]
        made = {"session_id": session, "sampling_session_seq_id": 0, "base_model": "tinsmith/nano"}
        sampler = server.ok("create_sampling_session", made)["sampling_session_id"]
        wanted = {"max_tokens": 900, "temperature": 1.0, "seed": 1}
        prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
        body = {
            "sampling_session_id": sampler,
            "seq_id": 0,
            "prompt": prompt,
            "sampling_params": wanted,
            "num_samples": 64,
        }
        request = server.ok("asample", body)["request_id"]
        with full(server, 1):
            failed = server.future(request).json()
        assert failed["category"] == "server"
        assert "could not write" in failed["error"]
    finally:
        server.stop()


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
            question = {"session_id": session, "model_seq_id": i, "path": path, "optimizer": True}
            made = server.ok("load_weights", question)
            assert server.future(made["request_id"]).json()["model_id"] == made["model_id"]
            server.ok("unload_model", {"model_id": made["model_id"]})
        else:
            question = {"session_id": session, "sampling_session_seq_id": i, "model_path": path}
            assert server.ok("create_sampling_session", question)["sampling_session_id"]


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
    words = complaints(second.stderr)
    assert str(state) in "\n".join(words)
    assert len(words) <= 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_leaves_at_once(tmp_path: Path, number: signal.Signals) -> None:
    server = Running(tmp_path / "state")
    assert server.stop(number) == 0
    assert [line.partition(":")[0] for line in server.complaints] == [number.name]
