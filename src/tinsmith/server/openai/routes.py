"""OpenAI's chat, completions and models over any served base model or checkpoint, and what vLLM has beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tinsmith.server.body import parse_json
from tinsmith.server.direct import Direct, Found
from tinsmith.server.openai.answers import (
    ModelNotFoundError,
    QueueFullError,
    error_answer,
    full_answer,
)
from tinsmith.server.openai.generate import GenerateRequest, TokensAnswer
from tinsmith.server.openai.generation import Sampling
from tinsmith.server.openai.grammars import told_as
from tinsmith.server.openai.requests import ChatRequest, CompletionRequest
from tinsmith.server.openai.samples import body_sample, to_sample
from tinsmith.server.openai.served import Served
from tinsmith.server.openai.stream import Answer, Telling, events, whole
from tinsmith.server.openai.tokenize import DetokenizeRequest, TokenizeRequest, tokenized
from tinsmith.server.requests import Sample
from tinsmith.server.service import Service
from tinsmith.types.errors import InputError, TinsmithError

Handler = Callable[[Request], Awaitable[Response]]


def add_openai_routes(app: FastAPI, service: Service) -> None:
    """Serve `/v1`, and of vLLM's own routes token-in token-out generation, `/tokenize` and `/detokenize`."""
    routes = _Routes(service, Served(service, Direct(service)))
    app.post("/v1/chat/completions")(_answering(routes.chat))
    app.post("/v1/completions")(_answering(routes.complete))
    app.get("/v1/models")(_answering(routes.models))
    app.get("/v1/models/{model:path}")(_answering(routes.model))
    app.post("/inference/v1/generate")(_answering(routes.generate))
    app.post("/tokenize")(_answering(routes.tokenize))
    app.post("/detokenize")(_answering(routes.detokenize))


def _answering(handler: Handler) -> Handler:
    """Refuse in OpenAI's shape."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (TinsmithError, ModelNotFoundError) as error:
            return error_answer(error)
        except QueueFullError as error:
            return full_answer(error)

    return answer


@dataclass(slots=True)
class _Routes:
    """The endpoints."""

    service: Service
    served: Served

    async def chat(self, request: Request) -> Response:
        body = parse_json(ChatRequest, await request.body())
        messages = [message.message(i) for i, message in enumerate(body.messages)]
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        renderer = await asyncio.to_thread(lambda: text.chat)
        prompt = await asyncio.to_thread(renderer.build_generation_prompt, messages)
        stops = () if body.ignore_eos else renderer.stop_sequences()
        return await self._answer(request, body, found, (prompt,), stops)

    async def complete(self, request: Request) -> Response:
        body = parse_json(CompletionRequest, await request.body())
        asked, begin = body.prompts, body.add_special_tokens is not False
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)

        def tokens(each: str | tuple[int, ...]) -> tuple[int, ...]:
            return text.prompt(each, begin=begin) if isinstance(each, str) else each

        prompts = await asyncio.to_thread(lambda: [tokens(each) for each in asked])
        return await self._answer(request, body, found, prompts)

    async def generate(self, request: Request) -> Response:
        body = parse_json(GenerateRequest, await request.body())
        found = await self.served.find(body.model)
        given = body.sampling_params
        sample = to_sample(
            given,
            tuple(body.token_ids),
            length=given.max_tokens,
            num_samples=given.num_samples,
            top=given.logprobs or 0,
            only_prompt=given.only_prompt,
        )
        await self._check(found, (sample,), given)
        stops = self._extra(found, given.stop_token_ids or ())
        answer = TokensAnswer.of(body, found)
        return await self._draw(request, answer, found, (sample,), stops, stream=bool(body.stream))

    async def tokenize(self, request: Request) -> Response:
        body = parse_json(TokenizeRequest, await request.body())
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        length = self.service.engine.config(found.name).max_positions
        return JSONResponse(await asyncio.to_thread(tokenized, body, text, length))

    async def detokenize(self, request: Request) -> Response:
        body = parse_json(DetokenizeRequest, await request.body())
        found = await self.served.find(body.model)
        text = await self.served.text(found.name)
        size = self.service.engine.config(found.name).vocab_size
        return JSONResponse({"prompt": await asyncio.to_thread(body.text, text, size)})

    async def models(self, request: Request) -> Response:
        del request
        return JSONResponse({"object": "list", "data": [*self.served.entries().values()]})

    async def model(self, request: Request) -> Response:
        name = str(request.path_params["model"])
        entries = self.served.entries()
        if name not in entries:
            missing = InputError("there is no such model", field="model", value=name)
            raise self.served.unknown(missing)
        return JSONResponse(entries[name])

    async def _answer(
        self,
        request: Request,
        body: ChatRequest | CompletionRequest,
        found: Found,
        prompts: Iterable[tuple[int, ...]],
        stops: tuple[int, ...] = (),
    ) -> Response:
        """Sample from every prompt, and answer at once or as a stream."""
        samples = tuple(body_sample(body, prompt) for prompt in prompts)
        extra = self._extra(found, (*stops, *(body.stop_token_ids or ())))
        await self._check(found, samples, body)
        text = await self.served.text(found.name)
        told = tuple(sample.prompt.chunks[0].tokens for sample in samples)
        ends = frozenset((*self.service.engine.config(found.name).end_tokens, *extra))
        answer = await asyncio.to_thread(Answer.of, body, found, text, told, ends)
        return await self._draw(request, answer, found, samples, extra, stream=bool(body.stream))

    def _extra(self, found: Found, stops: Iterable[int]) -> tuple[int, ...]:
        """Those of `stops` at which the model does not stop anyway."""
        ends = self.service.engine.config(found.name).end_tokens
        return tuple(dict.fromkeys(token for token in stops if token not in ends))

    async def _check(self, found: Found, samples: Iterable[Sample], given: Sampling) -> None:
        """Refuse what cannot be served, before anything is drawn."""
        check, grammar = self.served.direct.check, given.grammar()
        for sample in samples:
            if grammar is None:
                check(found, sample)
                continue
            # A grammar takes its time to compile; and the first one loads a tokenizer.
            async with self.served.loading:
                try:
                    await asyncio.to_thread(check, found, sample)
                except InputError as error:
                    raise told_as(error, grammar[0]) from error

    async def _draw(
        self,
        request: Request,
        answer: Telling,
        found: Found,
        samples: tuple[Sample, ...],
        stops: tuple[int, ...],
        *,
        stream: bool,
    ) -> Response:
        if self.service.full:
            raise QueueFullError(self.service.max_queue)
        draws = self.served.direct.draw(found, samples, stop_tokens=stops, watch=stream)
        if stream:
            chunks = events(request, answer, draws)
            return StreamingResponse(chunks, media_type="text/event-stream")
        return await whole(request, answer, draws)
