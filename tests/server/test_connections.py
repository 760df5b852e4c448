"""Number of connections allowed, what each may send before it is a request, and how long it may say nothing."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from certificates import certificate
from coroutines import coroutine_test
from uvicorn.server import ServerState

from running import HANG_S, Running
from tinsmith.server.access.connections import BODY_SECONDS, FIRST_SECONDS, Connections, bind, listen
from tinsmith.server.access.listener import Listener
from tinsmith.server.database.private import FILE, LOCK
from tinsmith.server.database.store import Store
from tinsmith.server.state_lock import lock_state
from tinsmith.types.errors import ConfigError


class Line:
    """A connection, as it is counted."""

    def __init__(self, *, is_late: bool = False) -> None:
        self.is_late = is_late
        self.is_cut = False

    def late(self, now: float) -> bool:
        del now
        return self.is_late

    def cut(self) -> None:
        self.is_cut = True


def lines(connections: Connections, count: int, address: str = "10.0.0.1") -> list[Line]:
    made = [Line() for _ in range(count)]
    assert all(connections.admit(line, address) for line in made)
    return made


def test_where_there_is_no_room_the_longest_silent_connection_goes_before_those_that_had_a_key() -> None:
    connections = Connections(most=8)
    known, *silent = lines(connections, 4)
    connections.busy(known)
    connections.idle(known, known=True)
    lines(connections, 2)
    assert [line.is_cut for line in silent] == [True, True, False]
    assert not known.is_cut


def test_a_connection_with_a_request_under_way_is_never_closed_for_another() -> None:
    connections = Connections(most=8)
    for line in lines(connections, 4):
        connections.busy(line)
    assert not connections.admit(Line(), "10.0.0.1")
    assert connections.admit(Line(), "10.0.0.2")


def test_no_address_keeps_others_out() -> None:
    connections = Connections(most=8)
    many, few = lines(connections, 4), lines(connections, 4, "10.0.0.2")
    (other,) = lines(connections, 1, "10.0.0.3")
    assert [line.is_cut for line in (*many, *few)].count(True) == 1
    assert not other.is_cut
    assert not connections.admit(Line(), "10.0.0.4") or not other.is_cut


def test_where_the_address_with_most_is_busy_an_idle_connection_of_another_goes() -> None:
    connections = Connections(most=8)
    for line in lines(connections, 4):
        connections.busy(line)
    idle, *others = (lines(connections, 1, f"10.0.1.{i}")[0] for i in range(4))
    assert connections.admit(Line(), "10.0.0.2")
    assert idle.is_cut
    assert not any(line.is_cut for line in others)


def test_addresses_of_one_customer_are_one() -> None:
    connections = Connections(most=4)
    first, _ = lines(connections, 1, "2001:db8::1"), lines(connections, 1, "2001:db8::2")
    lines(connections, 1, "2001:db8::3")
    assert first[0].is_cut


def test_room_that_is_left_is_taken_by_others() -> None:
    connections = Connections(most=4)
    for _ in range(10):
        for line in lines(connections, 2):
            connections.busy(line)
            connections.closed(line)
            connections.closed(line)
    assert not any(line.is_cut for line in lines(connections, 2))


def test_late_connections_are_closed() -> None:
    connections = Connections()
    late, other = Line(is_late=True), Line()
    for line in (late, other):
        connections.admit(line, "10.0.0.1")
    connections.sweep()
    assert (late.is_cut, other.is_cut) == (True, False)


# On a socket, with a clock of the test's own


class Live:
    """A listener with an application that reads a body and answers with its length."""

    def __init__(self, tls: tuple[Path, Path] | None = None) -> None:
        self.now = 0.0
        self.connections = Connections(clock=lambda: self.now)
        self.begun = asyncio.Event()
        self.socket = bind("127.0.0.1", 0)
        cert, key = tls or (None, None)
        config = uvicorn.Config(
            self.answer,
            interface="asgi3",
            log_level="critical",
            lifespan="off",
            ws="none",
            ssl_certfile=cert,
            ssl_keyfile=key,
        )
        config.load()
        listen(self.socket)
        self.listener = Listener(self.socket, self.connections, config, ServerState(), {})

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        del scope
        self.begun.set()
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": b"%8d" % size})

    async def line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.socket.getsockname()[1])

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.connections.sweep()


def live(
    script: Callable[[Live], Awaitable[None]],
    tls: tuple[Path, Path] | None = None,
    start: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    async def run() -> None:
        own = Live(tls)
        try:
            await asyncio.wait_for(script(own), HANG_S)
        finally:
            own.listener.close()
            await own.listener.wait_closed()
            own.socket.close()

    start(run())


alive = coroutine_test(live)


@alive
async def test_a_connection_that_says_nothing_is_closed(own: Live) -> None:
    reader, writer = await own.line()
    other, speaks = await own.line()
    speaks.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await other.readuntil(b"       0")).startswith(b"HTTP/1.1 200")
    own.later(FIRST_SECONDS + 1)
    assert await reader.read() == b""
    for each in (writer, speaks):
        each.close()


@pytest.mark.parametrize("begin", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
@alive
async def test_a_head_that_does_not_end_is_cut_off(own: Live, begin: bytes) -> None:
    reader, writer = await own.line()
    writer.write(begin)
    await writer.drain()
    other, speaks = await own.line()  # what is sent before is there when this is answered
    speaks.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await other.readuntil(b"       0")
    own.later(FIRST_SECONDS + 1)
    assert await reader.read() == b""
    for each in (writer, speaks):
        each.close()


@alive
async def test_a_body_that_does_not_come_is_cut_off_and_a_slow_one_is_not(own: Live) -> None:
    reader, writer = await own.line()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    await own.begun.wait()
    for _ in range(4):
        writer.write(bytes(25_000))
        await writer.drain()
        while own.now < 1:  # until it was read
            await asyncio.sleep(0)
            own.now += 0.001
        own.later(BODY_SECONDS / 2)
    assert b"  100000" in await reader.readuntil(b"  100000")
    own.begun.clear()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc")
    await own.begun.wait()
    own.later(BODY_SECONDS + 1)
    assert await reader.read() == b""
    writer.close()


# A server's process


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""First bytes of a TLS handshake."""


