"""A service on a state folder, for as long as a coroutine takes."""

import asyncio
from pathlib import Path

from coroutines import Script, coroutine_test

from running import HANG_S
from tinsmith.engine.engine import Engine
from tinsmith.server.service import Service


def serve(script: Script, engine: Engine, state: Path) -> None:
    """Run a script that is given the service."""

    async def live() -> None:
        service = Service(engine, state, seed=0, max_queue=16)
        try:
            await asyncio.wait_for(script(service), HANG_S)
        finally:
            await service.close()

    asyncio.run(live())


served = coroutine_test(serve, "engine", "state")
