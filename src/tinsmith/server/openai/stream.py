"""One OpenAI completion as it comes into being: told whole at the end, or piece by piece as server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tinsmith.server.direct import Found
from tinsmith.server.draws import Drawn
from tinsmith.server.openai.answers import (
    Json,
    Progress,
    completion_logprobs,
    finish_reason,
    refusal,
    usage,
)
from tinsmith.server.openai.requests import CompletionRequest
from tinsmith.server.openai.text import Choice, Grown, ModelText
from tinsmith.types.errors import TinsmithError
from tinsmith.types.sampling import StopReason

DONE = b"data: [DONE]\n\n"


@dataclass(slots=True, kw_only=True)
class Answer:
    """What was asked, and every choice so far."""

    body: CompletionRequest
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

    def take(self, drawn: Drawn) -> None:
        """Take what was drawn, where the answer is told whole."""
        self.choices[drawn.index].add(drawn)

    def whole(self) -> Json:
        """The answer, once every choice has ended."""
        shown = [self._ended(i, progress) for i, progress in enumerate(self.choices)]
        return {**self._head(), "choices": shown, "usage": self._usage()}

    def opening(self) -> Iterator[bytes]:
        """Nothing: a completion begins with its text."""
        yield from ()

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """The chunks that tell what was drawn."""
        progress = self.choices[drawn.index]
        grown = progress.add(drawn)
        if grown.text or grown.tokens.start < grown.tokens.stop:
            logprobs = self._logprobs(progress, grown.tokens)
            yield event(self._chunk(drawn.index, grown.text, logprobs, None))
        if drawn.stop_reason is not None:
            yield event(self._chunk(drawn.index, "", None, drawn.stop_reason))

    def closing(self) -> Iterator[bytes]:
        """The token counts, where they were asked for, and the end."""
        if self.body.include_usage:
            yield event({**self._head(), "choices": [], "usage": self._usage()})
        yield DONE

    def failed(self, error: TinsmithError) -> bytes:
        """The refusal."""
        return event(refusal(error)[0])

    def _ended(self, index: int, progress: Progress) -> Json:
        grown = progress.grown or Grown("", slice(0, 0))
        return {
            "index": index,
            "logprobs": self._logprobs(progress, grown.tokens),
            "finish_reason": finish_reason(progress.reason),
            "text": grown.text,
        }

    def _logprobs(self, progress: Progress, tokens: slice) -> Json | None:
        if self.body.logprobs is None:
            return None
        return completion_logprobs(self.text, progress, tokens, self.body.logprobs)

    def _chunk(
        self, index: int, text: str, logprobs: Json | None, reason: StopReason | None
    ) -> Json:
        shown: Json = {
            "index": index,
            "logprobs": logprobs,
            "finish_reason": finish_reason(reason),
            "text": text,
        }
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
        return usage(self.num_prompt, sum(len(progress.drawn) for progress in self.choices))


def event(values: Json) -> bytes:
    """One server-sent event, as OpenAI's have it: without a name."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"
