"""Server process of `tinsmith serve`: it loads models, binds, announces its address, and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import uvicorn
import uvloop

from tinsmith.engine.bases import Bases
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.server.access.connections import Connections, bind, listen, raise_descriptors
from tinsmith.server.access.keys import PREFIX, Keys, key_from_environment, read_keys, readable_by_others
from tinsmith.server.access.listener import Listener
from tinsmith.server.access.log import AccessLog, log_to_stderr
from tinsmith.server.access.tls import TlsFiles, tls_files
from tinsmith.server.app import build_app
from tinsmith.server.cluster.ending import SAYING_SECONDS, ServersWorkers
from tinsmith.server.cluster.launch import ClusterSettings, launch
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.server.database.private import UMASK
from tinsmith.server.parent_watch import ParentWatch
from tinsmith.server.presence import SILENT_HOURS, Presence
from tinsmith.server.service import Service
from tinsmith.server.state_lock import lock_state
from tinsmith.types.arithmetic import Arithmetic, GradientUnit, Hold
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError, TinsmithError
from tinsmith.types.home import certificates_folder
from tinsmith.types.waits import READY, STARTING, tell, ticking, unsaid

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Settings of a server."""

    models: Mapping[str, str]
    state: Path
    host: str = "127.0.0.1"
    port: int = 8000
    """Port; 0 for any free one."""
    device: str = "cpu"
    arithmetic: Arithmetic = Arithmetic.CANONICAL
    seed: int = 0
    micro_batch: int = 0
    """Most gradient units computed at once; 0 for as many as memory allows. Changes no bit."""
    hold: Hold = Hold.PUBLISHED
    """Storage format of a base's matrices in memory. Changes no bit."""
    deviation: Deviation = Deviation.NONE
    """Deliberate deviation of the server."""
    gradient_unit: GradientUnit = GradientUnit.TREE
    """Unit of one chain of sums: prefix trees, or datums one by one."""
    unit_hashes: bool = False
    """True to digest each gradient unit in the trace of a model's steps."""
    max_body: int = 512 << 20
    max_queue: int = 4096
    session_timeout: float = SILENT_HOURS
    """Hours after which a silent client counts as gone; 0 for never."""
    keys: Path | None = None
    """File of keys, read again on SIGHUP; None for one key, TINKER_API_KEY or a new one."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    access_log: str | None = None
    """File for one line per request; `-` for standard output."""
    public_url: str | None = None
    """Address of the server behind a proxy, for links to exports; None for the one that a request names."""
    cluster: ClusterSettings | None = None
    """Workers that compute for it; None to compute in this process."""
    parent: ParentWatch | None = None
    """Watch that stops the server when its parent is gone; None for a server without one."""

    def __post_init__(self) -> None:
        """Reject a timeout that is not a number.

        Raises:
            ConfigError: naming the flag.
        """
        if not self.session_timeout >= 0:
            raise ConfigError(
                "the session timeout must not be negative",
                field="--session-timeout",
                value=self.session_timeout,
                allowed="0 (never) or more",
            )


IDLE_SECONDS = 20
"""Seconds until an idle connection is closed: later than clients drop theirs (httpx after 5, aiohttp after 15)."""
ORPHAN_SECONDS = 12.0
"""Seconds to wait for a previous embedded server, which may still be saving its state after a kill."""


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError, BackendError, DeterminismError, CheckpointError: the server cannot start.
    """
    log_to_stderr()
    os.umask(UMASK)
    door = _door(settings)
    listener = bind(settings.host, settings.port)
    doing = f"opening the state in {settings.state}"

    def say(step: str) -> None:
        nonlocal doing
        doing = step
        _tell(step)

    say(doing)
    lock = lock_state(settings.state, 0.0 if settings.parent is None else ORPHAN_SECONDS)
    if settings.cluster is not None:
        _serve_with_workers(settings, settings.cluster, listener, door, lock)
        return
    with ticking(lambda: f"{STARTING}{doing}", None if settings.parent is None else unsaid):
        engine = Engine(
            settings.models,
            arithmetic=settings.arithmetic,
            device=settings.device,
            seed=settings.seed,
            micro_batches=MicroBatches(units=settings.micro_batch) if settings.micro_batch else None,
            deviation=settings.deviation,
            gradient_unit=settings.gradient_unit,
            hold=settings.hold,
            certificate_store=CertificateStore(certificates_folder()),
            say=say,
        )
    uvloop.run(_serve(settings, engine, listener, door, ServersWorkers(), lock))


