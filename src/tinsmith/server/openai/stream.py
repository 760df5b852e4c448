"""OpenAI completion in progress: sent whole at the end, or piece by piece as server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinsmith.renderers.model_text import ModelText
from tinsmith.server.direct import Found
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import (
    Json,
    Progress,
    completion_logprobs,
    finish_reason,
    prompt_logprobs,
    refusal,
    usage,
)
from tinsmith.server.openai.requests import CompletionRequest
from tinsmith.server.openai.text import Choice, Grown
from tinsmith.server.wire.client_names import COMPLETION
from tinsmith.types.errors import TinsmithError
from tinsmith.types.sampling import StopReason

DONE = b"data: [DONE]\n\n"


@dataclass(slots=True, kw_only=True)
class Answer:
    """Request on `/v1` with all its choices so far."""

    body: CompletionRequest
    found: Found
    text: ModelText
    prompts: tuple[tuple[int, ...], ...]
    choices: tuple[Progress, ...]
    """Samples of every prompt, prompt by prompt."""
    secret: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))
    sent_prompts: set[int] = field(default_factory=set[int])
    """Indices of choices whose prompt ids were already streamed."""

    @classmethod
    def of(
        cls,
        body: CompletionRequest,
        found: Found,
        text: ModelText,
        prompts: tuple[tuple[int, ...], ...],
        ends: frozenset[int],
    ) -> Answer:
        """Create the answer before any token; an end token of `ends` is not part of the text."""
        choices: list[Progress] = []
        echoes = bool(body.echo)
        for written, prompt in zip(body.prompts, prompts, strict=True):
            choice = Choice(text.codec, stops=body.stops, ends=ends, shown=body.shown)
            silent = _silent(body, text, written)
            if echoes:
                choice.echo(prompt, silent=silent, written=written if isinstance(written, str) else None)
            else:
                choice.follow(prompt, silent=silent)
            choices += [
                Progress(choice.fork(), prompt, echoes=echoes, drops=body.only_prompt) for _ in range(body.num_drawn)
            ]
        return cls(body=body, found=found, text=text, prompts=prompts, choices=tuple(choices))

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens."""
        self.choices[drawn.index].add(drawn)

    def whole(self) -> Json:
        """Return the complete answer."""
        best = [
            progress
            for first in range(0, len(self.choices), self.body.num_drawn)
            for progress in _best(self.choices[first : first + self.body.num_drawn], self.body.num_samples)
        ]
        shown = [self._ended(i, progress) for i, progress in enumerate(best)]
        return {**self._head(), "choices": shown, "usage": self._usage()}

    def opening(self) -> Iterator[bytes]:
        """Yield nothing: a completion begins with its text."""
        yield from ()

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Yield the chunks for drawn tokens."""
        progress = self.choices[drawn.index]
        grown = progress.add(drawn)
        if grown.text or grown.tokens.start < grown.tokens.stop:
            yield event(self._chunk(drawn.index, grown.text, grown.tokens, None))
        if progress.reason is not None:
            yield event(self._chunk(drawn.index, "", None, progress.reason))

    def closing(self) -> Iterator[bytes]:
        """Yield the token counts, if requested, and the end."""
        if self.body.include_usage:
            yield event({**self._head(), "choices": [], "usage": self._usage()})
        yield DONE

    def failed(self, error: TinsmithError) -> bytes:
        """Return the error event."""
        return event(refusal(error, COMPLETION)[0])

    def _ended(self, index: int, progress: Progress) -> Json:
        grown = progress.grown or Grown("", slice(0, 0))
        shown: Json = {
            "index": index,
            "logprobs": self._logprobs(progress, grown.tokens),
            "finish_reason": finish_reason(progress.reason),
        }
        if self.body.return_token_ids:
            shown["token_ids"] = progress.drawn
        ids, scored = self._prompt_ids(progress), self._prompt_logprobs(progress)
        return {**shown, "text": grown.text, **ids, **scored}

    def _logprobs(self, progress: Progress, tokens: slice) -> Json | None:
        as_ids = bool(self.body.return_tokens_as_token_ids)
        if self.body.logprobs is None:
            return None
        return completion_logprobs(self.text, progress, tokens, self.body.logprobs, as_ids=as_ids)

    def _prompt_ids(self, progress: Progress) -> Json:
        """Return the prompt's ids if requested: vLLM sends them in a completion's choices."""
        return {"prompt_token_ids": progress.prompt} if self.body.return_token_ids else {}

    def _prompt_logprobs(self, progress: Progress) -> Json:
        k = self.body.prompt_logprobs
        if k is None:
            return {}
        assert progress.scored is not None, "asked for with prompt_logprobs"
        entries = prompt_logprobs(self.text, progress.prompt, progress.scored, k)
        return {"prompt_logprobs": entries}

    def _chunk(self, index: int, text: str, tokens: slice | None, reason: StopReason | None) -> Json:
        progress = self.choices[index]
        shown: Json = {
            "index": index,
            "logprobs": None if tokens is None else self._logprobs(progress, tokens),
            "finish_reason": finish_reason(reason),
            "text": text,
        }
        if index not in self.sent_prompts:
            self.sent_prompts.add(index)
            shown |= self._prompt_ids(progress)
        if tokens is not None and self.body.return_token_ids:
            shown["token_ids"] = progress.tokens[max(tokens.start, progress.num_echoed) : tokens.stop]
        counts: Json = {"usage": None} if self.body.include_usage else {}
        return {**self._head(), "choices": [shown], **counts}

    def _head(self) -> Json:
        return {
            "id": f"cmpl-{self.secret}",
            "object": "text_completion",
            "created": self.created,
            "model": self.body.model,
            "system_fingerprint": f"fp_{self.found.loaded.weights[:16]}",
        }

    def _usage(self) -> Json:
        num_prompt = sum(len(prompt) for prompt in self.prompts)
        return usage(num_prompt, sum(progress.num_drawn for progress in self.choices))


def _silent(body: CompletionRequest, text: ModelText, written: str | tuple[int, ...]) -> int:
    """Return the number of begin tokens added before a prompt: they are not part of the text that the client sent."""
    if body.add_special_tokens is False:
        return 0
    return text.num_opening if isinstance(written, str) else 0


def _best(drawn: Sequence[Progress], n: int) -> Sequence[Progress]:
    """Return the `n` choices with the highest mean log-probability, best first; all of them in drawn order."""
    if n == len(drawn):
        return drawn
    return sorted(drawn, key=lambda progress: -progress.mean_logprob)[:n]


def event(values: Json) -> bytes:
    """Encode a server-sent event."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"
