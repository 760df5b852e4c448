"""Anthropic's /v1/messages and /v1/messages/count_tokens over any served base model or checkpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tinsmith.server.anthropic.answers import MessageAnswer
from tinsmith.server.anthropic.errors import refused
from tinsmith.server.anthropic.requests import CountRequest, MessageRequest
from tinsmith.server.chat.ask import Ask
from tinsmith.server.chat.prepared import Chats
from tinsmith.server.openai.answers import ModelNotFoundError
from tinsmith.server.wire.body import parse_json
from tinsmith.types.errors import TinsmithError

Handler = Callable[[Request], Awaitable[Response]]


def add_message_routes(app: FastAPI, chats: Chats) -> None:
    """Serve /v1/messages and /v1/messages/count_tokens."""
    turns = chats.served.service.turns

    async def message(request: Request) -> Response:
        def parse(sent: bytes) -> tuple[MessageRequest, Ask]:
            body = parse_json(MessageRequest, sent)
            return body, body.ask()

        body, ask = await turns.read(request, parse)
        prepared = await chats.prepare(ask)
        growing = MessageAnswer(prepared)
        return await chats.answer(request, prepared, growing, stream=bool(body.stream))

    async def count(request: Request) -> Response:
        ask = await turns.read(request, lambda sent: parse_json(CountRequest, sent).ask())
        prepared = await chats.prepare(ask)
        return JSONResponse({"input_tokens": len(prepared.prompt)})

    app.post("/v1/messages")(_answering(message))
    app.post("/v1/messages/count_tokens")(_answering(count))


def _answering(handler: Handler) -> Handler:
    """Answer errors in Anthropic's format."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (TinsmithError, ModelNotFoundError) as error:
            return refused(error)

    return answer
