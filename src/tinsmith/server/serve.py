"""The verb `tinsmith serve`: loads models, binds, says where it listens, drains on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn
import uvloop

from tinsmith.engine.engine import Engine
from tinsmith.engine.kept_certificates import KeptCertificates
from tinsmith.engine.training import MicroBatches
from tinsmith.server.app import build_app
from tinsmith.server.parent_watch import ParentWatch
from tinsmith.server.service import Service
from tinsmith.types.announcements import READY, STARTING
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.gradient import GradientUnit
from tinsmith.types.home import certificates_folder

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """How a server is started."""

    models: Mapping[str, str]
    state: Path
    host: str = "127.0.0.1"
    port: int = 8000
    """0: a free one."""
    device: str = "cpu"
    arithmetic: Arithmetic = Arithmetic.CANONICAL
    seed: int = 0
    micro_batch: int = 0
    """Most units of gradient computed at once; 0: as many as memory allows. Changes no bit."""
    deviation: Deviation = Deviation.NONE
    """What it does wrong on purpose."""
    gradient_unit: GradientUnit = GradientUnit.TREE
    """What is one chain of sums: prefix trees, or datums one by one."""
    max_body: int = 512 << 20
    max_queue: int = 4096
    parent: ParentWatch | None = None
    """Stop when it finds the parent gone; None: there is none to live with."""


ORPHAN_SECONDS = 12.0
"""How long an embedded server waits for its predecessor, which may still be putting its state away after a kill."""


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError, BackendError, DeterminismError, CheckpointError: the server cannot start.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    key = os.environ.get("TINKER_API_KEY") or f"tml-{secrets.token_hex(16)}"
    if not key.startswith("tml-"):
        raise ConfigError(
            "the SDK only takes keys that begin with tml-",
            field="TINKER_API_KEY",
            allowed="tml-...",
        )
    listener = bind(settings.host, settings.port)
    engine = Engine(
        settings.models,
        arithmetic=settings.arithmetic,
        device=settings.device,
        seed=settings.seed,
        micro_batches=MicroBatches(units=settings.micro_batch) if settings.micro_batch else None,
        deviation=settings.deviation,
        gradient_unit=settings.gradient_unit,
        kept=KeptCertificates(certificates_folder()),
        say=_tell,
    )
    _tell(f"opening the state in {settings.state}")
    uvloop.run(_serve(settings, engine, listener, key))


def _tell(line: str) -> None:
    print(f"{STARTING}{line}", file=sys.stderr, flush=True)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound there, on which answers leave at once.

    Raises:
        ConfigError: it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, so that asyncio turns Nagle's algorithm off; with it each answer would come 40 ms late.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen here: {error.strerror}",
            field="--host, --port",
            value=f"{host}:{port}",
            fix="choose another port, or 0 for a free one",
        ) from None
    return listener


class _Server(uvicorn.Server):
    """Leaves on SIGTERM and SIGINT by returning, so that the state is closed in order."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take signals while serving; uvicorn's own would raise them again and end the process at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.leave)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            # The drain is under way; only an impatient person cuts it short, which harms no state.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def leave(self) -> None:
        """Stop serving soon; long polls are answered now."""
        self.should_exit = True
        self._service.futures.stop_waiting()


async def _serve(
    settings: ServeSettings, engine: Engine, listener: socket.socket, key: str
) -> None:
    service = Service(
        engine,
        settings.state,
        seed=settings.seed,
        max_queue=settings.max_queue,
        patience=0.0 if settings.parent is None else ORPHAN_SECONDS,
    )
    app = build_app(service, key=key, max_body=settings.max_body)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config, service)
    if settings.parent is not None:
        loop = asyncio.get_running_loop()
        settings.parent.then(lambda: loop.call_soon_threadsafe(server.leave))
    announced = asyncio.create_task(_announce(server, settings, listener, key))
    try:
        await server.serve(sockets=[listener])
    finally:
        announced.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await announced
        await service.close()


async def _announce(
    server: uvicorn.Server, settings: ServeSettings, listener: socket.socket, key: str
) -> None:
    """Say where and with which key, once it answers; the key only where it was not given."""
    while not server.started:
        await asyncio.sleep(0.01)
    port = listener.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    given = "key=TINKER_API_KEY" if os.environ.get("TINKER_API_KEY") else f"key={key}"
    if settings.host not in LOOPBACK:
        print(
            f"warning: listening on {settings.host}: anyone who has the key and can reach this machine can use it",
            flush=True,
        )
    print(f"{READY}http://{shown}:{port} {given}", flush=True)