def _serve_with_workers(
    settings: ServeSettings, where: ClusterSettings, listener: socket.socket, door: _Door, lock: TextIOWrapper
) -> None:
    if settings.device != "cpu" or settings.deviation is not Deviation.NONE:
        raise ConfigError(
            "workers compute on CPUs, and without deviations",
            field="--device, --deviation",
            value=f"{settings.device}, {settings.deviation.value}",
            allowed="cpu, none",
            fix="serve without --workers and --ray",
        )
    _tell("starting Ray and the workers")
    workers = ServersWorkers()
    engine, workers.running = launch(
        where,
        WorkerSettings(
            models=settings.models,
            seed=settings.seed,
            arithmetic=settings.arithmetic,
            gradient_unit=settings.gradient_unit,
            micro_batch=settings.micro_batch,
            hold=settings.hold,
            shards=where.shards,
        ),
        workers.lost,
    )
    try:
        uvloop.run(_serve(settings, engine, listener, door, workers, lock))
    finally:
        workers.running.close()
    if workers.gone is not None:
        workers.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """Network access of the server: keys, TLS and the access log."""

    keys: Keys
    shown: str
    """Text about the keys, printed when the server is ready."""
    key: str | None
    """Generated key; None if one was configured."""
    tls: TlsFiles | None
    access_log: AccessLog | None


def _door(settings: ServeSettings) -> _Door:
    tls = tls_files(settings.tls_cert, settings.tls_key)
    if settings.keys is not None:
        keys, drawn = read_keys(settings.keys), None
        _warn_of_readers(settings.keys)
        shown = f"keys={settings.keys}"
    else:
        given = key_from_environment()
        key = given or f"{PREFIX}{secrets.token_hex(16)}"
        keys, shown = Keys.single(key), "key=TINKER_API_KEY" if given else f"key={key}"
        drawn = None if given else key
    log = None if settings.access_log is None else AccessLog(settings.access_log)
    return _Door(keys=keys, shown=shown, key=drawn, tls=tls, access_log=log)


def _warn_of_readers(file: Path) -> None:
    if readable_by_others(file):
        print(f"warning: others can read {file}: chmod 600 {file}", file=sys.stderr, flush=True)


def reread(keys: Keys, file: Path) -> str:
    """Reload the file of keys; one with a mistake is rejected as a whole. Return the message to print."""
    try:
        others = read_keys(file)
        _warn_of_readers(file)
    except (TinsmithError, OSError) as error:
        return f"keys: those of before stay, because {error}"
    keys.replace(others)
    return f"keys: {file} was read again; they are of {', '.join(keys.names)}"


def _tell(line: str) -> None:
    tell(f"{STARTING}{line}")


class _Server(uvicorn.Server):
    """uvicorn server that returns on SIGTERM and SIGINT, so that the state is closed in order."""

    def __init__(
        self, config: uvicorn.Config, service: Service, connections: Connections, hang_up: Callable[[], None] | None
    ) -> None:
        super().__init__(config)
        self._service = service
        self._connections = connections
        self._hang_up = hang_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with limits that uvicorn's own listener lacks."""
        await self.lifespan.startup()
        state = self.server_state, self.lifespan.state
        listeners = [Listener(each, self._connections, self.config, *state) for each in sockets or ()]
        self.servers = cast("list[asyncio.Server]", listeners)  # uvicorn closes them and waits for them like its own
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals while serving; uvicorn's own handler would raise them again and end the process at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if self._hang_up is not None:
            loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        try:
            yield
        finally:
            if self._hang_up is not None:
                loop.remove_signal_handler(signal.SIGHUP)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            # During the drain a second signal forces the end, which harms no state.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _signalled(self, number: signal.Signals) -> None:
        print(f"{number.name}: the server ends; what was saved stays", file=sys.stderr, flush=True)
        self.leave()

    def leave(self) -> None:
        """Stop serving soon; long polls are answered now."""
        self.should_exit = True
        self._service.futures.stop_waiting()


