"""The real service on a loopback port, in a thread of the test's own process, with `tinsmith/nano`."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import httpx
import tinker
import uvicorn
from openai import OpenAI

from running import HANG_S
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.server.app import build_app
from tinsmith.server.service import Service
from warm import CERTIFICATES

MODEL, KEY = "tinsmith/nano", "tml-openai-test"
KEPT = CertificateStore(CERTIFICATES)


@dataclass(frozen=True)
class Running:
    service: Service
    server: uvicorn.Server
    thread: threading.Thread
    url: str

    def client(self, key: str = KEY) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=HANG_S)

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"x-api-key": KEY}, timeout=HANG_S)

    def tinker(self) -> tinker.ServiceClient:
        return tinker.ServiceClient(base_url=self.url, api_key=KEY)


def start(state: Path, models: Mapping[str, str] = MappingProxyType({MODEL: MODEL})) -> Running:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who connects before the server accepts waits, instead of being refused
    ready: Future[tuple[Service, uvicorn.Server]] = Future()

    async def main() -> None:
        service = Service(Engine(models, certificate_store=KEPT), state, seed=0, max_queue=4096)
        app = build_app(service, key=KEY, max_body=1 << 24)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        ready.set_result((service, server))
        await server.serve(sockets=[listener])
        await service.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    service, server = ready.result(HANG_S)
    return Running(service, server, thread, f"http://127.0.0.1:{listener.getsockname()[1]}")


def stop(running: Running) -> None:
    running.server.should_exit = True
    running.thread.join(HANG_S)
    assert not running.thread.is_alive()
