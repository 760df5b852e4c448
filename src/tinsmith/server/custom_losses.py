"""Custom losses of sessions: uploaded as graphs, checked, stored on disk, and loaded again by id.

A loss belongs to its session: its id begins with the session's, and only models of that session can name it. The same
graph has the same id.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Literal

from pydantic import Field, JsonValue

from tinsmith.engine.validation import loss_by_name
from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.server.access.turns import Turns
from tinsmith.server.database.store import Store
from tinsmith.server.futures import Futures, json_result
from tinsmith.server.wire.body import Request, SeqId, Settings, parse_json
from tinsmith.types.datum import LossName
from tinsmith.types.disk import writing
from tinsmith.types.errors import InputError

CUSTOM: Final = "custom"
"""Name of every custom loss in the SDK; the setting loss_id says which."""
MAX_BODY: Final = 1 << 20
"""Largest uploaded graph in bytes."""
MAX_LOSSES: Final = 256
"""Most losses per session."""
HELD: Final = 64
"""Losses held in memory; others are read from disk again."""


class SentInput(Settings):
    """Input of a loss on the wire."""

    name: str
    rank: int


class SentGraphNode(Settings):
    """Node on the wire; `ops.custom_loss.encoded` defines its arguments."""

    op: str
    name: str
    target: str
    args: tuple[JsonValue, ...] = ()
    kwargs: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class SentGraph(Settings):
    """Graph on the wire."""

    format: Literal[1] = 1
    nodes: tuple[SentGraphNode, ...]


class StoredLoss(Request):
    """Content of a custom loss, which defines its id."""

    name: str
    inputs: tuple[SentInput, ...]
    graph: SentGraph

    def read(self) -> CustomLoss:
        """Return the loss.

        Raises:
            InputError: naming the invalid node.
        """
        return CustomLoss.of(
            self.name,
            [LossInput(each.name, each.rank) for each in self.inputs],
            [
                SentNode(op=node.op, name=node.name, target=node.target, args=node.args, kwargs=node.kwargs)
                for node in self.graph.nodes
            ],
        )


class CreateCustomLoss(StoredLoss):
    """POST create_custom_loss."""

    session_id: str
    custom_loss_seq_id: SeqId


@dataclass(frozen=True, slots=True)
class UploadedLoss:
    """Stored loss, and the request that uploaded it."""

    session_id: str
    seq_id: int
    loss_id: str


@dataclass(slots=True)
class CustomLosses:
    """All custom losses."""

    store: Store
    futures: Futures
    folder: Path
    held: OrderedDict[str, CustomLoss] = field(default_factory=OrderedDict[str, CustomLoss])
    """Losses by id, most recently used last."""
    lock: Lock = field(default_factory=Lock)
    """Lock, since losses are created while others are looked up on the compute thread."""

    def keep(self, body: bytes) -> UploadedLoss:
        """Store a loss. On any thread.

        Raises:
            InputError: naming the invalid node or field; nothing was stored.
        """
        if len(body) > MAX_BODY:
            raise InputError(
                "this graph is too large", field="graph", value=f"{len(body)} bytes", allowed=f"{MAX_BODY} bytes"
            )
        request = parse_json(CreateCustomLoss, body)
        session = request.session_id
        if self.store.session(session) is None:
            raise InputError("there is no such session", field="session_id", value=session)
        loss = request.read()
        content = request.model_dump_json(include={"name", "inputs", "graph"}).encode()
        digest = hashlib.sha256(content).hexdigest()[:32]
        loss_id = f"{session}:loss:{digest}"
        with self.lock:
            self.store.check_open(session)  # `forget` comes after its end: files written later would stay for ever
            self._keep(session, digest, content)
            self._hold(loss_id, loss)
        return UploadedLoss(session, request.custom_loss_seq_id, loss_id)

    async def accept(self, uploaded: UploadedLoss, turns: Turns) -> str:
        """Return the id of the request, whose answer has the loss's id. On the event loop.

        Raises:
            InputError: the number was used for something else, or the key has reached a limit on concurrent work.
        """
        async with self.store.on_the_loop():
            request_id, new = self.futures.accept(
                owner=f"{uploaded.session_id}:loss",
                seq_id=uploaded.seq_id,
                kind="create_custom_loss",
                content=uploaded.loss_id.encode(),
            )
        if new:
            answer = json_result({"loss_id": uploaded.loss_id, "type": "create_custom_loss"})
            await turns.run(lambda: self.futures.run(request_id, lambda: answer))
        return request_id

    def named(
        self, model_id: str, loss_fn: str, settings: Mapping[str, object]
    ) -> tuple[LossName | CustomLoss, Mapping[str, object]]:
        """Return the loss named in a model's request, and its settings.

        Raises:
            InputError: there is none of this name, or not in the model's session.
        """
        if loss_fn != CUSTOM:
            return loss_by_name(loss_fn), settings
        loss_id = settings.get("loss_id")
        if not isinstance(loss_id, str) or len(settings) != 1:
            raise InputError(
                "a custom loss is named by its id",
                field="loss_fn_config",
                value=dict(settings),
                allowed='{"loss_id": ...} alone, as forward_backward_custom sends it',
            )
        with self.lock:
            return self._loss(model_id.rpartition(":train:")[0], loss_id), {}

    def forget(self, session: str) -> None:
        """Drop the losses of a finished session; a request that was accepted before may no longer find its own."""
        with self.lock:
            for loss_id in [each for each in self.held if each.rpartition(":loss:")[0] == session]:
                del self.held[loss_id]
            shutil.rmtree(self.folder / session, ignore_errors=True)

    def _loss(self, session: str, loss_id: str) -> CustomLoss:
        held = self.held.get(loss_id)
        owner, _, digest = loss_id.rpartition(":loss:")
        if owner == session and held is not None:
            self._hold(loss_id, held)
            return held
        file = self._file(session, digest)
        if owner != session or not digest.isalnum() or not file.is_file():
            raise InputError(
                "this session has no such custom loss",
                field="loss_fn_config.loss_id",
                value=loss_id,
                fix="call create_custom_loss with a client of the model's session",
            )
        loss = parse_json(StoredLoss, file.read_bytes()).read()
        self._hold(loss_id, loss)
        return loss

    def _hold(self, loss_id: str, loss: CustomLoss) -> None:
        self.held[loss_id] = loss
        self.held.move_to_end(loss_id)
        while len(self.held) > HELD:
            self.held.popitem(last=False)

    def _file(self, session: str, digest: str) -> Path:
        return self.folder / session / f"{digest}.json"

    def _keep(self, session: str, digest: str, content: bytes) -> None:
        file = self._file(session, digest)
        if file.exists():
            return
        if file.parent.is_dir() and len(list(file.parent.iterdir())) >= MAX_LOSSES:
            raise InputError(
                "this session has too many custom losses",
                field="session_id",
                value=session,
                allowed=f"{MAX_LOSSES} losses",
                fix="make what varies an input of the loss",
            )
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_suffix(".part")
            unfinished.write_bytes(content)
            os.replace(unfinished, file)