async def _serve(
    settings: ServeSettings,
    engine: Bases,
    listener: socket.socket,
    door: _Door,
    workers: ServersWorkers,
    lock: TextIOWrapper,
) -> None:
    service = Service(
        engine,
        settings.state,
        seed=settings.seed,
        max_queue=settings.max_queue,
        lock=lock,
        workers=workers.running,
        presence=Presence(silent_seconds=settings.session_timeout * 3600),
        unit_hashes=settings.unit_hashes,
    )
    observers = () if door.access_log is None else (door.access_log,)
    connections = Connections(most=raise_descriptors())
    app = build_app(
        service,
        key=door.keys,
        max_body=settings.max_body,
        observers=observers,
        hosts=frozenset({*LOOPBACK, "[::1]", settings.host.lower()}) if _is_loopback(settings.host) else None,
        most_at_once=connections.most_of_address,
        public_url=settings.public_url,
    )
    config = uvicorn.Config(
        app,
        ws="none",
        log_level="error",  # its warnings are about malformed requests
        access_log=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=5,
        ssl_certfile=None if door.tls is None else door.tls.cert,
        ssl_keyfile=None if door.tls is None else door.tls.key,
    )
    server = _Server(config, service, connections, _on_hang_up(settings, door))
    loop = asyncio.get_running_loop()

    def leave() -> None:
        loop.call_soon_threadsafe(loop.call_later, SAYING_SECONDS, server.leave)

    workers.leave = leave
    if workers.gone is not None:
        server.leave()
    if settings.parent is not None:
        settings.parent.then(lambda: loop.call_soon_threadsafe(server.leave))
    announced = asyncio.create_task(_announce(server, settings, listener, door))
    try:
        listen(listener)
        await server.serve(sockets=[listener])
    finally:
        announced.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await announced
        await service.close()
        if door.access_log is not None:
            door.access_log.close()


def _is_loopback(host: str) -> bool:
    """True if only this machine's own users can reach a server that listens there."""
    return host in LOOPBACK or host.startswith("127.")


def _on_hang_up(settings: ServeSettings, door: _Door) -> Callable[[], None] | None:
    """Return the action on SIGHUP: reload the keys, and reopen the log. None keeps the default: to end the process."""
    file, log = settings.keys, door.access_log
    if file is None and log is None:
        return None

    def hang_up() -> None:
        if file is not None:
            print(reread(door.keys, file), file=sys.stderr, flush=True)
        if log is not None:
            try:
                log.reopen()
            except ConfigError as error:
                print(error, file=sys.stderr, flush=True)

    return hang_up


async def _announce(server: uvicorn.Server, settings: ServeSettings, listener: socket.socket, door: _Door) -> None:
    """Print the address and key once the server is ready; the key only if it was generated."""
    while not server.started:
        await asyncio.sleep(0.01)
    port = listener.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "http" if door.tls is None else "https"
    if not _is_loopback(settings.host):
        print(
            f"warning: listening on {settings.host}: anyone who has the key and can reach this machine can use it",
            flush=True,
        )
    address, first = f"{scheme}://{shown}:{port}", next(iter(settings.models))
    print(f"{READY}{address} {door.shown}", flush=True)
    key = "$TINKER_API_KEY" if door.key is None else door.key
    body = f'{{"model": "{first}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 16}}'
    print(f"models: {', '.join(settings.models)}", flush=True)
    if settings.keys is not None or door.tls is not None:
        return  # which of the keys, and by which name and certificate, only who set them up can say
    print(
        f'try: curl {address}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f"-H \"Content-Type: application/json\" -d '{body}'",
        flush=True,
    )
