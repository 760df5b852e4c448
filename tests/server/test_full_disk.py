"""A server on a full disk: requests fail with that reason, it goes on, and serves again once there is room."""

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from running import Running

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs limits of another process"),
]


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
    """What a request comes to."""
    answer: dict[str, Any] = server.future(server.ok(path, body)["request_id"]).json()
    return answer


def test_a_full_disk_is_told_and_the_server_serves_again_once_there_is_room(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    try:
        session = server.ok("create_session", {})["session_id"]
        asked = {"session_id": session, "model_seq_id": 0, "base_model": "tinsmith/nano", "lora_config": {"rank": 16}}
        model = outcome(server, "create_model", asked)["model_id"]
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
        asked = server.ok("asample", body)["request_id"]
        with full(server, 1):
            failed = server.future(asked).json()
        assert failed["category"] == "server"
        assert "could not write" in failed["error"]
    finally:
        server.stop()
