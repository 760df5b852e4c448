"""Service behind the HTTP routes: an engine, its state and the running requests, independent of HTTP."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoints import remove_empty
from tinsmith.engine.sequences import Group
from tinsmith.models.presets import PRESETS
from tinsmith.models.published.hub_cache import offer_tokenizer, tokenizer_key
from tinsmith.models.published.packaged import PREFIX
from tinsmith.models.published.sources import is_hub_name
from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer
from tinsmith.server.access.limits import BusyError
from tinsmith.server.access.turns import Turns
from tinsmith.server.cluster.ray_workers import RayWorkers
from tinsmith.server.cluster.status import WorkersStatus
from tinsmith.server.custom_losses import CustomLosses
from tinsmith.server.database.records import CANCELLED, Finished
from tinsmith.server.database.store import Store
from tinsmith.server.external import External
from tinsmith.server.futures import UNLOAD, Futures, json_result
from tinsmith.server.presence import Presence
from tinsmith.server.runs import Runs
from tinsmith.server.samplers import Samplers
from tinsmith.server.snapshots import Snapshots
from tinsmith.server.state_lock import lock_state
from tinsmith.server.worker import Worker
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import InputError, TinsmithError
from tinsmith.types.model_names import ModelName
from tinsmith.types.version import VERSION

logger = logging.getLogger(__name__)

EXPIRY_SECONDS = 60.0
"""Seconds between searches for expired checkpoints and silent sessions."""


class Service:
    """State and computation of one server. Created and used on one event loop."""

    def __init__(
        self,
        engine: Bases,
        state: Path,
        *,
        seed: int,
        max_queue: int,
        lock: TextIOWrapper | None = None,
        workers: RayWorkers | None = None,
        presence: Presence | None = None,
        unit_hashes: bool = False,
    ) -> None:
        """Open the state; requests that an earlier server left unfinished fail with that reason.

        `workers`: those of a distributed engine; `lock`: the folder's lock, if already taken; `presence`: tracking of
        silent clients, if not the default; `unit_hashes`: traces digest each gradient unit.

        Raises:
            ConfigError: the state folder cannot be used, or another server uses it.
        """
        self.engine = engine
        self.workers: WorkersStatus | None = None
        """Status of the workers; None if this process computes."""
        self.state = state
        self.max_queue = max_queue
        self._making_tokenizer = threading.Lock()
        self._offering = threading.Lock()
        self._offered: set[str] = set()
        self._lock = lock or lock_state(state)
        self.store = Store(state)
        loop = asyncio.get_running_loop()
        self.presence = presence or Presence()
        self.turns = Turns()
        self.futures = Futures(self.store, loop, self.presence)
        self.futures.fail_pending("the server was restarted before this request was carried out")
        for run in self.store.training_runs():
            if not run.unloaded:
                self.store.mark_unloaded(run.model_id)
        for session in self.store.sessions():
            if session.finished is None:
                self.presence.began(session.session_id)  # its client may have disconnected in the meantime
        self.worker = Worker(engine, self._finished, self._stepped, self._abandoned)
        engine.attend(self.worker.wake, self.worker.tend)
        snapshots = Snapshots(engine, state / "snapshots")
        self.samplers = Samplers(engine, self.store, self.futures, self.worker, state, seed, loop, snapshots)
        self.runs = Runs(
            engine,
            self.store,
            self.futures,
            self.worker,
            state,
            seed,
            {},
            self.samplers.hold_snapshot,
            External(state, secrets.token_hex(32)),
            CustomLosses(self.store, self.futures, state / "custom_losses"),
            loop,
            unit_hashes=unit_hashes,
        )
        self.worker.start()
        if workers is not None:
            self.workers = WorkersStatus(workers, lambda: self.samplers.num_tokens + self.runs.num_tokens)
        self._expiry = loop.create_task(self._expire())

    def require_room(self) -> None:
        """Reject a sampling request while the queue is full.

        Raises:
            BusyError: the client may retry later.
        """
        if self.worker.queued + len(self.samplers.under_way) >= self.max_queue:
            raise BusyError(f"the queue holds {self.max_queue} requests: try again")

    def info(self, model_id: str) -> dict[str, object]:
        """Return a model's answer to `get_info`.

        Raises:
            InputError: there is no such model.
        """
        run = self.store.training_run(model_id)
        if run is None:
            raise InputError("there is no such model", field="model_id", value=model_id)
        parsed = ModelName.parse(run.base_model)
        name, lora = parsed.base, parsed.kind is not AdapterKind.FULL
        return {
            "type": "get_info",
            "model_id": model_id,
            "model_data": {
                "arch": self.engine.config(name).family.value,
                "model_name": run.base_model,
                "tokenizer_id": self.tokenizer_id(name),
            },
            "is_lora": lora,
            "lora_rank": run.spec.rank if lora else None,
        }

    def tokenizer_id(self, name: str) -> str:
        """Return a folder from which transformers loads the base model's tokenizer.

        The SDK cuts names with exactly two slashes, so a path of that shape ends in "/.".
        """
        folder, source = self.engine.folder(name), self.engine.base(name).name
        if folder is None:
            preset = source.removeprefix(PREFIX)
            if preset not in PRESETS:
                return name
            folder = self.state / "tokenizers" / preset
            with self._making_tokenizer:
                if not folder.exists():
                    save_tokenizer(preset_tokenizer(preset), folder)
        text = str(folder.resolve())
        return f"{text}/." if text.count("/") == 2 else text

    def offer_tokenizer(self, base_model: str) -> None:
        """Put a base model's tokenizer where the SDK's sampling clients look for it, once per name.

        Names of another form than ORG/NAME are left alone, and so is a cache that cannot be written.
        """
        name = ModelName.parse(base_model).base
        with self._offering:
            if name not in self._offered and is_hub_name(name):
                self._offer_tokenizer(name)
            self._offered.add(name)

    def _offer_tokenizer(self, name: str) -> None:
        folder, source = self.engine.folder(name), self.engine.base(name).name
        if folder is None and source.removeprefix(PREFIX) not in PRESETS:
            return
        key = f"{source} {VERSION}" if folder is None else tokenizer_key(folder)
        try:
            offer_tokenizer(name, key, lambda: Path(self.tokenizer_id(name)))
        except OSError as error:
            logger.warning("get_tokenizer() of sampling clients will not find %s: %s", name, error)

    def unload(self, model_id: str) -> str:
        """Free a model after its earlier requests; return the request's id."""
        run = self.store.training_run(model_id)
        if run is None:
            raise InputError("there is no such model", field="model_id", value=model_id)
        # In an order of its own: the client's numbers may be used up.
        request_id, new = self.futures.accept(owner=f"{model_id}:end", seq_id=0, kind=UNLOAD)
        if new:

            def answer() -> Finished:
                self.store.mark_unloaded(model_id)
                return json_result({"model_id": model_id, "type": UNLOAD})

            self.runs.unload(model_id, lambda: self.futures.run(request_id, answer))
        return request_id

    def free(self, session_id: str) -> None:
        """Free the resources of a session that has ended, after its earlier requests; its checkpoints stay."""
        for model_id in self.runs.of_session(session_id):
            self.unload(model_id)
        self.presence.ended(session_id)
        self.samplers.close_session(session_id)
        self.worker.post(lambda: self.runs.losses.forget(session_id))
        for run in self.store.training_runs(session_id=session_id):
            self.worker.post(partial(remove_empty, run.model_id, self.state))
        self.worker.post(self.engine.give_back)

    async def end_silent(self) -> None:
        """End the sessions of clients that have been silent too long."""
        for session_id in self.presence.silent():
            logger.info("session %s has ended: its client was silent", session_id)
            detail = f"its client was silent for {self.presence.silent_seconds / 3600:g} hours"
            with _tried_again_later(f"session {session_id} could not be ended"):
                await asyncio.to_thread(self.store.finish_session, session_id, reason=CANCELLED, detail=detail)
                async with self.store.on_the_loop():
                    self.free(session_id)

    async def delete_expired(self, now: float) -> None:
        """Delete the checkpoints that have expired by the wall clock `now`."""
        for record in self.store.expired(now):
            with _tried_again_later(f"checkpoint {record.path} could not be deleted"):
                if await asyncio.to_thread(self.store.delete_checkpoint, record.path, expired_at=now):
                    logger.info("checkpoint %s has expired", record.path)

    async def close(self) -> None:
        """Finish accepted training requests, then close the state."""
        self._expiry.cancel()
        self.turns.close()
        await asyncio.to_thread(self.worker.stop)
        self.futures.fail_pending("the server was stopped before this request was carried out")
        self.store.close()
        self._lock.close()

    def _finished(self, groups: Sequence[Group]) -> None:
        self.samplers.finished(groups)

    def _stepped(self) -> None:
        self.samplers.stepped()

    def _abandoned(self, error: Exception) -> None:
        self.samplers.abandon(error)

    async def _expire(self) -> None:
        while True:
            with _tried_again_later("silent sessions could not be looked for"):
                await self.end_silent()
            with _tried_again_later("expired checkpoints could not be looked for"):
                await self.delete_expired(time.time())
            await asyncio.sleep(EXPIRY_SECONDS)


@contextmanager
def _tried_again_later(failed: str) -> Generator[None]:
    """Log a failure, as on a full disk, and continue: the rest is tried again a minute later."""
    try:
        yield
    except (TinsmithError, OSError, sqlite3.Error) as error:
        logger.error("%s: %s", failed, error)
    except Exception:  # the boundary of a round: the next one must follow
        logger.exception("%s", failed)
