"""Checkpoint or base as a frozen policy: its continuations, and the distribution after each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec
import tinker
from tinker import types

from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import ask
from tinsmith.lab.service.official_client import ready
from tinsmith.types.errors import BackendError

ENDPOINT: Final = "tinsmith/spread"  # Below `/api/v1/`.
_MOST: Final = 128  # Texts in a request.


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one text's tokens; None for the first, and for tokens not requested."""

    rank: tuple[int | None, ...]  # Of the token asked about in the whole vocabulary: 1 is the most probable.
    entropy: tuple[float | None, ...]  # In nats, over the whole vocabulary.
    logprob: tuple[float | None, ...]  # Of the token asked about; None too where it is impossible.
    argmax: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Text to continue."""

    prompt: tuple[int, ...]
    seed: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """Policy that a server answers for."""

    connection: Connection
    client: tinker.SamplingClient
    model: str  # A served base's name, or a `tinker://` path.

    @classmethod
    def base(cls, connection: Connection, name: str) -> ServedPolicy:
        """Ask a base that a server serves."""
        made = connection.client.create_sampling_client(base_model=name)
        return cls(connection=connection, client=ready(made, WAIT_SECONDS), model=name)

    @classmethod
    def checkpoint(cls, connection: Connection, path: str) -> ServedPolicy:
        """Ask a checkpoint of the server's state."""
        made = connection.client.create_sampling_client(model_path=path)
        return cls(connection=connection, client=ready(made, WAIT_SECONDS), model=path)

    def spreads(
        self,
        texts: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]] | None = None,
        begins: Sequence[int] | None = None,
    ) -> list[Spread]:
        """Return exact figures of every text, in order.

        Args:
            texts: token ids, two or more each.
            targets: the token asked about after each of a text's but the last; None: the text's own next one.
            begins: the first token of each text that is asked about; None: the second. Those before cost no figures.
        """
        figures: list[Spread] = []
        for begin in range(0, len(texts), _MOST):
            part = range(begin, min(begin + _MOST, len(texts)))
            body: dict[str, object] = {"model": self.model, "sequences": [list(texts[place]) for place in part]}
            if targets is not None:
                body["targets"] = [list(targets[place]) for place in part]
            if begins is not None:
                body["begins"] = [begins[place] for place in part]
            answer = ask(self.connection, "POST", ENDPOINT, body, seconds=WAIT_SECONDS)
            if answer is None:
                what = "this server does not report whole distributions"
                allowed = "a tinsmith server of this version"
                raise BackendError(what, field="endpoint", value=f"POST /api/v1/{ENDPOINT}", allowed=allowed)
            figures += msgspec.convert(answer["sequences"], list[Spread])
        return figures

    def drawn(
        self, draws: Sequence[Draw], *, temperature: float, stop: Sequence[int] | Sequence[str]
    ) -> list[tuple[int, ...]]:
        """Return the continuation of each text; its last token is the stop."""
        pending = [
            self.client.sample(
                types.ModelInput.from_ints(list(one.prompt)),
                1,
                types.SamplingParams(
                    max_tokens=one.max_tokens,
                    temperature=temperature,
                    seed=one.seed % 2**SEED_BITS,
                    stop=cast("list[int] | list[str]", list(stop)),
                ),
            )
            for one in draws
        ]
        return [tuple(one.result(WAIT_SECONDS).sequences[0].tokens) for one in pending]
