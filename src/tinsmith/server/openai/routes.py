"""OpenAI's chat, completions and models over any served base model or checkpoint, streaming included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tinsmith.models.published.packaged import PREFIX
from tinsmith.renderers.tokenizer import PRESET_VOCAB_SIZES, load_tokenizer, preset_tokenizer
from tinsmith.server.body import parse_json
from tinsmith.server.direct import Direct, Found
from tinsmith.server.openai.answers import ModelNotFoundError, error_answer, error_body, model_entry
from tinsmith.server.openai.requests import NUM_TOKENS, ChatRequest, CompletionRequest
from tinsmith.server.openai.stream import Answer, events, whole
from tinsmith.server.openai.text import ModelText
from tinsmith.server.requests import Sample
from tinsmith.server.service import Service
from tinsmith.server.settings import Prompt, PromptChunk
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import InputError, TinsmithError

Handler = Callable[[Request], Awaitable[Response]]


def add_openai_routes(app: FastAPI, service: Service) -> None:
    """Serve /v1/chat/completions, /v1/completions and /v1/models."""
    routes = _Routes(service, Direct(service))
    app.post("/v1/chat/completions")(_answering(routes.chat))
    app.post("/v1/completions")(_answering(routes.complete))
    app.get("/v1/models")(_answering(routes.models))
    app.get("/v1/models/{model:path}")(_answering(routes.model))


def _answering(handler: Handler) -> Handler:
    """Refuse in OpenAI's shape."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (TinsmithError, ModelNotFoundError) as error:
            return error_answer(error)

    return answer


@dataclass(slots=True)
class _Routes:
    """The endpoints, and the tokenizers they have loaded, by base model."""

    service: Service
    direct: Direct
    texts: dict[str, ModelText] = field(default_factory=dict[str, ModelText])
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def chat(self, request: Request) -> Response:
        body = parse_json(ChatRequest, await request.body())
        messages = [message.message(i) for i, message in enumerate(body.messages)]
        found = await self._find(body.model)
        text = await self._text(found.name)
        renderer = await asyncio.to_thread(lambda: text.chat)
        prompt = await asyncio.to_thread(renderer.build_generation_prompt, messages)
        ends = self.service.engine.config(found.name).end_tokens
        stops = tuple(token for token in renderer.stop_sequences() if token not in ends)
        samples = (_sample(body, prompt, body.length, body.top_logprobs or 0),)
        return await self._answer(request, body, found, samples, stops)

    async def complete(self, request: Request) -> Response:
        body = parse_json(CompletionRequest, await request.body())
        asked = body.prompts
        found = await self._find(body.model)
        text = await self._text(found.name)
        prompts = await asyncio.to_thread(
            lambda: [text.prompt(each) if isinstance(each, str) else each for each in asked]
        )
        length = NUM_TOKENS if body.max_tokens is None else body.max_tokens
        samples = tuple(_sample(body, prompt, length, body.logprobs or 0) for prompt in prompts)
        return await self._answer(request, body, found, samples, ())

    async def models(self, request: Request) -> Response:
        del request
        entries = [model_entry(model, at) for model, at in self._names().items()]
        return JSONResponse({"object": "list", "data": entries})

    async def model(self, request: Request) -> Response:
        name = str(request.path_params["model"])
        names = self._names()
        if name not in names:
            raise self._unknown(InputError("there is no such model", field="model", value=name))
        return JSONResponse(model_entry(name, names[name]))

    async def _answer(
        self,
        request: Request,
        body: ChatRequest | CompletionRequest,
        found: Found,
        samples: tuple[Sample, ...],
        stop_tokens: tuple[int, ...],
    ) -> Response:
        """Sample from every prompt, and answer at once or as a stream."""
        for sample in samples:
            await self.direct.prepare(found, sample)
            self.direct.check(found, sample)
        if self.service.full:
            message = f"the queue holds {self.service.max_queue} requests: try again"
            kind, code = "rate_limit_error", "rate_limit_exceeded"
            return JSONResponse(error_body(message, kind=kind, param=None, code=code), 429)
        text = await self._text(found.name)
        ends = frozenset((*self.service.engine.config(found.name).end_tokens, *stop_tokens))
        answer = Answer(
            body=body,
            found=found,
            text=text,
            num_prompt=sum(len(s.prompt.chunks[0].tokens) for s in samples),
            choices=tuple(
                Answer.progress(text, body.stops, ends)
                for _ in range(len(samples) * body.num_samples)
            ),
        )
        draws = self.direct.draw(found, samples, stop_tokens=stop_tokens, watch=bool(body.stream))
        if body.stream:
            chunks = events(request, answer, draws)
            return StreamingResponse(chunks, media_type="text/event-stream")
        return await whole(request, answer, draws)

    async def _find(self, model: str) -> Found:
        try:
            return await self.direct.find(model)
        except TinsmithError as error:
            raise self._unknown(error) from None

    def _unknown(self, error: TinsmithError) -> ModelNotFoundError:
        served = ", ".join(self.service.engine.names)
        return ModelNotFoundError(
            f"{error}\n  served: {served}; and tinker:// paths of its checkpoints"
        )

    def _names(self) -> Mapping[str, float]:
        """Everything that can be asked for, and when it was made: base models with every suffix, and checkpoints."""
        names = {
            name if kind is AdapterKind.LORA else f"{name}:{kind}": 0.0
            for name in self.service.engine.names
            for kind in AdapterKind
        }
        return names | {str(c.path): c.created_at for c in self.service.store.checkpoints()}

    async def _text(self, name: str) -> ModelText:
        # One after another: two threads that import transformers at once find half of it.
        async with self.loading:
            return await self._loaded(name)

    async def _loaded(self, name: str) -> ModelText:
        if name not in self.texts:
            engine = self.service.engine
            folder, source = engine.folder(name), engine.base(name).name

            def load() -> ModelText:
                if folder is not None:
                    return ModelText(load_tokenizer(folder))
                preset = source.removeprefix(PREFIX)
                if preset in PRESET_VOCAB_SIZES:
                    return ModelText(preset_tokenizer(preset))
                raise InputError(
                    "this model has no tokenizer, so text cannot be read or written",
                    field="model",
                    value=name,
                    fix="put a tokenizer into the model's folder, or use the Tinker API",
                )

            self.texts[name] = await asyncio.to_thread(load)
        return self.texts[name]


def _sample(
    body: ChatRequest | CompletionRequest, prompt: tuple[int, ...], max_tokens: int | None, top: int
) -> Sample:
    """The request as the Tinker protocol would put it."""
    return Sample(
        sampling_session_id="",
        seq_id=0,
        prompt=Prompt(chunks=(PromptChunk(tokens=prompt),)),
        sampling_params=body.settings(max_tokens),
        num_samples=body.num_samples,
        topk_sample_logprobs=top,
    )
