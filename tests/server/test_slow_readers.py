"""A stream that nobody reads, and one that is left: neither holds anybody up."""

import json
import socket
from collections.abc import Iterator

import pytest

from running import KEY, NANO, Running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("server") / "state")
    try:
        yield running
    finally:
        running.stop()


def stream(server: Running) -> socket.socket:
    """Ask for a long stream through a connection that takes as little as it can, and read its first bytes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    body = json.dumps({"model": NANO, "prompt": "a", "max_tokens": 900, "n": 8, "stream": True})
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection.sendall((head + body).encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def complete(server: Running) -> str:
    body = {"model": NANO, "prompt": "tin", "max_tokens": 5, "temperature": 0.0}
    answer = server.http.post("/v1/completions", json=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_streams_that_nobody_reads_hold_nobody_up(server: Running) -> None:
    alone = complete(server)
    unread = [stream(server) for _ in range(4)]
    assert [complete(server) for _ in range(3)] == [alone] * 3
    for connection in unread:
        connection.close()
    assert complete(server) == alone
    assert server.complaints == []
