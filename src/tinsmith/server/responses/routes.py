"""OpenAI's /v1/responses over any served base model or checkpoint; without storage between requests."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from tinsmith.server.chat.ask import Ask
from tinsmith.server.chat.prepared import Chats
from tinsmith.server.openai.answers import answering
from tinsmith.server.responses.answers import ResponseAnswer
from tinsmith.server.responses.requests import ResponseRequest
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.client_names import RESPONSE


def add_response_routes(app: FastAPI, chats: Chats) -> None:
    """Serve /v1/responses."""
    turns = chats.served.service.turns

    async def respond(request: Request) -> Response:
        def parse(sent: bytes) -> tuple[ResponseRequest, Ask]:
            body = parse_json(ResponseRequest, sent)
            return body, body.ask()

        body, ask = await turns.read(request, parse)
        prepared = await chats.prepare(ask)
        growing = ResponseAnswer(body, prepared)
        return await chats.answer(request, prepared, growing, stream=bool(body.stream))

    app.post("/v1/responses")(answering(respond, RESPONSE))
