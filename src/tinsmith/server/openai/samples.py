"""Requests of `/v1` and its neighbours, converted to the Tinker protocol's form."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from tinsmith.server.chat.ask import Ask
from tinsmith.server.openai.conversed import turns_of
from tinsmith.server.openai.generation import Sampling
from tinsmith.server.openai.requests import ChatRequest, CompletionRequest
from tinsmith.server.wire.requests import Sample
from tinsmith.server.wire.settings import Prompt, PromptChunk, SamplingSettings


def body_samples(body: ChatRequest | CompletionRequest) -> Callable[[tuple[int, ...]], Sample]:
    """Return a function from a prompt to the engine's request for it."""
    top = body.top_logprobs if isinstance(body, ChatRequest) else body.logprobs
    return partial(
        to_sample,
        body,
        settings=cache(body.settings),  # one value for all prompts
        length=body.length,
        num_samples=body.num_drawn,
        top=top or 0,
        only_prompt=body.only_prompt,
    )


def chat_ask(body: ChatRequest) -> Ask:
    """Return a chat request in a form common to all protocols.

    Raises:
        InputError: naming the unsupported field.
    """
    turns = turns_of(body.messages)
    return Ask(
        model=body.model,
        turns=turns,
        sample=body_samples(body),
        tools=body.offered_tools(),
        opening=body.opening(turns),
        options=body.chat_template_kwargs or {},
        stops=body.stops,
        stop_tokens=tuple(body.stop_token_ids or ()),
        ends=not body.ignore_eos,
        shown=body.shown,
        format_name=body.grammar_name,
        only_prompt=body.only_prompt,
    )


def to_sample(
    given: Sampling,
    prompt: tuple[int, ...],
    *,
    settings: Callable[[int | None], SamplingSettings],
    length: int | None,
    num_samples: int,
    top: int,
    only_prompt: bool,
) -> Sample:
    """Return the engine's request for one prompt.

    `settings`: a function from the most tokens to the settings. `length`: the most tokens; None for as many as the
    context holds. `top`: number of most probable tokens to return at every drawn position.
    """
    return Sample(
        sampling_session_id="",
        seq_id=0,
        prompt=Prompt(chunks=(PromptChunk(tokens=prompt),)),
        sampling_params=settings(_drawn_length(length, prompt, only_prompt)),
        num_samples=num_samples,
        prompt_logprobs=True if given.scores_prompt or only_prompt else None,
        topk_prompt_logprobs=given.num_prompt_top,
        topk_sample_logprobs=top,
    )


def _drawn_length(length: int | None, prompt: tuple[int, ...], only_prompt: bool) -> int | None:
    """Return the length for the engine, which rejects a request for nothing, such as scores of a one-token prompt.

    In that case one token is drawn and discarded.
    """
    return 1 if only_prompt and len(prompt) == 1 else length
