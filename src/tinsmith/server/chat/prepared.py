"""A chat that is ready to be sampled: its prompt, how tokens are drawn, and its replies as they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from tinsmith.renderers.conversation import ConversationRenderer
from tinsmith.server.chat.ask import Ask
from tinsmith.server.chat.call_grammar import constrain
from tinsmith.server.chat.reply import Part, Reply
from tinsmith.server.chat.telling import Draws, Telling, events, whole
from tinsmith.server.direct import Direct, Found
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import Progress, QueueFullError
from tinsmith.server.openai.text import Choice, Grown, ModelText
from tinsmith.server.requests import Sample
from tinsmith.server.service import Service
from tinsmith.server.settings import Prompt, PromptChunk, SamplingSettings
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import StopReason

THINKING = "enable_thinking"
"""The variable by which chat templates are told whether the model thinks before it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One chat, and every choice so far."""

    ask: Ask
    found: Found
    text: ModelText
    sample: Sample
    """The request as the Tinker protocol would put it."""
    stop_tokens: tuple[int, ...]
    """What ends a turn, beside the model's own end tokens."""
    ends: frozenset[int]
    """All tokens that end a reply."""
    choices: tuple[Progress, ...]
    replies: tuple[Reply, ...]

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt's tokens."""
        return self.sample.prompt.chunks[0].tokens

    @property
    def num_drawn(self) -> int:
        """Tokens drawn so far, those that ended a reply included."""
        return sum(len(progress.drawn) for progress in self.choices)

    def take(self, drawn: Drawn) -> tuple[Grown, Sequence[Part]]:
        """Take what was drawn; return what is certain by now, as text with its tokens and as a reply's parts."""
        grown = self.choices[drawn.index].add(drawn)
        return grown, self.replies[drawn.index].add(grown.text, drawn.stop_reason)

    def stop_text(self, index: int) -> str | None:
        """The stop text that ended a reply; None if it ended otherwise."""
        progress = self.choices[index]
        if progress.reason is not StopReason.STOP or progress.drawn[-1] in self.ends:
            return None
        text = self.text.codec.decode(progress.drawn)
        places = {stop: text.find(stop) for stop in self.ask.stops}
        found = [stop for stop, at in places.items() if at >= 0]
        return min(found, key=places.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class Chats:
    """Prepares chats and has them answered, for whichever protocol asks. Called on the event loop."""

    service: Service
    direct: Direct
    find: Callable[[str], Awaitable[Found]]
    """What a model's name stands for."""
    text: Callable[[str], Awaitable[ModelText]]
    """A served base model's tokenizer."""

    async def prepare(self, ask: Ask) -> Prepared:
        """Return the chat with its prompt.

        Raises:
            ModelNotFoundError: there is no such model.
            TinsmithError: the request cannot be served; it names the field.
        """
        found = await self.find(ask.model)
        text = await self.text(found.name)
        renderer = await asyncio.to_thread(lambda: text.conversation)
        tools = ask.tools
        style = renderer.require_tools() if tools.shown else None
        prompt = await asyncio.to_thread(
            lambda: renderer.prompt(
                ask.turns, tools=tools.shown, opening=ask.opening, options=_options(ask, renderer)
            )
        )
        end_tokens = self.service.engine.config(found.name).end_tokens
        stop_tokens = tuple(token for token in renderer.stop_tokens if token not in end_tokens)
        sample = _sample(ask, prompt, constrain(ask.sampling, tools, style, renderer.control))
        self.direct.check(found, sample)
        ends = frozenset((*end_tokens, *stop_tokens))
        mark = sha256_of(list(prompt))
        return Prepared(
            ask=ask,
            found=found,
            text=text,
            sample=sample,
            stop_tokens=stop_tokens,
            ends=ends,
            choices=tuple(
                Progress(Choice(text, stops=ask.stops, ends=ends)) for _ in range(ask.num_samples)
            ),
            replies=tuple(Reply(style, prompt=mark, index=i) for i in range(ask.num_samples)),
        )

    def draws(self, prepared: Prepared, *, watch: bool) -> Draws:
        """Sample, and tell what is drawn: on the way with `watch`, else at the end.

        Raises:
            QueueFullError: not now.
        """
        if self.service.full:
            raise QueueFullError(self.service.max_queue)
        return self.direct.draw(
            prepared.found,
            (prepared.sample,),
            stop_tokens=prepared.stop_tokens,
            watch=watch,
        )

    async def answer(
        self, request: Request, prepared: Prepared, telling: Telling, *, stream: bool
    ) -> Response:
        """Answer in a protocol's words, at once or as a stream.

        Raises:
            QueueFullError: not now.
            TinsmithError: the request cannot be served after all.
        """
        draws = self.draws(prepared, watch=stream)
        if stream:
            told = events(request, telling, draws)
            return StreamingResponse(told, media_type="text/event-stream")
        return await whole(request, telling, draws)


def _options(ask: Ask, renderer: ConversationRenderer) -> Mapping[str, object]:
    told = ask.thinks is not None and renderer.mentions(THINKING)
    return {**ask.options, THINKING: ask.thinks} if told else ask.options


def _sample(ask: Ask, prompt: tuple[int, ...], sampling: SamplingSettings) -> Sample:
    return Sample(
        sampling_session_id="",
        seq_id=0,
        prompt=Prompt(chunks=(PromptChunk(tokens=prompt),)),
        sampling_params=sampling,
        num_samples=ask.num_samples,
        topk_sample_logprobs=ask.top_logprobs,
    )
