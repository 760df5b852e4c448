"""Requests to the sampler and its results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import FloatArray, IntArray


class StopReason(StrEnum):
    """Reason for the end of a sequence."""

    STOP = "stop"
    LENGTH = "length"


class GrammarKind(StrEnum):
    """Language of a grammar."""

    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Constraint that a whole completion must match."""

    kind: GrammarKind
    text: str
    """The schema as JSON, the pattern, or the grammar; "" for JSON_OBJECT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustments:
    """Adjustments of the distribution (formulas: `engine.choices`).

    None of them changes the returned log-probabilities.
    """

    min_p: float = 0.0
    """Least probability of a token, relative to the most probable one; 0 keeps all."""
    repetition_penalty: float = 1.0
    """Factor that divides the positive logits, and multiplies the negative ones, of tokens in prompt or output."""
    presence_penalty: float = 0.0
    """Amount subtracted from the logit of every token in the output so far."""
    frequency_penalty: float = 0.0
    """Amount subtracted from a token's logit for each of its occurrences in the output so far."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs (token id, amount added to its logit), in ascending order of the ids. As with OpenAI, -100 or lower
    practically forbids a token, 100 or more practically forces it; it is added exactly, without clipping."""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Settings for drawing tokens. Tinker's fields and defaults, except that the seed is always given.

    Returned log-probabilities are those of the temperature-scaled distribution *before* adjustments, top-k and
    top-p (at temperature 0: of the unscaled distribution, and the most probable token is taken).
    """

    seed: int
    max_tokens: int | None = None
    """Most tokens; None for as many as the model's context holds, 0 for prompt scores only."""
    temperature: float = 1.0
    top_k: int = -1
    """Number of most probable tokens to keep; -1 keeps all."""
    top_p: float = 1.0
    """Mass of the smallest set of most probable tokens to keep."""
    stop: tuple[str | int, ...] | None = None
    """None stops at the tokenizer's end token, () never. Other values add these strings or token ids to the end token.
    A sequence's tokens include the stop."""
    adjustments: Adjustments | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleRequest:
    """Prompt, sampled `num_samples` times from one set of weights."""

    prompt: IntArray
    params: SamplingParams
    num_samples: int = 1
    prompt_logprobs: bool = False
    """True to return log p(prompt[t] | prompt[..t-1]) at temperature 1 too."""
    topk_logprobs: int = 0
    """Number of most probable tokens to return at every sampled position."""
    topk_prompt_logprobs: int = 0
    """Number of most probable tokens to return at every prompt position but the first."""
    target_prompt_logprobs: IntArray | None = None
    """Token ids whose log p(target | prompt[..t]) at temperature 1 is returned, by row t, shape (prompt length - 1, K);
    -1 for none."""
    prompt_alternatives: int = 0
    """Number of tokens to draw from the distribution over every prompt token but the first, with replacement, at the
    request's temperature and without its top-k, top-p and adjustments."""
    spread_targets: IntArray | None = None
    """Token ids whose `Spread` in the distribution after prompt[..t] is returned, by row t, shape (prompt length - 1,);
    -1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Statistics of the distributions after prompt[..t], each shape (prompt length - 1,), at temperature 1.

    In rows without a target, ranks are 0, the most probable token is -1, and the others are NaN.
    """

    ranks: IntArray
    """Rank of the target: 1 is the most probable token; of equal ones the lower id comes first."""
    entropies: FloatArray
    """Entropy over the whole vocabulary, in nats."""
    logprobs: FloatArray
    """Log-probability of the target."""
    best: IntArray
    """Most probable token; of equal ones the lowest id."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopLogprobs:
    """Most probable k tokens per position: ids (T, k) and log-probabilities (T, k), descending."""

    tokens: IntArray
    logprobs: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledSequence:
    """Sample: its tokens including the stop, their log-probabilities, and the reason for its end."""

    tokens: IntArray
    logprobs: FloatArray
    stop_reason: StopReason
    top: TopLogprobs | None = None
    routes: NDArray[np.int64] | None = None
    """Digest of the experts of each fed token in all layers, for a mixture; prompt and sample without its last
    token."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleResult:
    """All samples of one request, in sample order."""

    sequences: tuple[SampledSequence, ...]
    prompt_logprobs: NDArray[np.float32] | None = None
    """Shape (prompt length,), NaN at position 0, which has no predecessor."""
    prompt_top: TopLogprobs | None = None
    target_prompt_logprobs: FloatArray | None = None
    """Shape (prompt length - 1, K), 0.0 without a target."""
    prompt_alternatives: TopLogprobs | None = None
    """Shape (prompt length - 1, k): row t holds draws over prompt[t + 1], in the order drawn, and their
    log-probabilities at temperature 1."""
    prompt_spread: Spread | None = None
