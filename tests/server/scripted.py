"""A server whose model's chat template has tools, and replies that are written beforehand instead of sampled."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tool_templates import tokenizer_with

from loopback import Running, start, stop
from tinsmith.engine import bases
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.server.direct import Direct, Found, Requests
from tinsmith.server.draws import Drawn
from tinsmith.server.wire.requests import Sample
from tinsmith.types.sampling import StopReason

END = 0
"""The preset's end token."""


def form(first: str, shape: dict[str, Any], **optional: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of objects with one member that is required, and no others than those named."""
    properties = {first: shape, **optional}
    return {"type": "object", "properties": properties, "required": [first], "additionalProperties": False}


SCHEMA = form("city", {"enum": ["Oslo", "Rome"]})
OK = form("ok", {"type": "boolean"})
"""The form of a text without calls."""
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
NOW = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


@contextmanager
def serving(state: Path, template: str) -> Iterator[Running]:
    """`tinsmith/nano` with another chat template."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bases, "preset_tokenizer", lambda name: tokenizer_with(template, name))
        running = start(state)
        with running.http() as client:  # which has it loaded, once and for all
            assert client.post("/tokenize", json={"prompt": "a"}).status_code == 200
    try:
        yield running
    finally:
        stop(running)


@contextmanager
def replies(*texts: str, size: int = 3, cut: bool = False) -> Iterator[list[Sample]]:
    """Let every request's samples be these texts, so many tokens at once; yields what was asked meanwhile.

    Without `cut` each ends with the end token.
    """
    request: list[Sample] = []
    tokenizer = preset_tokenizer("nano")

    async def draw(
        self: Direct, found: Found, requests: Requests, **options: Any
    ) -> AsyncGenerator[tuple[Drawn, ...], None]:
        del self, found
        request.extend(requests[i] for i in range(len(requests)))
        for i, text in enumerate(texts):
            tokens = [*tokenizer.encode(text), *([] if cut else [END])]
            step = size if options["watch"] else len(tokens)
            for begin in range(0, len(tokens), step):
                some = tuple(tokens[begin : begin + step])
                last = begin + step >= len(tokens)
                reason = StopReason.LENGTH if cut else StopReason.STOP
                yield (
                    Drawn(
                        index=i,
                        tokens=some,
                        logprobs=tuple(-float(token) for token in some),
                        top=(),
                        stop_reason=reason if last else None,
                    ),
                )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Direct, "draw", draw)
        yield request


def text_of(sample: Sample) -> str:
    """A request's prompt."""
    return preset_tokenizer("nano").decode(sample.prompt.chunks[0].tokens)
