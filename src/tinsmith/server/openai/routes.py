"""OpenAI's chat, completions and models over any served base model or checkpoint, and vLLM's neighbouring routes."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from tinsmith.server.access.caller import count_call
from tinsmith.server.access.turns import Turns
from tinsmith.server.anthropic.routes import add_message_routes
from tinsmith.server.chat.ask import Ask
from tinsmith.server.chat.delivery import GrowingAnswer, send
from tinsmith.server.chat.prepared import Chats
from tinsmith.server.direct import Direct, Found, Requests
from tinsmith.server.openai.answers import answering
from tinsmith.server.openai.chat_stream import ChatAnswer
from tinsmith.server.openai.generate import GenerateRequest, TokensAnswer
from tinsmith.server.openai.requests import ChatRequest, CompletionRequest
from tinsmith.server.openai.samples import body_samples, chat_ask, to_sample
from tinsmith.server.openai.served import Served
from tinsmith.server.openai.stream import Answer
from tinsmith.server.openai.tokenize import DetokenizeRequest, TokenizeRequest, tokenized
from tinsmith.server.responses.routes import add_response_routes
from tinsmith.server.service import Service
from tinsmith.server.wire.body import R, parse_json
from tinsmith.server.wire.client_names import COMPLETION, TOKENS
from tinsmith.types.errors import InputError

_TOKENIZING, _CHOICE = 8, 256
"""Cost of a character to tokenize, and of a choice before anything is drawn, in units of bytes read."""


def add_openai_routes(app: FastAPI, service: Service) -> None:
    """Serve `/v1`, and vLLM's token generation, `/tokenize` and `/detokenize`."""
    served = Served(service, Direct(service))
    routes = _Routes(service, served)
    add_message_routes(app, Chats(served))
    add_response_routes(app, Chats(served))
    app.post("/v1/chat/completions")(answering(routes.chat))
    app.post("/v1/completions")(answering(routes.complete, COMPLETION))
    app.get("/v1/models")(answering(routes.models))
    app.get("/v1/models/{model:path}")(answering(routes.model))
    app.post("/inference/v1/generate")(answering(routes.generate, TOKENS))
    app.post("/tokenize")(answering(routes.tokenize, COMPLETION))
    app.post("/detokenize")(answering(routes.detokenize, COMPLETION))


@dataclass(slots=True)
class _Routes:
    """Handlers of the endpoints."""

    service: Service
    served: Served

    @property
    def _turns(self) -> Turns:
        return self.service.turns

    async def _read(self, request: Request, model: type[R]) -> R:
        return await self._turns.read(request, lambda sent: parse_json(model, sent))

    async def chat(self, request: Request) -> Response:
        def parse(sent: bytes) -> tuple[ChatRequest, Ask]:
            body = parse_json(ChatRequest, sent)
            return body, chat_ask(body)

        body, ask = await self._turns.read(request, parse)
        chats = Chats(self.served)
        prepared = await chats.prepare(ask)
        answer = ChatAnswer(body=body, prepared=prepared)
        return await chats.answer(request, prepared, answer, stream=bool(body.stream))

    async def complete(self, request: Request) -> Response:
        def parse(sent: bytes) -> tuple[CompletionRequest, tuple[str | tuple[int, ...], ...]]:
            body = parse_json(CompletionRequest, sent)
            return body, body.prompts

        body, given_prompts = await self._turns.read(request, parse)
        begin = body.add_special_tokens is not False
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        for each in given_prompts:
            self.served.require_fit(found, text, len(each) if isinstance(each, str) else 0, field="prompt")

        def tokens() -> tuple[tuple[int, ...], ...]:
            return tuple(text.prompt(each, begin=begin) if isinstance(each, str) else each for each in given_prompts)

        prompts = await self._turns.run(tokens, size=_TOKENIZING * sum(256 + len(each) for each in given_prompts))
        return await self._answer(request, body, found, Requests(prompts, body_samples(body)))

    async def generate(self, request: Request) -> Response:
        body = await self._read(request, GenerateRequest)
        found = await self.served.find(body.model)
        given = body.sampling_params
        sample = to_sample(
            given,
            tuple(body.token_ids),
            settings=given.settings,
            length=given.max_tokens,
            num_samples=given.num_samples,
            top=given.logprobs or 0,
            only_prompt=given.only_prompt,
        )
        requests = Requests((sample.prompt.chunks[0].tokens,), lambda _: sample)
        await self.served.check(found, requests, named=given.grammar_name)
        stops = self.served.extra_stops(found, given.stop_token_ids or ())
        answer = TokensAnswer.of(body, found)
        return await self._draw(request, answer, found, requests, stops, stream=bool(body.stream))

    async def tokenize(self, request: Request) -> Response:
        body = await self._read(request, TokenizeRequest)
        count_call(self.service.futures.usage)
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        field = "prompt" if body.messages is None else "messages"
        self.served.require_fit(found, text, body.num_letters, field=field)
        length = self.service.engine.config(found.name).max_positions
        return await self.served.rendered(found.name, lambda: JSONResponse(tokenized(body, text, length)))

    async def detokenize(self, request: Request) -> Response:
        body = await self._read(request, DetokenizeRequest)
        count_call(self.service.futures.usage)
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        size = self.service.engine.config(found.name).vocab_size
        return await self._turns.run(lambda: JSONResponse({"prompt": body.text(text, size)}))

    async def models(self, request: Request) -> Response:
        del request
        return await self._turns.run(
            lambda: JSONResponse({"object": "list", "data": [*self.served.entries().values()]})
        )

    async def model(self, request: Request) -> Response:
        name = str(request.path_params["model"])
        entries = await self._turns.run(self.served.entries)
        if name not in entries:
            missing = InputError("there is no such model", field="model", value=name)
            raise self.served.unknown(missing)
        return JSONResponse(entries[name])

    async def _answer(self, request: Request, body: CompletionRequest, found: Found, requests: Requests) -> Response:
        """Sample from every prompt, and answer whole or as a stream."""
        extra = self.served.extra_stops(found, body.stop_token_ids or ())
        await self.served.check(found, requests, named=body.grammar_name)
        text = await self.served.text(found.name)
        prompts = requests.prompts
        ends = frozenset((*self.service.engine.config(found.name).end_tokens, *extra))
        answer = await self._turns.run(
            lambda: Answer.of(body, found, text, prompts, ends),
            size=_CHOICE * len(prompts) * body.num_drawn + 8 * sum(map(len, prompts)),
        )
        return await self._draw(request, answer, found, requests, extra, stream=bool(body.stream))

    async def _draw(
        self,
        request: Request,
        answer: GrowingAnswer,
        found: Found,
        requests: Requests,
        stops: tuple[int, ...],
        *,
        stream: bool,
    ) -> Response:
        draws = self.served.draws(found, requests, stops, watch=stream)
        return await send(request, answer, draws, self._turns, stream=stream)
