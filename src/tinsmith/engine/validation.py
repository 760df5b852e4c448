"""Validation of a request before any computation: every error names field, value and range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.checks.adjustment_checks import check_adjustments, check_prompt_questions
from tinsmith.models.config import DecoderConfig
from tinsmith.ops.objectives.objective import Objective
from tinsmith.types.datum import MAX_READS, MAX_TARGETS, Datum, LossName
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import SampleRequest

MAX_TOP_LOGPROBS = 1024
_LEAST = 2.0**-100
"""Smallest temperature other than 0: finite logits (up to 2.7e8) stay finite where they are divided by it."""


def loss_by_name(name: str) -> LossName:
    """Return the loss with this name.

    Raises:
        InputError: for an unknown loss, or one without a published formula.
    """
    try:
        return LossName(name)
    except ValueError:
        raise InputError(
            "this loss is not computed here",
            field="loss_fn",
            value=name,
            allowed=[loss.value for loss in LossName],
            fix="stable_reinforce has no published formula; use loss_fn=importance_sampling"
            if name == "stable_reinforce"
            else None,
        ) from None


def check_datums(datums: Sequence[Datum], objective: Objective, config: DecoderConfig) -> None:
    """Reject a batch that cannot be computed.

    Raises:
        InputError: naming the datum, the field, the value and what is allowed.
    """
    if not datums:
        raise InputError("there is nothing to compute", field="data", value=[], allowed="at least one datum")
    reads = 0
    for i, datum in enumerate(datums):
        _check_tokens(datum.tokens, f"data[{i}].model_input", config)
        field = f"data[{i}].loss_fn_inputs"
        shape = _check_targets(datum, f"{field}.target_tokens", objective, config)
        objective.check(datum.inputs, shape, field)
        reads += math.prod(shape) if len(shape) == 2 else 0
        if reads > MAX_READS:
            raise InputError(
                "this request asks for too many log-probabilities",
                field=f"{field}.target_tokens",
                value=shape,
                allowed=f"{MAX_READS} targets in all, where positions have several",
                fix="send fewer datums a request; gradients add up until optim_step",
            )


def _check_tokens(tokens: NDArray[np.integer], field: str, config: DecoderConfig) -> None:
    if tokens.ndim != 1 or len(tokens) == 0:
        raise InputError(
            "a sequence has no tokens", field=field, value=tokens.shape, allowed="one row of at least one token"
        )
    if tokens.dtype.kind not in "iu":
        raise InputError("token ids must be integers", field=field, value=str(tokens.dtype), allowed="int32 or int64")
    if len(tokens) > config.max_positions:
        raise InputError(
            "a sequence is longer than the model's context",
            field=field,
            value=f"{len(tokens)} tokens",
            allowed=f"at most {config.max_positions}",
        )
    _check_range(tokens, field, config)


def _check_range(tokens: NDArray[np.integer], field: str, config: DecoderConfig) -> None:
    bad = (tokens < 0) | (tokens >= config.vocab_size)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), tokens.shape)
        raise InputError(
            "a token id is outside the vocabulary",
            field=field + "".join(f"[{int(i)}]" for i in at),
            value=int(tokens[at]),
            allowed=f"0 to {config.vocab_size - 1}",
        )


def _check_targets(datum: Datum, field: str, objective: Objective, config: DecoderConfig) -> tuple[int, ...]:
    """Reject unreadable targets, and return their shape: (N,), or (N, K) with K targets per position."""
    if "target_tokens" not in datum.inputs:
        raise InputError("every loss needs this input", field=field, allowed="a token id per position")
    targets = datum.inputs["target_tokens"]
    shape = targets.shape
    if shape[:1] != datum.tokens.shape or len(shape) > 2:
        raise InputError(
            "the targets have another length than their tokens",
            field=field,
            value=shape,
            allowed=f"{datum.tokens.shape}, or ({len(datum)}, K) with K targets a position",
        )
    if len(shape) not in objective.ranks:
        raise InputError(
            "this loss is not computed with targets of this many dimensions",
            field=field,
            value=shape,
            allowed=" or ".join(f"{rank} dimension{'s'[: rank - 1]}" for rank in objective.ranks),
        )
    if len(shape) == 2 and not 1 <= shape[1] <= MAX_TARGETS:
        raise InputError(
            "a position has too many targets, or none",
            field=field,
            value=shape,
            allowed=f"1 to {MAX_TARGETS} a position",
        )
    if targets.dtype.kind not in "iu":
        raise InputError("token ids must be integers", field=field, value=str(targets.dtype), allowed="int32 or int64")
    _check_range(targets.astype(np.int64), field, config)
    return shape


def check_request(request: SampleRequest, config: DecoderConfig) -> int:
    """Reject a sampling request that cannot be served, and return the most tokens one sample may have.

    Raises:
        InputError: naming the field, the value and what is allowed.
    """
    _check_tokens(request.prompt, "prompt", config)
    params, room = request.params, config.max_positions - len(request.prompt)
    max_tokens = room if params.max_tokens is None else params.max_tokens
    least = 0 if params.max_tokens == 0 else 1
    checks: tuple[tuple[str, object, bool, str], ...] = (
        ("num_samples", request.num_samples, request.num_samples >= 1, ">= 1"),
        ("max_tokens", max_tokens, max_tokens >= least, ">= 1, and a prompt that leaves room for it"),
        ("temperature", params.temperature, 0.0 <= params.temperature < 1e6, ">= 0 and finite"),
        ("temperature", params.temperature, not 0 < params.temperature < _LEAST, f"0 (greedy), or at least {_LEAST}"),
        ("top_k", params.top_k, params.top_k == -1 or 1 <= params.top_k < 2**63, "-1 (all) or >= 1"),
        ("top_p", params.top_p, 0.0 < params.top_p <= 1.0, "0 < top_p <= 1"),
        ("seed", params.seed, 0 <= params.seed < 2**64, "0 to 2**64 - 1"),
        *(
            (
                name,
                value,
                0 <= value <= min(MAX_TOP_LOGPROBS, config.vocab_size),
                f"0 to {min(MAX_TOP_LOGPROBS, config.vocab_size)}",
            )
            for name, value in (
                ("topk_logprobs", request.topk_logprobs),
                ("topk_prompt_logprobs", request.topk_prompt_logprobs),
            )
        ),
    )
    for field, value, holds, allowed in checks:
        if not holds:
            raise InputError("a sampling parameter is out of range", field=field, value=value, allowed=allowed)
    if max_tokens > room:
        raise InputError(
            "prompt and completion exceed the model's context",
            field="max_tokens",
            value=f"{len(request.prompt)} prompt tokens + {max_tokens}",
            allowed=f"at most {config.max_positions} together",
        )
    check_prompt_questions(request, config, MAX_TOP_LOGPROBS)
    if params.adjustments is not None:
        check_adjustments(params.adjustments, config)
    for i, stop in enumerate(params.stop or ()):
        if isinstance(stop, str) and not stop:
            raise InputError("a stop string is empty", field=f"stop[{i}]", value=stop, allowed="non-empty strings")
    return max_tokens
