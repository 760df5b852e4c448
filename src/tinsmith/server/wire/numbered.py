"""Reading of numbered requests, large ones on threads, with the numbers of refused ones accounted for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from tinsmith.server.access.caller import current_call
from tinsmith.server.access.turns import Turns
from tinsmith.server.database.store import Store
from tinsmith.server.wire.body import R, parse_json
from tinsmith.server.wire.places import Place, json_place
from tinsmith.server.wire.requests import Sample
from tinsmith.types.errors import TinsmithError

T = TypeVar("T")
A = TypeVar("A")


class Bodies:
    """Reader of requests, large ones on threads."""

    def __init__(self, turns: Turns, store: Store) -> None:
        self._turns = turns
        self._store = store

    async def read(self, model: type[R], request: Request) -> R:
        """Parse a JSON body into a request."""
        return await self._turns.read(request, lambda sent: parse_json(model, sent))

    async def numbered(
        self,
        request: Request,
        parse: Callable[[bytes], T],
        submit: Callable[[T], A],
        *,
        place: Callable[[bytes], Place | None],
        count: Callable[[Place, TinsmithError], None],
    ) -> A:
        """Parse and submit a request.

        A refused request uses its number up: the SDK has counted it, and later ones must not wait for it.
        """
        call = current_call()

        def read(sent: bytes) -> tuple[bytes, T | TinsmithError]:
            if call is not None:
                call.content = hashlib.blake2b(sent, digest_size=16).digest()
            try:
                return sent, parse(sent)
            except TinsmithError as error:
                return sent, error

        sent, parsed = await self._turns.read(request, read)
        try:
            if isinstance(parsed, TinsmithError):
                raise parsed
            async with self._store.on_the_loop():
                return submit(parsed)
        except TinsmithError as error:
            refused = await self._turns.run(lambda: place(sent), size=len(sent))
            if refused is not None:
                async with self._store.on_the_loop():
                    count(refused, error)
            raise


def parse_sample(sent: bytes) -> Sample:
    """Parse a sampling request."""
    return parse_json(Sample, sent)


def place_of_model(sent: bytes) -> Place | None:
    """Return the place among a model's requests that a JSON body names."""
    return json_place(sent, "model_id")


def place_of_sampler(sent: bytes) -> Place | None:
    """Return the place among a sampling session's requests that a JSON body names."""
    return json_place(sent, "sampling_session_id")
