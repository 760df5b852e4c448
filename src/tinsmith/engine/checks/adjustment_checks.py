"""Validation of sampling adjustments and of requested prompt scores."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tinsmith.engine.prompt_scores import scores_prompt
from tinsmith.models.config import DecoderConfig
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import Adjustments, SampleRequest

MAX_PENALTY = 2.0
"""Largest absolute presence or frequency penalty: OpenAI's range."""
REPETITION = (1e-2, 1e2)
MAX_BIAS = 1e6
MAX_TARGETS = 1 << 22
"""Most cells in one table of target tokens."""


def check_adjustments(adjustments: Adjustments, config: DecoderConfig) -> None:
    """Reject adjustments out of range. Grammars are not compiled here.

    Raises:
        InputError: naming the field, the value and what is allowed.
    """
    low, high = REPETITION
    penalty = f"-{MAX_PENALTY} to {MAX_PENALTY}"
    checks: tuple[tuple[str, float, bool, str], ...] = (
        ("min_p", adjustments.min_p, 0.0 <= adjustments.min_p <= 1.0, "0 to 1"),
        (
            "repetition_penalty",
            adjustments.repetition_penalty,
            low <= adjustments.repetition_penalty <= high,
            f"{low} to {high}",
        ),
        *(
            (name, value, -MAX_PENALTY <= value <= MAX_PENALTY, penalty)
            for name, value in (
                ("presence_penalty", adjustments.presence_penalty),
                ("frequency_penalty", adjustments.frequency_penalty),
            )
        ),
    )
    for field, value, holds, allowed in checks:
        if not holds:
            raise InputError("a sampling parameter is out of range", field=field, value=value, allowed=allowed)
    for token, bias in adjustments.logit_bias:
        if not 0 <= token < config.vocab_size:
            raise InputError(
                "a token id is outside the vocabulary",
                field="logit_bias",
                value=token,
                allowed=f"0 to {config.vocab_size - 1}",
            )
        if math.isnan(bias) or abs(bias) > MAX_BIAS:
            raise InputError(
                "a bias is out of range",
                field=f"logit_bias[{token}]",
                value=bias,
                allowed=f"-{MAX_BIAS:.0f} to {MAX_BIAS:.0f}; -100 all but forbids a token",
            )
    for (one, _), (other, _) in pairwise(adjustments.logit_bias):
        if other <= one:
            raise InputError(
                "the biases are not in ascending order of their tokens, each once",
                field="logit_bias",
                value=other,
                allowed=f"a token id above {one}",
            )


def check_prompt_questions(request: SampleRequest, config: DecoderConfig, most: int) -> None:
    """Reject prompt scores that cannot be computed; `most` alternatives may be drawn at a position.

    Raises:
        InputError: naming the field, the value and what is allowed.
    """
    places = len(request.prompt) - 1
    if not 0 <= request.prompt_alternatives <= most:
        raise InputError(
            "a sampling parameter is out of range",
            field="prompt_alt_tokens_k",
            value=request.prompt_alternatives,
            allowed=f"0 to {most}",
        )
    if request.params.max_tokens == 0 and not (scores_prompt(request) and places):
        raise InputError(
            "nothing is sampled, and nothing is asked about the prompt",
            field="max_tokens",
            value=0,
            allowed=">= 1; 0 with prompt_logprobs, or another question about a prompt of 2 tokens or more",
        )
    _check_spread(request, config)
    targets = request.target_prompt_logprobs
    if targets is None:
        return
    if targets.ndim != 2 or targets.shape[0] != places or targets.size > MAX_TARGETS:
        raise InputError(
            "a table of target tokens does not fit its prompt",
            field="target_prompt_logprobs",
            value=targets.shape,
            allowed=f"shape ({places}, K), and at most {MAX_TARGETS} cells",
        )
    bad = np.argwhere((targets < -1) | (targets >= config.vocab_size))
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(
            "a token id is outside the vocabulary",
            field=f"target_prompt_logprobs[{row}, {column}]",
            value=int(targets[row, column]),
            allowed=f"0 to {config.vocab_size - 1}, or -1 for nothing",
        )


def _check_spread(request: SampleRequest, config: DecoderConfig) -> None:
    targets, places = request.spread_targets, len(request.prompt) - 1
    if targets is None:
        return
    if targets.shape != (places,):
        raise InputError(
            "the targets do not fit their sequence",
            field="targets",
            value=targets.shape,
            allowed=f"{places}: a token after each of the sequence's but the last",
        )
    bad = np.flatnonzero((targets < -1) | (targets >= config.vocab_size))
    if len(bad):
        raise InputError(
            "a token id is outside the vocabulary",
            field=f"targets[{bad[0]}]",
            value=int(targets[bad[0]]),
            allowed=f"0 to {config.vocab_size - 1}, or -1 for nothing",
        )