@pytest.mark.parametrize("start", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("begin", [b"", HELLO[:1], HELLO])
def test_a_handshake_that_does_not_end_is_cut_off(begin: bytes, start: Any, tmp_path: Path) -> None:
    async def script(own: Live) -> None:
        reader, writer = await own.line()
        writer.write(begin)
        await wait_for(lambda: own.connections.num_open == 1)
        own.later(FIRST_SECONDS - 1)
        assert not reader.at_eof()
        own.later(2)
        assert own.connections.num_open == 0
        assert await gone(reader)
        writer.close()

    live(script, certificate(tmp_path, "own"), start)


@pytest.mark.parametrize("start", [asyncio.run, uvloop.run])
def test_what_is_no_handshake_is_cut_off(start: Any, tmp_path: Path) -> None:
    async def script(own: Live) -> None:
        reader, writer = await own.line()
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await gone(reader)
        await wait_for(lambda: own.connections.num_open == 0)
        writer.close()

    live(script, certificate(tmp_path, "own"), start)


@pytest.mark.parametrize("start", [asyncio.run, uvloop.run])
def test_after_a_handshake_a_request_is_waited_for_and_answered(start: Any, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "own")

    async def script(own: Live) -> None:
        port = own.socket.getsockname()[1]
        trusts = ssl.create_default_context(cafile=str(cert))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusts)
        await wait_for(lambda: own.connections.num_open == 1)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
        assert (await reader.readuntil(b"       3")).startswith(b"HTTP/1.1 200")
        silent, other = await asyncio.open_connection("127.0.0.1", port, ssl=trusts)
        await wait_for(lambda: own.connections.num_open == 2)
        own.later(FIRST_SECONDS + 1)
        assert await gone(silent)
        for each in (writer, other):
            each.close()

    live(script, (cert, key), start)


async def wait_for(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0)


async def gone(reader: asyncio.StreamReader) -> bool:
    """Return whether nothing but an alert comes before the connection's end."""
    try:
        return not (await reader.read()).startswith(b"HTTP")
    except ConnectionError:
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    with Running(tmp_path_factory.mktemp("connections") / "state") as running:
        yield running


