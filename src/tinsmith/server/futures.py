"""Futures of requests: accepted on the event loop, settled on the compute thread, awaited by long polls."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tinsmith.server.access.caller import call_content, caller_limits, is_own, owner_of
from tinsmith.server.access.limits import UNLIMITED, BusyError, Usage
from tinsmith.server.database.records import ErrorCategory, Failed, Finished, NoResult, Outcome
from tinsmith.server.database.store import Store
from tinsmith.server.presence import Presence
from tinsmith.types.disk import disk_full, is_full
from tinsmith.types.errors import BackendError, DeterminismError, DiskFullError, InputError, TinsmithError

logger = logging.getLogger(__name__)

JSON = "application/json"
SAMPLE, UNLOAD = "sample", "unload_model"
"""Kinds of requests with special rules at a limit: the SDK waits and retries only the first; the second makes room."""
KEEP_PER_OWNER, KEEP_IN_ALL, KEEP_BYTES = 4096, 16384, 4 << 30
"""Most result bodies stored for clients that ask again, per model or sampler and per key; older ones are dropped."""


def json_result(values: Mapping[str, object]) -> Finished:
    """Encode a result as JSON."""
    return Finished(body=json.dumps(values).encode(), media_type=JSON)


class Futures:
    """Futures of accepted requests, each settled once."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, presence: Presence) -> None:
        """Store results in `store`; waiters live on `loop`, and `presence` is notified of their activity."""
        self.usage = Usage()
        """Work that is not settled, counted on the loop."""
        self._presence = presence
        self._store = store
        self._loop = loop
        self._waiters: dict[str, asyncio.Event] = {}
        self._settled = 0
        self._closing = False
        self._unrecorded: dict[str, Failed] = {}

    def repeated(self, *, owner: str, seq_id: int, kind: str) -> str | None:
        """Return the id of a request accepted earlier, perhaps by a previous server.

        Raises:
            InputError: the number was used for something else.
        """
        return self._store.find_request(owner=owner, seq_id=seq_id, kind=kind, content=call_content())

    def accept(
        self,
        *,
        owner: str,
        seq_id: int,
        kind: str,
        num_samples: int = 0,
        num_bytes: int = 0,
        content: bytes | None = None,
    ) -> tuple[str, bool]:
        """Return the request's id, and True if it is new or False for a retry. On the event loop.

        Its `num_samples`, and the `num_bytes` of its datums, count until it is settled. Its `content` is what a retry
        repeats, if not the body of the current numbered request.

        Raises:
            InputError: the number was used for something else; or the key has reached a limit on concurrent work.
            BusyError: that limit, for a sampling request.
        """
        self._presence.note(owner)
        content = content or call_content()
        if (num_bytes or caller_limits() is not UNLIMITED) and kind != UNLOAD:
            known = self._store.find_request(owner=owner, seq_id=seq_id, kind=kind, content=content)
            if known is not None:
                return known, False
            self.require_room(owner, kind, num_samples=num_samples, num_bytes=num_bytes)
        request_id, new = self._store.open_request(owner=owner, seq_id=seq_id, kind=kind, content=content)
        if new:
            self.usage.begin(request_id, owner_of(owner), num_samples=num_samples, num_bytes=num_bytes)
        return request_id, new

    def require_room(self, owner: str, kind: str, *, num_samples: int = 0, num_bytes: int = 0) -> None:
        """Reject one more request of a key that has reached a limit on concurrent work.

        Raises:
            InputError: naming the limit.
            BusyError: the same, for a sampling request.
        """
        # Other kinds of requests would be retried by the SDK for minutes without a message.
        refusal = BusyError if kind == SAMPLE else InputError
        self.usage.require_room(
            owner_of(owner), caller_limits(), num_samples=num_samples, num_bytes=num_bytes, refusal=refusal
        )

    def run(self, request_id: str, compute: Callable[[], Finished]) -> None:
        """Execute a request on the compute thread, and settle it in any case."""

        def body() -> None:
            result = compute()
            try:
                self.finish(request_id, result)
            except DiskFullError as error:  # a step that is sent again would be a second one
                raise error.with_fix(
                    "make room, and do not send this again: it was carried out, and only its result is not recorded"
                ) from error

        self.attempt(request_id, body)

    def attempt(self, request_id: str, body: Callable[[], None]) -> None:
        """Run `body`, which settles the request now or later; if it raises, the request fails with that error."""
        try:
            body()
        except TinsmithError as error:
            self.fail(request_id, error)
        except Exception as error:  # the boundary of a request: nothing above could report the error to the client
            logger.exception("request %s failed", request_id)
            self.fail(request_id, _failure_of(error))

    def settle(self, outcomes: Sequence[tuple[str, Finished | TinsmithError]]) -> None:
        """Settle several requests in one transaction; if it cannot be written, each of them fails with the error."""
        if not outcomes:
            return
        try:
            with self._store.batch():
                for request_id, outcome in outcomes:
                    self._record(request_id, outcome)
        except Exception as error:  # the boundary of these requests: the transaction was rolled back
            logger.exception("the results of %d requests could not be written", len(outcomes))
            failure = _failure_of(error)
            for request_id, _ in outcomes:
                self.fail(request_id, failure)
        else:
            self._record_late()
            self._notify(*(request_id for request_id, _ in outcomes))

    def finish(self, request_id: str, result: Finished) -> None:
        """Settle with a result, which is on the disk when this returns."""
        self._record(request_id, result)
        self._record_late()
        self._notify(request_id)

    def fail(self, request_id: str, error: TinsmithError) -> None:
        """Settle with an error."""
        try:
            self._record(request_id, error)
        except Exception as unwritten:  # the boundary of a request: waiters get what cannot be recorded directly
            logger.exception("the failure of request %s could not be recorded", request_id)
            message = f"{error}; and the server's state cannot be written: {unwritten}"
            self._unrecorded[request_id] = Failed(message=message, category=ErrorCategory.SERVER)
        self._notify(request_id)

    def _record_late(self) -> None:
        """Record the failures for which there was no room, now that something could be written."""
        with suppress(DiskFullError, sqlite3.Error):
            for request_id, failed in tuple(self._unrecorded.items()):
                self._store.fail(request_id, message=failed.message, category=failed.category)
                del self._unrecorded[request_id]

    def fail_pending(self, message: str) -> None:
        """Fail the requests that a previous server left pending."""
        with self._store.batch():
            for request in self._store.pending():
                self._store.fail(request.request_id, message=message, category=ErrorCategory.SERVER)

    async def wait(self, request_id: str, seconds: float) -> Outcome:
        """Return the outcome as soon as it exists; PENDING after `seconds`; another key's request is unknown."""
        if not is_own(request_id):
            return NoResult.UNKNOWN
        event = self._waiters.setdefault(request_id, asyncio.Event())
        self._presence.note(request_id)
        outcome = self._result(request_id)
        if outcome is NoResult.PENDING:
            try:
                await asyncio.wait_for(event.wait(), 0 if self._closing else seconds)
            except TimeoutError:
                return NoResult.PENDING
            outcome = self._result(request_id)
        self._wake(request_id)
        return outcome

    def _result(self, request_id: str) -> Outcome:
        return self._unrecorded.get(request_id) or self._store.result(request_id)

    def _record(self, request_id: str, outcome: Finished | TinsmithError) -> None:
        if isinstance(outcome, Finished):
            self._store.finish(request_id, body=outcome.body, media_type=outcome.media_type)
            return
        server = isinstance(outcome, (BackendError, DeterminismError, DiskFullError))
        category = ErrorCategory.SERVER if server else ErrorCategory.USER
        self._store.fail(request_id, message=str(outcome), category=category)

    def stop_waiting(self) -> None:
        """Answer every long poll now, and later ones at once: the server is about to stop."""
        self._closing = True
        for request_id in tuple(self._waiters):
            self._wake(request_id)

    def _notify(self, *request_ids: str) -> None:
        """Wake waiters, once the results are on the disk."""
        before, self._settled = self._settled, self._settled + len(request_ids)
        if before // 1024 != self._settled // 1024:
            with suppress(DiskFullError):  # bodies that are dropped a thousand results later do no harm
                self._store.forget_older_than(KEEP_PER_OWNER, total=KEEP_IN_ALL, num_bytes=KEEP_BYTES)
        if request_ids:
            self._loop.call_soon_threadsafe(self._end, *request_ids)

    def _end(self, *request_ids: str) -> None:
        for request_id in request_ids:
            self.usage.end(request_id)
        self._wake(*request_ids)

    def _wake(self, *request_ids: str) -> None:
        for request_id in request_ids:
            event = self._waiters.pop(request_id, None)
            if event is not None:
                event.set()


def _failure_of(error: Exception) -> TinsmithError:
    """Return the error reported to a client for an exception: its own, or one that names what failed."""
    if isinstance(error, TinsmithError):
        return error
    if isinstance(error, (OSError, sqlite3.OperationalError)):
        return disk_full(error) if is_full(error) else BackendError(f"the server could not write: {error}")
    return BackendError(f"the server failed: {type(error).__name__}")
