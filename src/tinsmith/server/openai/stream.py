"""One OpenAI answer as it comes into being: told whole at the end, or piece by piece as server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from tinsmith.server.direct import Found
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import (
    Json,
    Progress,
    chat_logprobs,
    completion_logprobs,
    finish_reason,
    refusal,
    usage,
)
from tinsmith.server.openai.requests import ChatRequest, CompletionRequest
from tinsmith.server.openai.text import Choice, Grown, ModelText
from tinsmith.types.errors import TinsmithError
from tinsmith.types.sampling import StopReason

DONE = b"data: [DONE]\n\n"

Draws = AsyncGenerator[tuple[Drawn, ...], None]


@dataclass(slots=True, kw_only=True)
class Answer:
    """What was asked, and every choice so far."""

    body: ChatRequest | CompletionRequest
    found: Found
    text: ModelText
    num_prompt: int
    """Tokens of all prompts."""
    choices: tuple[Progress, ...]
    secret: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    @staticmethod
    def progress(text: ModelText, stops: tuple[str, ...], ends: frozenset[int]) -> Progress:
        """A choice that is yet to begin."""
        return Progress(Choice(text, stops=stops, ends=ends))

    def whole(self) -> Json:
        """The answer, once every choice has ended."""
        shown = [self._ended(i, progress) for i, progress in enumerate(self.choices)]
        return {**self._head("chat.completion"), "choices": shown, "usage": self._usage()}

    def opening(self) -> Iterator[Json]:
        """A chat's first chunks: who speaks."""
        if isinstance(self.body, ChatRequest):
            for i in range(len(self.choices)):
                yield self._chunk(i, {"role": "assistant", "content": ""}, None, None)

    def grown(self, drawn: Drawn) -> Iterator[Json]:
        """The chunks that tell what was drawn."""
        progress = self.choices[drawn.index]
        grown = progress.add(drawn)
        if grown.text or grown.tokens.start < grown.tokens.stop:
            logprobs = self._logprobs(progress, grown.tokens)
            yield self._chunk(drawn.index, {"content": grown.text}, logprobs, None)
        if drawn.stop_reason is not None:
            yield self._chunk(drawn.index, {}, None, drawn.stop_reason)

    def closing(self) -> Iterator[Json]:
        """The token counts, where they were asked for."""
        if self.body.include_usage:
            head = self._head("chat.completion.chunk")
            yield {**head, "choices": [], "usage": self._usage()}

    def _ended(self, index: int, progress: Progress) -> Json:
        grown = progress.grown or Grown("", slice(0, 0))
        shown: Json = {
            "index": index,
            "logprobs": self._logprobs(progress, grown.tokens),
            "finish_reason": finish_reason(progress.reason),
        }
        if isinstance(self.body, ChatRequest):
            message = {"role": "assistant", "content": grown.text, "refusal": None}
            return {**shown, "message": message}
        return {**shown, "text": grown.text}

    def _logprobs(self, progress: Progress, tokens: slice) -> Json | None:
        if isinstance(self.body, ChatRequest):
            if not self.body.logprobs:
                return None
            return chat_logprobs(self.text, progress, tokens, self.body.top_logprobs or 0)
        if self.body.logprobs is None:
            return None
        return completion_logprobs(self.text, progress, tokens, self.body.logprobs)

    def _chunk(
        self, index: int, delta: Json, logprobs: Json | None, reason: StopReason | None
    ) -> Json:
        shown: Json = {
            "index": index,
            "logprobs": logprobs,
            "finish_reason": finish_reason(reason),
        }
        if isinstance(self.body, ChatRequest):
            shown["delta"] = delta
        else:
            shown["text"] = delta.get("content", "")
        counts: Json = {"usage": None} if self.body.include_usage else {}
        return {**self._head("chat.completion.chunk"), "choices": [shown], **counts}

    def _head(self, kind: str) -> Json:
        chat = isinstance(self.body, ChatRequest)
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.secret}",
            "object": kind if chat else "text_completion",
            "created": self.created,
            "model": self.body.model,
            "system_fingerprint": f"fp_{self.found.loaded.weights[:16]}",
        }

    def _usage(self) -> Json:
        return usage(self.num_prompt, sum(len(progress.drawn) for progress in self.choices))


async def whole(request: Request, answer: Answer, draws: Draws) -> Response:
    """Answer at once; what is under way is dropped when the client is gone."""
    async with aclosing(draws):
        async for batch in draws:
            for drawn in batch:
                answer.choices[drawn.index].add(drawn)
            if not batch and await request.is_disconnected():
                return Response(status_code=499)
    return JSONResponse(answer.whole())


async def events(request: Request, answer: Answer, draws: Draws) -> AsyncGenerator[bytes, None]:
    """Answer as a stream; an error after its beginning is an event of its own."""
    async with aclosing(draws):
        try:
            for chunk in answer.opening():
                yield _event(chunk)
            async for batch in draws:
                for drawn in batch:
                    for chunk in answer.grown(drawn):
                        yield _event(chunk)
                if not batch and await request.is_disconnected():
                    return
        except TinsmithError as error:
            yield _event(refusal(error)[0])
            return
    for chunk in answer.closing():
        yield _event(chunk)
    yield DONE


def _event(values: Json) -> bytes:
    return b"data: " + json.dumps(values).encode() + b"\n\n"
