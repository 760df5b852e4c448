"""What a request must look like before anything is computed: every refusal names field, value and range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.adjustment_checks import check_adjustments, check_prompt_questions
from tinsmith.models.config import DecoderConfig
from tinsmith.ops.losses import LOSSES, LossConfig
from tinsmith.types.datum import Datum, LossName
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import SampleRequest

MAX_TOP_LOGPROBS = 1024


def loss_by_name(name: str) -> LossName:
    """Return the loss of this name.

    Raises:
        InputError: for a loss that has no published formula or does not exist.
    """
    try:
        return LossName(name)
    except ValueError:
        raise InputError(
            "this loss is not computed here",
            field="loss_fn",
            value=name,
            allowed=", ".join(loss.value for loss in LossName),
            fix="stable_reinforce has no published formula; use loss_fn=importance_sampling"
            if name == "stable_reinforce"
            else None,
        ) from None


def check_datums(
    datums: Sequence[Datum], loss: LossName, settings: Mapping[str, object], config: DecoderConfig
) -> LossConfig:
    """Refuse a batch that cannot be computed, and return the loss's settings.

    Raises:
        InputError: naming the datum, the field, the value and what is allowed.
        ConfigError: for a setting the loss does not take.
    """
    if not datums:
        raise InputError(
            "there is nothing to compute", field="data", value=[], allowed="at least one datum"
        )
    parsed = LossConfig.from_mapping(loss, settings)
    for i, datum in enumerate(datums):
        _check_tokens(datum.tokens, f"data[{i}].model_input", config)
        _check_inputs(datum, i, loss, config)
    return parsed


def _check_tokens(tokens: NDArray[np.integer], field: str, config: DecoderConfig) -> None:
    if tokens.ndim != 1 or len(tokens) == 0:
        raise InputError(
            "a sequence has no tokens",
            field=field,
            value=tokens.shape,
            allowed="shape (N,) with N >= 1",
        )
    if tokens.dtype.kind not in "iu":
        raise InputError(
            "token ids must be integers",
            field=field,
            value=str(tokens.dtype),
            allowed="int32 or int64",
        )
    if len(tokens) > config.max_positions:
        raise InputError(
            "a sequence is longer than the model's context",
            field=field,
            value=f"{len(tokens)} tokens",
            allowed=f"at most {config.max_positions}",
        )
    _check_range(tokens, field, config)


def _check_range(tokens: NDArray[np.integer], field: str, config: DecoderConfig) -> None:
    bad = np.flatnonzero((tokens < 0) | (tokens >= config.vocab_size))
    if len(bad):
        raise InputError(
            "a token id is outside the vocabulary",
            field=f"{field}[{bad[0]}]",
            value=int(tokens[bad[0]]),
            allowed=f"0 to {config.vocab_size - 1}",
        )


def _check_inputs(datum: Datum, index: int, loss: LossName, config: DecoderConfig) -> None:
    entry = LOSSES[loss]
    for name in entry.required:
        if name not in datum.inputs:
            raise InputError(
                f"the loss {loss} needs this input",
                field=f"data[{index}].loss_fn_inputs.{name}",
                allowed=f"{', '.join(entry.required)} for every datum",
            )
    known = (*entry.required, *entry.optional)
    for name in sorted(set(datum.inputs) - set(known)):
        raise InputError(
            f"the loss {loss} does not read this input, and would ignore it",
            field=f"data[{index}].loss_fn_inputs.{name}",
            allowed=", ".join(known),
        )
    for name in known:
        if name not in datum.inputs:
            continue
        field, values = f"data[{index}].loss_fn_inputs.{name}", datum.inputs[name]
        if values.shape != datum.tokens.shape:
            raise InputError(
                "a loss input has another length than its tokens",
                field=field,
                value=values.shape,
                allowed=str(datum.tokens.shape),
            )
        if name == "target_tokens":
            if values.dtype.kind not in "iu":
                raise InputError(
                    "token ids must be integers",
                    field=field,
                    value=str(values.dtype),
                    allowed="int32 or int64",
                )
            _check_range(values.astype(np.int64), field, config)
        elif values.dtype.kind not in "iufb":
            raise InputError(
                "a loss input must be numbers",
                field=field,
                value=str(values.dtype),
                allowed="float32",
            )
        elif not np.isfinite(values.astype(np.float64)).all():
            at = int(np.flatnonzero(~np.isfinite(values.astype(np.float64)))[0])
            raise InputError(
                "a loss input is not finite",
                field=f"{field}[{at}]",
                value=float(values[at]),
                allowed="finite numbers",
            )


def check_request(request: SampleRequest, config: DecoderConfig) -> int:
    """Refuse a sampling request that cannot be served, and return the most tokens one sample may have.

    Raises:
        InputError: naming the field, the value and what is allowed.
    """
    _check_tokens(request.prompt, "prompt", config)
    params, room = request.params, config.max_positions - len(request.prompt)
    wanted = room if params.max_tokens is None else params.max_tokens
    least = 0 if params.max_tokens == 0 else 1
    checks: tuple[tuple[str, object, bool, str], ...] = (
        ("num_samples", request.num_samples, request.num_samples >= 1, ">= 1"),
        ("max_tokens", wanted, wanted >= least, ">= 1, and a prompt that leaves room for it"),
        ("temperature", params.temperature, 0.0 <= params.temperature < 1e6, ">= 0 and finite"),
        ("top_k", params.top_k, params.top_k == -1 or params.top_k >= 1, "-1 (all) or >= 1"),
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
            raise InputError(
                "a sampling parameter is out of range", field=field, value=value, allowed=allowed
            )
    if wanted > room:
        raise InputError(
            "prompt and completion exceed the model's context",
            field="max_tokens",
            value=f"{len(request.prompt)} prompt tokens + {wanted}",
            allowed=f"at most {config.max_positions} together",
        )
    check_prompt_questions(request, config, MAX_TOP_LOGPROBS)
    if params.adjustments is not None:
        check_adjustments(params.adjustments, config)
    for i, stop in enumerate(params.stop or ()):
        if isinstance(stop, str) and not stop:
            raise InputError(
                "a stop string is empty",
                field=f"stop[{i}]",
                value=stop,
                allowed="non-empty strings",
            )
    return wanted
