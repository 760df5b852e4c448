"""What is asked of the sampler, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import FloatArray, IntArray


class StopReason(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn. Tinker's fields and defaults, except that the seed is always given.

    Returned log-probabilities are those of the temperature-scaled distribution *before* top-k and
    top-p (at temperature 0: of the unscaled distribution, and the most probable token is taken).
    """

    seed: int
    max_tokens: int | None = None
    """None: as many as the model's context holds."""
    temperature: float = 1.0
    top_k: int = -1
    """Keep the k most probable tokens; -1 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose mass reaches top_p."""
    stop: tuple[str | int, ...] | None = None
    """None: stop at the tokenizer's end token. (): never stop. Otherwise these strings or token ids, and the
    end token too. What stopped a sequence is the end of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleRequest:
    """One prompt, sampled `num_samples` times from one set of weights."""

    prompt: IntArray
    params: SamplingParams
    num_samples: int = 1
    prompt_logprobs: bool = False
    """Also return log p(prompt[t] | prompt[..t-1]) at temperature 1."""
    topk_logprobs: int = 0
    """Also return the k most probable tokens at every sampled position."""
    topk_prompt_logprobs: int = 0
    """Also return the k most probable tokens at every prompt position but the first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopLogprobs:
    """The k most probable tokens per position: ids (T, k) and log-probabilities (T, k), descending."""

    tokens: IntArray
    logprobs: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledSequence:
    """One sample: its tokens (what stopped it included), their log-probabilities, why it ended."""

    tokens: IntArray
    logprobs: FloatArray
    stop_reason: StopReason
    top: TopLogprobs | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleResult:
    """All samples of one request, in sample order."""

    sequences: tuple[SampledSequence, ...]
    prompt_logprobs: NDArray[np.float32] | None = None
    """Shape (prompt length,), NaN at position 0, which has no predecessor."""
    prompt_top: TopLogprobs | None = None
