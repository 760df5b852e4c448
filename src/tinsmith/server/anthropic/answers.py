"""Answers in Anthropic's format: a message with its blocks, whole or as named events."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tinsmith.server.anthropic.errors import refusal
from tinsmith.server.chat.delivery import Json
from tinsmith.server.chat.prepared import Prepared
from tinsmith.server.chat.reply import Call, Ending, Part
from tinsmith.server.draws import Drawn
from tinsmith.types.errors import TinsmithError

_REASONS: Mapping[Ending, str] = MappingProxyType(
    {Ending.STOP: "end_turn", Ending.LENGTH: "max_tokens", Ending.CALLS: "tool_use"}
)


@dataclass(slots=True)
class MessageAnswer:
    """Message in progress."""

    prepared: Prepared
    secret: str = field(default_factory=lambda: secrets.token_hex(12))
    blocks: int = 0
    """Blocks begun so far."""
    open: bool = False
    """True if the last block is a text that may continue."""

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens to an answer that is sent whole."""
        self.prepared.take(drawn)

    def whole(self) -> Json:
        """Return the complete message."""
        parts = self.prepared.replies[0].parts
        content = [_tool_use(p) if isinstance(p, Call) else _text(p) for p in parts]
        counts = {"output_tokens": self.prepared.num_drawn}
        usage = {"input_tokens": len(self.prepared.prompt), **counts}
        return {**self._head(content), **self._ending(), "usage": usage}

    def opening(self) -> Iterator[bytes]:
        """Yield the events before any token: the message without its content."""
        usage = {"input_tokens": len(self.prepared.prompt), "output_tokens": 0}
        unended = {"stop_reason": None, "stop_sequence": None}
        yield event("message_start", message={**self._head([]), **unended, "usage": usage})

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Yield the events for drawn tokens: new text, or a complete call."""
        _, parts = self.prepared.take(drawn)
        for part in parts:
            yield from self._part(part)

    def closing(self) -> Iterator[bytes]:
        """Yield the last events: the stop reason and the token counts."""
        yield from self._closed()
        usage = {"output_tokens": self.prepared.num_drawn}
        yield event("message_delta", delta=self._ending(), usage=usage)
        yield event("message_stop")

    def failed(self, error: TinsmithError) -> bytes:
        """Return the error event."""
        return event("error", error=refusal(error)[0]["error"])

    def _part(self, part: Part) -> Iterator[bytes]:
        if isinstance(part, str):
            if not self.open:
                yield self._begun(_text(""))
                self.open = True
            yield self._delta({"type": "text_delta", "text": part})
            return
        yield from self._closed()
        yield self._begun({**_tool_use(part), "input": {}})
        yield self._delta({"type": "input_json_delta", "partial_json": part.text})
        self.open = True
        yield from self._closed()

    def _begun(self, block: Json) -> bytes:
        self.blocks += 1
        return event("content_block_start", index=self.blocks - 1, content_block=block)

    def _delta(self, delta: Json) -> bytes:
        return event("content_block_delta", index=self.blocks - 1, delta=delta)

    def _closed(self) -> Iterator[bytes]:
        if self.open:
            yield event("content_block_stop", index=self.blocks - 1)
            self.open = False

    def _head(self, content: list[Json]) -> Json:
        return {
            "id": f"msg_{self.secret}",
            "type": "message",
            "role": "assistant",
            "model": self.prepared.ask.model,
            "content": content,
        }

    def _ending(self) -> Json:
        ending = self.prepared.replies[0].ending
        assert ending is not None, "called at the end"
        stopped = self.prepared.stop_text(0) if ending is Ending.STOP else None
        reason = _REASONS[ending] if stopped is None else "stop_sequence"
        return {"stop_reason": reason, "stop_sequence": stopped}


def event(kind: str, **values: object) -> bytes:
    """Encode one server-sent event with its name."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n".encode()


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _tool_use(call: Call) -> Json:
    named = {"id": f"toolu_{call.id}", "name": call.name}
    return {"type": "tool_use", **named, "input": dict(call.arguments)}