def send(server: Running, *pieces: bytes) -> bytes:
    """Send bytes on a connection of their own; return what is answered until it ends."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=HANG_S) as line:
        answer = b""
        try:
            for piece in pieces:
                line.sendall(piece)
            while more := line.recv(65536):
                answer += more
        except OSError:  # what was still to be sent is not read any more
            return answer
        return answer


HEAD = b"GET /api/v1/healthz HTTP/1.1\r\nHost: localhost\r\n"


def test_heads_and_addresses_without_end_are_refused(server: Running) -> None:
    last = b"Connection: close\r\n\r\n"
    for pieces, status in (
        ((HEAD, *(b"X-%d: a\r\n" % i for i in range(200)), last), b"431"),
        ((HEAD, b"X: " + b"a" * 100_000 + b"\r\n", last), b"431"),
        ((b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n", last), b"414"),
        ((HEAD, b"X: " + b"a" * 50_000 + b"\r\n", last), b"200"),
        ((b"nonsense\r\n\r\n",), b"400"),
        ((HEAD + b"\r\n",) * 60, b"400"),
    ):
        answer = send(server, b"".join(pieces))
        statuses = [line.split()[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
        assert statuses[-1:] == [status], (pieces[0][:20], answer[:200])


def test_a_head_without_end_takes_no_memory(server: Running) -> None:
    def resident() -> int:
        return int(Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096

    before = resident()
    send(server, HEAD, b"X: ", *[b"a" * 100_000] * 1000)
    assert resident() - before < 20 << 20


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
def test_a_server_on_loopback_answers_to_its_own_names(server: Running, host: str) -> None:
    assert server.http.get("/api/v1/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["example.com", "localhost.example.com:8000", "10.0.0.1", "127.0.0.1.example.com"])
def test_a_server_on_loopback_answers_to_no_other_name(server: Running, host: str) -> None:
    for path in ("/api/v1/healthz", "/api/v1/sessions", "/v1/models"):
        answer = server.http.get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "error" in answer.json()


@pytest.mark.parametrize("query", ["limit=x", "limit=-1", "limit=99999999", "offset=9223372036854775808", "limit=1e3"])
def test_a_wrong_query_is_refused_as_everything_else(server: Running, query: str) -> None:
    answer = server.http.get(f"/api/v1/sessions?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]


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
    assert (caught.value.field, caught.value.value) == ("--port", port)


def test_of_two_servers_that_start_on_one_port_the_second_is_refused() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port) as second:  # two that do not listen yet may share it
            listen(first)
            with pytest.raises(ConfigError) as caught:
                listen(second)
    assert (caught.value.field, caught.value.value) == ("--port", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose an address of this machine") as caught:
        bind("192.0.2.1", 0)
    assert (caught.value.field, caught.value.value) == ("--host", "192.0.2.1")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Permission bits of a folder and of what is in it, by name."""
    found = [folder, *folder.rglob("*")]
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in found}


@pytest.mark.usefixtures("open_umask")
def test_a_new_state_is_its_users_alone(tmp_path: Path) -> None:
    with lock_state(tmp_path / "state"), Store(tmp_path / "state") as store:
        store.create_session()
        beside = dict.fromkeys((LOCK, FILE, f"{FILE}-wal", f"{FILE}-shm"), 0o600)
        assert modes(tmp_path / "state") == {".": 0o700, **beside}


@pytest.mark.usefixtures("open_umask")
def test_a_wider_state_is_tightened_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = tmp_path / "state"
    with Store(state) as store:
        store.create_session()
    state.chmod(0o755)
    (state / FILE).chmod(0o644)
    with lock_state(state), Store(state) as store:
        store.create_session()
        found = modes(state)
    assert (found["."], found[FILE], found[f"{FILE}-wal"]) == (0o700, 0o600, 0o600)
    assert [
        str(path) in record.getMessage() for path, record in zip((state, state / FILE), caplog.records, strict=True)
    ]


def test_a_folder_with_other_things_in_it_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "letter").touch()
    with lock_state(tmp_path):
        pass
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o600
    assert str(tmp_path) in caplog.text


@pytest.mark.whole
@pytest.mark.usefixtures("open_umask")
def test_nothing_that_a_server_writes_can_be_read_by_others(tmp_path: Path) -> None:
    server = Running(tmp_path / "state")
    model = server.model()
    for seq, path in enumerate(("save_weights", "save_weights_for_sampler", "save_weights_external"), start=1):
        requests = server.ok(path, {"model_id": model, "seq_id": seq, "path": "a"})
        assert "error" not in server.future(requests["request_id"]).json()
    server.stop()
    found = modes(tmp_path / "state")
    assert len(found) > 8
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}
