"""Answers in Anthropic's words: a message with its blocks, whole or as named events, and errors."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fastapi.responses import JSONResponse

from tinsmith.server.chat.prepared import Prepared
from tinsmith.server.chat.reply import Call, Ending, Part
from tinsmith.server.chat.telling import Json
from tinsmith.server.draws import Drawn
from tinsmith.types.errors import BackendError, TinsmithError

_REASONS: Mapping[Ending, str] = MappingProxyType(
    {Ending.STOP: "end_turn", Ending.LENGTH: "max_tokens", Ending.CALLS: "tool_use"}
)
_KINDS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
    }
)


def error_body(message: str, status: int) -> Json:
    """An error in Anthropic's shape."""
    kind = _KINDS.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_answer(message: str, status: int) -> JSONResponse:
    """Refuse a request; but for a full queue, the SDK is told not to try again."""
    headers = None if status == 429 else {"x-should-retry": "false"}
    return JSONResponse(error_body(message, status), status, headers=headers)


def status_of(error: TinsmithError) -> int:
    """The status of a refusal: the client's mistake, or the server's."""
    return 500 if isinstance(error, BackendError) else 400


@dataclass(slots=True)
class MessageAnswer:
    """One message as it comes into being."""

    prepared: Prepared
    secret: str = field(default_factory=lambda: secrets.token_hex(12))
    blocks: int = 0
    """Blocks begun so far."""
    open: bool = False
    """Whether the last block is a text that may go on."""

    def take(self, drawn: Drawn) -> None:
        """Take what was drawn, where the answer is told whole."""
        self.prepared.take(drawn)

    def whole(self) -> Json:
        """The message, once it has ended."""
        parts = self.prepared.replies[0].parts
        content = [_tool_use(p) if isinstance(p, Call) else _text(p) for p in parts]
        counts = {"output_tokens": self.prepared.num_drawn}
        usage = {"input_tokens": len(self.prepared.prompt), **counts}
        return {**self._head(content), **self._ending(), "usage": usage}

    def opening(self) -> Iterator[bytes]:
        """The message without its content."""
        usage = {"input_tokens": len(self.prepared.prompt), "output_tokens": 0}
        unended = {"stop_reason": None, "stop_sequence": None}
        yield event("message_start", message={**self._head([]), **unended, "usage": usage})

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """A text's growth; or a whole call."""
        _, parts = self.prepared.take(drawn)
        for part in parts:
            yield from self._part(part)

    def closing(self) -> Iterator[bytes]:
        """Why it ended, and the token counts."""
        yield from self._closed()
        usage = {"output_tokens": self.prepared.num_drawn}
        yield event("message_delta", delta=self._ending(), usage=usage)
        yield event("message_stop")

    def failed(self, error: TinsmithError) -> bytes:
        """The refusal."""
        return event("error", error=error_body(str(error), status_of(error))["error"])

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
    """One server-sent event, with its name."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n".encode()


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _tool_use(call: Call) -> Json:
    named = {"id": f"toolu_{call.id}", "name": call.name}
    return {"type": "tool_use", **named, "input": dict(call.arguments)}
