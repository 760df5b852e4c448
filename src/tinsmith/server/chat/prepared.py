"""Chat ready for sampling: its prompt, sampling settings, and replies as they grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from tinsmith.renderers.conversation import ConversationRenderer
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tool_calls import CLOSED, OPENED, CallStyle
from tinsmith.server.chat.ask import Ask
from tinsmith.server.chat.call_grammar import constrain, is_constrained
from tinsmith.server.chat.delivery import GrowingAnswer, send
from tinsmith.server.chat.reply import Part, Reply
from tinsmith.server.direct import Found, Requests
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import Progress
from tinsmith.server.openai.served import Served
from tinsmith.server.openai.text import Choice, Grown
from tinsmith.server.wire.requests import Sample
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import StopReason

THINKING = "enable_thinking"
"""Chat template variable that turns thinking on or off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Chat with all its choices so far."""

    ask: Ask
    found: Found
    text: ModelText
    sample: Sample
    """Request in the Tinker protocol's form."""
    stop_tokens: tuple[int, ...]
    """Tokens that end a reply, besides the model's own end tokens."""
    ends: frozenset[int]
    """All tokens that end a reply."""
    choices: tuple[Progress, ...]
    replies: tuple[Reply, ...]

    @property
    def prompt(self) -> tuple[int, ...]:
        """Tokens of the prompt."""
        return self.sample.prompt.chunks[0].tokens

    @property
    def num_drawn(self) -> int:
        """Number of tokens drawn so far, including end tokens."""
        return sum(progress.num_drawn for progress in self.choices)

    def take(self, drawn: Drawn) -> tuple[Grown, Sequence[Part]]:
        """Add drawn tokens; return the settled part, as text with its tokens and as parts of a reply."""
        progress = self.choices[drawn.index]
        grown = progress.add(drawn)
        return grown, self.replies[drawn.index].add(grown.text, progress.reason)

    def stop_text(self, index: int) -> str | None:
        """Return the stop text that ended a reply; None if it ended otherwise."""
        progress = self.choices[index]
        if progress.reason is not StopReason.STOP or progress.drawn[-1] in self.ends:
            return None
        text = self.text.codec.decode(progress.drawn, follows=True)
        places = {stop: text.find(stop) for stop in self.ask.stops}
        found = [stop for stop, at in places.items() if at >= 0]
        return min(found, key=places.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class Chats:
    """Preparation and answering of chats for all protocols. Called on the event loop."""

    served: Served

    async def prepare(self, ask: Ask) -> Prepared:
        """Return the chat with its prompt.

        Raises:
            ModelNotFoundError: there is no such model.
            TinsmithError: the request cannot be served; the message names the field.
        """
        turns = self.served.service.turns
        found = await self.served.find(ask.model)
        text = await self.served.text(found.name)
        await turns.run(lambda: self.served.require_fit(found, text, ask.num_letters, field=ask.turns_name))
        renderer, style, prompt = await self.served.rendered(found.name, lambda: _rendered(ask, text))
        plain = await turns.run(lambda: ask.sample(prompt), size=8 * len(prompt))
        sample = await self._constrained(ask, plain, style, found.name)
        named = ask.format_name if sample is plain else "tools"
        await self.served.check(found, Requests((prompt,), lambda _: sample), named=named)
        own = renderer.stop_tokens if ask.ends else ()
        stop_tokens = self.served.extra_stops(found, (*own, *ask.stop_tokens))
        ends = frozenset((*self.served.service.engine.config(found.name).end_tokens, *stop_tokens))
        choice = Choice(text.codec, stops=ask.stops, ends=ends, shown=ask.shown)

        def prepared() -> Prepared:
            mark = sha256_of(list(prompt))
            count = sample.num_samples
            return Prepared(
                ask=ask,
                found=found,
                text=text,
                sample=sample,
                stop_tokens=stop_tokens,
                ends=ends,
                choices=tuple(Progress(choice.fork(), prompt, drops=ask.only_prompt) for _ in range(count)),
                replies=tuple(Reply(style, prompt=mark, index=i) for i in range(count)),
            )

        return await turns.run(prepared, size=8 * len(prompt) + 256 * sample.num_samples)

    async def _constrained(self, ask: Ask, sample: Sample, style: CallStyle | None, name: str) -> Sample:
        """Add a grammar of calls, if `ask.tools` or a format requires one."""
        sampling = sample.sampling_params
        if style is None or not is_constrained(sampling, ask.tools):
            return sample

        def constrained() -> Sample:
            marks = self.served.service.engine.grammar_marks(name, (OPENED, CLOSED))
            return sample.model_copy(update={"sampling_params": constrain(sampling, ask.tools, style, marks)})

        return await self.served.service.turns.run(constrained)

    async def answer(self, request: Request, prepared: Prepared, growing: GrowingAnswer, *, stream: bool) -> Response:
        """Answer in a protocol's format, whole or as a stream.

        Raises:
            BusyError: the server is busy.
            TinsmithError: the request cannot be served.
        """
        requests = Requests((prepared.prompt,), lambda _: prepared.sample)
        draws = self.served.draws(prepared.found, requests, prepared.stop_tokens, watch=stream)
        return await send(request, growing, draws, self.served.service.turns, stream=stream)


def _rendered(ask: Ask, text: ModelText) -> tuple[ConversationRenderer, CallStyle | None, tuple[int, ...]]:
    """Return the chat's renderer, the style of calls in a reply, and the prompt.

    Raises:
        ConfigError, InputError: the template cannot be applied to the request.
    """
    tools = ask.tools.shown
    renderer = text.conversation(tools=bool(tools))
    style = renderer.require_tools() if tools else None
    sets_thinking = ask.thinks is not None and renderer.template.mentions(THINKING)
    options: Mapping[str, object] = {**ask.options, **({THINKING: ask.thinks} if sets_thinking else {})}
    prompt = renderer.prompt(ask.turns, tools=tools, opening=ask.opening, options=options)
    text.require_rows(prompt, field="messages")
    return renderer, style, prompt
