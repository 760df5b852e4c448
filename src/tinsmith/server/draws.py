"""New tokens of a request's samples, transferred from the compute thread to the event loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.sequences import Group
from tinsmith.types.sampling import StopReason, TopLogprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Requested scores of a prompt's tokens; the first token has none."""

    logprobs: NDArray[np.float32]
    """Shape (prompt length,), at temperature 1."""
    top: TopLogprobs | None
    """Most probable tokens at every position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """New tokens of one sample."""

    index: int
    """Index among all requests' samples."""
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[tuple[NDArray[np.int32], NDArray[np.float32]], ...]
    """Most probable tokens at each of these positions, if requested."""
    stop_reason: StopReason | None
    """Reason for its end; None while it continues."""
    scored: Scored | None = None
    """Prompt scores, sent with a sample's first tokens."""


@dataclass(slots=True)
class Follower:
    """Forwarder of a group's new tokens. Its methods are called on the compute thread."""

    queue: asyncio.Queue[tuple[Drawn, ...] | Exception]
    loop: asyncio.AbstractEventLoop
    first: int
    num_sent: list[int]
    over: list[bool]

    def drawn(self, group: Group) -> None:
        """Forward new tokens, if there are any."""
        grown: list[Drawn] = []
        for sample in group.samples:
            i, begin = sample.index, self.num_sent[sample.index]
            ended = sample.stop_reason is not None
            if self.over[i] or (len(sample.tokens) == begin and not ended):
                continue
            self.num_sent[i], self.over[i] = len(sample.tokens), ended
            grown.append(
                Drawn(
                    index=self.first + i,
                    tokens=tuple(sample.tokens[begin:]),
                    logprobs=tuple(sample.logprobs[begin:]),
                    top=tuple(sample.top[begin:]) if group.request.topk_logprobs else (),
                    stop_reason=sample.stop_reason,
                    scored=_scored(group) if begin == 0 else None,
                )
            )
        if grown:
            self.loop.call_soon_threadsafe(self.queue.put_nowait, tuple(grown))

    def ended(self, group: Group) -> None:
        """Forward the rest, or the failure."""
        if group.failure is not None:
            self.loop.call_soon_threadsafe(self.queue.put_nowait, group.failure)
        else:
            self.drawn(group)


def _scored(group: Group) -> Scored | None:
    request, scores = group.request, group.scores
    if not request.prompt_logprobs:
        return None
    return Scored(logprobs=scores.logprobs, top=scores.top if request.topk_prompt_logprobs else None)
