"""The socket that the server listens on."""

import asyncio
import socket

import pytest
import uvloop

from tinsmith.server.serve import bind
from tinsmith.types.errors import ConfigError


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_answers_do_not_wait_for_the_next_packet(run: object) -> None:
    """With Nagle's algorithm on, each small answer would be held back for 40 ms."""
    accepted: list[int] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        taken = writer.get_extra_info("socket")
        accepted.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def serve() -> None:
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        async with await asyncio.start_server(take, sock=listener):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    run(serve())  # type: ignore[operator]
    (nodelay,) = accepted
    assert nodelay != 0


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            bind("127.0.0.1", port)
    assert caught.value.value == f"127.0.0.1:{port}"
