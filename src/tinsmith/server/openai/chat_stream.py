"""OpenAI chat answer in progress: a message for each choice, with its text and tool calls."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tinsmith.server.chat.prepared import Prepared
from tinsmith.server.chat.reply import Call, Ending, Part
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import Json, Progress, chat_logprobs, prompt_logprobs, refusal, usage
from tinsmith.server.openai.requests import ChatRequest
from tinsmith.server.openai.stream import DONE, event
from tinsmith.server.openai.text import Grown
from tinsmith.types.errors import TinsmithError

_REASONS: Mapping[Ending, str] = MappingProxyType(
    {Ending.STOP: "stop", Ending.LENGTH: "length", Ending.CALLS: "tool_calls"}
)


@dataclass(slots=True, kw_only=True)
class ChatAnswer:
    """Chat request with all its choices so far."""

    body: ChatRequest
    prepared: Prepared
    secret: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens to an answer that is sent whole."""
        self.prepared.take(drawn)

    def whole(self) -> Json:
        """Return the complete answer."""
        shown = [self._ended(i) for i in range(len(self.prepared.choices))]
        answer = {**self._head("chat.completion"), "choices": shown, "usage": self._usage()}
        return answer | self._prompt_ids() | self._prompt_logprobs()

    def opening(self) -> Iterator[bytes]:
        """Yield the first chunks: the role, and the prompt's ids if requested."""
        for i in range(len(self.prepared.choices)):
            chunk = self._chunk(i, {"role": "assistant", "content": ""})
            yield event(chunk | (self._prompt_ids() if i == 0 else {}))

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Yield the chunks for drawn tokens; a call's tokens are sent as they come, before the call is complete."""
        grown, parts = self.prepared.take(drawn)
        progress = self.prepared.choices[drawn.index]
        deltas: list[Json] = [delta for part in parts for delta in _deltas(part)]
        tells = bool(self.body.logprobs or self.body.return_token_ids)
        if not deltas and tells and grown.tokens.start < grown.tokens.stop:
            deltas = [{"content": ""}]
        tokens: slice | None = grown.tokens
        for delta in deltas:
            yield event(self._chunk(drawn.index, delta, tokens=tokens))
            tokens = None
        if progress.reason is not None:
            yield event(self._chunk(drawn.index, {}, ended=True))

    def closing(self) -> Iterator[bytes]:
        """Yield the token counts, if requested, and the end."""
        if self.body.include_usage:
            head = self._head("chat.completion.chunk")
            yield event({**head, "choices": [], "usage": self._usage()})
        yield DONE

    def failed(self, error: TinsmithError) -> bytes:
        """Return the error event."""
        return event(refusal(error)[0])

    def _ended(self, index: int) -> Json:
        reply, progress = self.prepared.replies[index], self.prepared.choices[index]
        grown = progress.grown or Grown("", slice(0, 0))
        message: Json = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.calls:
            message["content"] = reply.text or None
            message["tool_calls"] = [_call(call) for call in reply.calls]
        ids: Json = {"token_ids": progress.drawn} if self.body.return_token_ids else {}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(progress, grown.tokens),
            "finish_reason": self._reason(index),
            **ids,
        }

    def _logprobs(self, progress: Progress, tokens: slice) -> Json | None:
        if not self.body.logprobs:
            return None
        k, as_ids = self.body.top_logprobs or 0, bool(self.body.return_tokens_as_token_ids)
        return chat_logprobs(self.prepared.text, progress, tokens, k, as_ids=as_ids)

    def _prompt_ids(self) -> Json:
        """Return the prompt's ids if requested: vLLM sends them once per chat."""
        return {"prompt_token_ids": self.prepared.prompt} if self.body.return_token_ids else {}

    def _prompt_logprobs(self) -> Json:
        k, scored = self.body.prompt_logprobs, self.prepared.choices[0].scored
        if k is None:
            return {}
        assert scored is not None, "asked for with prompt_logprobs"
        entries = prompt_logprobs(self.prepared.text, self.prepared.prompt, scored, k)
        return {"prompt_logprobs": entries}

    def _reason(self, index: int) -> str | None:
        ending = self.prepared.replies[index].ending
        return None if ending is None else _REASONS[ending]

    def _chunk(self, index: int, delta: Json, *, tokens: slice | None = None, ended: bool = False) -> Json:
        progress = self.prepared.choices[index]
        shown: Json = {
            "index": index,
            "delta": delta,
            "logprobs": None if tokens is None else self._logprobs(progress, tokens),
            "finish_reason": self._reason(index) if ended else None,
        }
        if tokens is not None and self.body.return_token_ids:
            shown["token_ids"] = progress.tokens[tokens]
        counts: Json = {"usage": None} if self.body.include_usage else {}
        return {**self._head("chat.completion.chunk"), "choices": [shown], **counts}

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self.secret}",
            "object": kind,
            "created": self.created,
            "model": self.body.model,
            "system_fingerprint": f"fp_{self.prepared.found.loaded.weights[:16]}",
        }

    def _usage(self) -> Json:
        return usage(len(self.prepared.prompt), self.prepared.num_drawn)


def _call(call: Call) -> Json:
    function = {"name": call.name, "arguments": call.text}
    return {"id": f"call_{call.id}", "type": "function", "function": function}


def _deltas(part: Part) -> Iterator[Json]:
    """Return the deltas of a text, or of a call: first its name, then its arguments."""
    if isinstance(part, str):
        yield {"content": part}
        return
    opened = {**_call(part), "function": {"name": part.name, "arguments": ""}}
    yield {"tool_calls": [{"index": part.index, **opened}]}
    arguments = {"index": part.index, "function": {"arguments": part.text}}
    yield {"tool_calls": [arguments]}
