"""Requests to the sampler and its results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import FloatArray, IntArray


class StopReason(StrEnum):
    """Reason that a sequence ended."""

    STOP = "stop"
    LENGTH = "length"


class GrammarKind(StrEnum):
    """In which language it is said what a completion must look like."""

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
    """Changes to the choice of a token, beyond the distribution itself (formulas: `engine.choices`).

    None of it changes the log-probabilities that are returned.
    """

    min_p: float = 0.0
    """Keep the tokens at least this probable, relative to the most probable one; 0 keeps all."""
    repetition_penalty: float = 1.0
    """Divides the positive logits, and multiplies the negative ones, of tokens in prompt or output."""
    presence_penalty: float = 0.0
    """Taken from the logit of every token in the output so far."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit once for every time that it is in the output so far."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, what is added to its logit), in ascending order of the ids. As OpenAI has it: -100 or lower all but
    forbids a token, 100 or more all but demands it; it is added exactly, and nothing is cut off."""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Settings for drawing tokens. Tinker's fields and defaults, except that the seed is always given.

    Returned log-probabilities are those of the temperature-scaled distribution *before* adjustments, top-k and
    top-p (at temperature 0: of the unscaled distribution, and the most probable token is taken).
    """

    seed: int
    max_tokens: int | None = None
    """None: as many as the model's context holds. 0: none, where something is asked about the prompt."""
    temperature: float = 1.0
    top_k: int = -1
    """Keep the k most probable tokens; -1 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose mass reaches top_p."""
    stop: tuple[str | int, ...] | None = None
    """None: stop at the tokenizer's end token. (): never stop. Otherwise these strings or token ids, and the
    end token too. What stopped a sequence is the end of its tokens."""
    adjustments: Adjustments | None = None


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
    target_prompt_logprobs: IntArray | None = None
    """Also return log p(target | prompt[..t]) at temperature 1 of the token ids in row t, shape (prompt length - 1, K);
    -1 asks nothing."""
    prompt_alternatives: int = 0
    """Also draw k tokens from the distribution over every prompt token but the first, with replacement, at the
    request's temperature and without its top-k, top-p and adjustments."""
    spread_targets: IntArray | None = None
    """Also return the whole distribution after prompt[..t] in figures, and where the token id in row t stands in it,
    shape (prompt length - 1,); see `Spread`. -1 asks nothing of its row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Statistics of the distributions after prompt[..t], each shape (prompt length - 1,), at temperature 1.

    Where nothing was asked ranks are 0, the most probable token is -1, and the others are NaN.
    """

    ranks: IntArray
    """Of the target: 1 is the most probable token; of equal ones the lower id goes first."""
    entropies: FloatArray
    """Over the whole vocabulary, in nats."""
    logprobs: FloatArray
    """Of the target."""
    best: IntArray
    """The most probable token; of equal ones the lowest id."""


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
    routes: NDArray[np.int64] | None = None
    """Of a mixture: a digest of the experts that each token fed took in all layers; prompt and sample but its last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleResult:
    """All samples of one request, in sample order."""

    sequences: tuple[SampledSequence, ...]
    prompt_logprobs: NDArray[np.float32] | None = None
    """Shape (prompt length,), NaN at position 0, which has no predecessor."""
    prompt_top: TopLogprobs | None = None
    target_prompt_logprobs: FloatArray | None = None
    """Shape (prompt length - 1, K), 0.0 where nothing was asked."""
    prompt_alternatives: TopLogprobs | None = None
    """Shape (prompt length - 1, k): row t holds draws over prompt[t + 1], in the order drawn, and their
    log-probabilities at temperature 1."""
    prompt_spread: Spread | None = None
