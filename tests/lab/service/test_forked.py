"""A server in a process that was forked: it serves as a new one does, and one that nobody needs ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinsmith.lab.service.connect import EmbeddedSettings, open_connection
from tinsmith.lab.service.facts import serves
from tinsmith.lab.service.forked import forked

# The SDK leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process is started"),
]


def test_a_process_that_waits_becomes_the_server_of_a_connection(tmp_path: Path) -> None:
    with forked() as waiting:
        connection = open_connection(
            None, EmbeddedSettings(models={"nano": "tinsmith/nano"}, state=tmp_path), None, waiting
        )
        try:
            assert serves(connection, "nano")
            assert connection.server is not None
            assert waiting is not None
            assert connection.server.pid == waiting.pid
        finally:
            connection.close()
        assert waiting.returncode == 0


def test_a_process_that_waits_in_vain_ends() -> None:
    with forked() as waiting:
        assert waiting is not None
    assert waiting.returncode == 0
