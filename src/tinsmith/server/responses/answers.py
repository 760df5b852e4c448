"""Answers of the Responses API: a response with its items, whole or as events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tinsmith.server.chat.delivery import Json
from tinsmith.server.chat.prepared import Prepared
from tinsmith.server.chat.reply import Call, Ending, Part
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import refusal
from tinsmith.server.responses.requests import ResponseRequest
from tinsmith.server.wire.client_names import RESPONSE, as_sent
from tinsmith.types.errors import TinsmithError


@dataclass(slots=True)
class ResponseAnswer:
    """Response in progress."""

    body: ResponseRequest
    prepared: Prepared
    secret: str = field(default_factory=lambda: secrets.token_hex(24))
    created: int = field(default_factory=lambda: int(time.time()))
    events: int = 0
    """Number of events sent so far."""
    ended: list[Json] = field(default_factory=list[Json])
    """Number of completed items."""
    text: str | None = None
    """Text of a message that may continue."""

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens to an answer that is sent whole."""
        self.prepared.take(drawn)

    def whole(self) -> Json:
        """Return the complete response."""
        parts = self.prepared.replies[0].parts
        output: list[Json] = []
        for i, part in enumerate(parts):
            cut = i + 1 == len(parts) and self._cut
            output.append(self._item(i, part, cut=cut))
        return self._response(output, self._status)

    def opening(self) -> Iterator[bytes]:
        """Yield the events before any token: the response without its items."""
        for kind in ("created", "in_progress"):
            yield self._event(kind, response=self._response([], "in_progress"))

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Yield the events for drawn tokens: new text, or a complete call."""
        _, parts = self.prepared.take(drawn)
        for part in parts:
            yield from self._part(part)

    def closing(self) -> Iterator[bytes]:
        """Yield the end of the last message, and the complete response."""
        yield from self._closed(cut=self._cut)
        yield self._event(self._status, response=self._response(self.ended, self._status))

    def failed(self, error: TinsmithError) -> bytes:
        """Return the event of a failed response."""
        body, status = refusal(error, RESPONSE)
        code = "server_error" if status >= 500 else "invalid_prompt"
        failure = {"code": code, "message": str(as_sent(error, RESPONSE)), "detail": body["error"]}
        return self._event("failed", response={**self._response(self.ended, "failed"), "error": failure})

    @property
    def _cut(self) -> bool:
        return self.prepared.replies[0].ending is Ending.LENGTH

    @property
    def _status(self) -> str:
        return "incomplete" if self._cut else "completed"

    def _part(self, part: Part) -> Iterator[bytes]:
        place = {"output_index": len(self.ended)}
        if isinstance(part, str):
            if self.text is None:
                begun = {**self._item(len(self.ended), ""), "status": "in_progress", "content": []}
                yield self._event("output_item.added", **place, item=begun)
                yield self._event("content_part.added", **self._within(), part=_text(""))
                self.text = ""
            self.text += part
            yield self._event("output_text.delta", **self._within(), delta=part, logprobs=[])
            return
        yield from self._closed(cut=False)
        place = {"output_index": len(self.ended)}
        item = self._item(len(self.ended), part)
        within = {**place, "item_id": item["id"]}
        begun = {**item, "status": "in_progress", "arguments": ""}
        yield self._event("output_item.added", **place, item=begun)
        yield self._event("function_call_arguments.delta", **within, delta=part.text)
        call = {"name": part.name, "arguments": part.text}
        yield self._event("function_call_arguments.done", **within, **call)
        yield self._event("output_item.done", **place, item=item)
        self.ended.append(item)

    def _closed(self, *, cut: bool) -> Iterator[bytes]:
        """Yield the end of an open message."""
        if self.text is None:
            return
        within, item = self._within(), self._item(len(self.ended), self.text, cut=cut)
        yield self._event("output_text.done", **within, text=self.text, logprobs=[])
        yield self._event("content_part.done", **within, part=_text(self.text))
        yield self._event("output_item.done", output_index=len(self.ended), item=item)
        self.ended.append(item)
        self.text = None

    def _within(self) -> Json:
        """Return the place of the open message."""
        index = len(self.ended)
        return {"output_index": index, "item_id": f"msg_{self.secret}{index}", "content_index": 0}

    def _item(self, index: int, part: Part, *, cut: bool = False) -> Json:
        status = "incomplete" if cut else "completed"
        if isinstance(part, Call):
            return {
                "type": "function_call",
                "id": f"fc_{self.secret}{index}",
                "call_id": f"call_{part.id}",
                "name": part.name,
                "arguments": part.text,
                "status": "completed",
            }
        return {
            "type": "message",
            "id": f"msg_{self.secret}{index}",
            "role": "assistant",
            "status": status,
            "content": [_text(part)],
        }

    def _response(self, output: list[Json], status: str) -> Json:
        request = self.body.model_dump(mode="json", by_alias=True)
        over = status != "in_progress"
        return {
            "id": f"resp_{self.secret}",
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if self._cut and over else None,
            "instructions": self.body.instructions,
            "max_output_tokens": self.body.max_output_tokens,
            "metadata": self.body.metadata or {},
            "model": self.body.model,
            "output": list(output),
            "parallel_tool_calls": self.body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "temperature": self.prepared.sample.sampling_params.temperature,
            "text": request["text"] or {"format": {"type": "text"}},
            "tool_choice": request["tool_choice"] or "auto",
            "tools": request["tools"] or [],
            "top_p": self.prepared.sample.sampling_params.top_p,
            "truncation": "disabled",
            "usage": self._usage() if over else None,
        }

    def _usage(self) -> Json:
        given, drawn = len(self.prepared.prompt), self.prepared.num_drawn
        return {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": drawn,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + drawn,
        }

    def _event(self, kind: str, **values: object) -> bytes:
        name = f"response.{kind}"
        event = {"type": name, "sequence_number": self.events, **values}
        self.events += 1
        return f"event: {name}\ndata: {json.dumps(event)}\n\n".encode()


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
