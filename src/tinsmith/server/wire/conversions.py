"""Conversion of JSON requests to values; the server's seed is used if a request has none."""

from __future__ import annotations

import numpy as np
from pydantic import JsonValue

from tinsmith.server.wire.requests import OptimStep, Sample
from tinsmith.server.wire.settings import AdjustmentSettings, LoraSettings, SamplingSettings
from tinsmith.server.wire.target_tables import TargetTable, read_targets
from tinsmith.types.adapters import ALPHA, AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import Adjustments, Grammar, SampleRequest, SamplingParams

MAX_STOPS, MAX_STOP_LETTERS = 256, 1 << 14


def to_sample_request(request: Sample, *, seed: int, most: int | None = None) -> SampleRequest:
    """Return the sampler's request; `seed` is used if the client's has none.

    `request.prompt_logprobs_last_n` is for `results.encode_sample`: the whole prompt is scored.

    Raises:
        InputError: for unsupported options; for a prompt longer than `most`, before it is converted.
    """
    length = _length(request)
    if most is not None and length > most:
        raise InputError(
            "a sequence is longer than the model's context",
            field="prompt",
            value=f"{length} tokens",
            allowed=f"at most {most}",
        )
    _check_last_n(request)
    prompt = [np.array(chunk.tokens, np.int32) for chunk in request.prompt.chunks]
    targets = to_targets(request)
    return SampleRequest(
        prompt=np.concatenate([np.empty(0, np.int32), *prompt]),
        params=to_sampling_params(request.sampling_params, seed=seed),
        num_samples=request.num_samples,
        prompt_logprobs=bool(request.prompt_logprobs),
        topk_logprobs=request.topk_sample_logprobs,
        topk_prompt_logprobs=request.topk_prompt_logprobs,
        target_prompt_logprobs=None if targets is None else targets.cells,
        prompt_alternatives=request.prompt_alt_tokens_k,
    )


def to_targets(request: Sample) -> TargetTable | None:
    """Return the table of tokens whose prompt log-probabilities are requested.

    Raises:
        InputError: it does not fit the prompt.
    """
    if request.target_prompt_logprobs is None:
        return None
    return read_targets(request.target_prompt_logprobs, rows=_length(request) - 1)


def to_sampling_params(settings: SamplingSettings, *, seed: int) -> SamplingParams:
    """Return the settings for drawing tokens; `seed` is used if they have none.

    Raises:
        InputError: for a seed wider than 64 bits, or a `stop` of another type.
    """
    return SamplingParams(
        seed=seed if settings.seed is None else _word(settings.seed, "sampling_params.seed"),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        stop=_stop(settings.stop),
        adjustments=_adjustments(settings.adjustments),
    )


def to_adam(request: OptimStep) -> AdamParams:
    """Return the settings of one optimizer step."""
    assert request.adam_params is not None, "OptimStep checks it"
    given = request.adam_params
    return AdamParams(
        learning_rate=given.learning_rate,
        beta1=given.beta1,
        beta2=given.beta2,
        eps=given.eps,
        weight_decay=given.weight_decay,
        grad_clip_norm=given.grad_clip_norm,
    )


def to_adapter_spec(
    settings: LoraSettings | None, *, kind: AdapterKind, seed: int, alpha: float = ALPHA, router: bool = False
) -> AdapterSpec:
    """Return the adapter of a new model; `seed` is used if the settings have none, None means all defaults.

    Raises:
        InputError: for a seed wider than 64 bits, or a rank for a model that is trained in full.
        ConfigError: for an invalid rank or choice of parts.
    """
    if settings is None:
        return AdapterSpec(kind=kind, seed=seed, alpha=alpha, train_router=router)
    rank, default = settings.rank, AdapterSpec().rank
    if kind is AdapterKind.FULL:
        if rank not in (0, default):
            raise InputError(
                "a model trained in full has no rank",
                field="lora_config.rank",
                value=rank,
                allowed=f"0 or the default, {default}",
                fix="drop :full from the base model's name to train an adapter",
            )
        rank = default
    return AdapterSpec(
        kind=kind,
        rank=rank,
        alpha=alpha,
        seed=seed if settings.seed is None else _word(settings.seed, "lora_config.seed"),
        train_attn=settings.train_attn,
        train_mlp=settings.train_mlp,
        train_unembed=settings.train_unembed,
        train_router=router,
    )


def _length(request: Sample) -> int:
    return sum(len(chunk.tokens) for chunk in request.prompt.chunks)


def _check_last_n(request: Sample) -> None:
    last, length = request.prompt_logprobs_last_n, _length(request)
    if last is not None and not (request.prompt_logprobs and 1 <= last < length):
        raise InputError(
            "the prompt does not have that many tokens to score",
            field="prompt_logprobs_last_n",
            value=last,
            allowed=f"1 to {length - 1} for this prompt, together with prompt_logprobs",
        )


def _word(seed: int, field: str) -> int:
    """Return the 64-bit word of a signed or unsigned 64-bit seed."""
    if not -(2**63) <= seed < 2**64:
        raise InputError("a seed is too large", field=field, value=seed, allowed="-2**63 to 2**64 - 1")
    return seed % 2**64


def _adjustments(settings: AdjustmentSettings | None) -> Adjustments | None:
    """Return the adjustments of the distribution; None if there are none."""
    if settings is None:
        return None
    grammar = settings.grammar
    adjustments = Adjustments(
        min_p=settings.min_p,
        repetition_penalty=settings.repetition_penalty,
        presence_penalty=settings.presence_penalty,
        frequency_penalty=settings.frequency_penalty,
        logit_bias=settings.logit_bias,
        grammar=None if grammar is None else Grammar(kind=grammar.kind, text=grammar.text),
    )
    return None if adjustments == Adjustments() else adjustments


def _check_stops(texts: tuple[str, ...]) -> None:
    """Reject stop conditions that would be costly to check after each token."""
    size = sum(map(len, texts))
    if len(texts) > MAX_STOPS or size > MAX_STOP_LETTERS:
        raise InputError(
            "too many texts to stop at",
            field="sampling_params.stop",
            value=f"{len(texts)} of {size} letters",
            allowed=f"up to {MAX_STOPS}, of {MAX_STOP_LETTERS} letters in all",
        )


def _stop(stop: JsonValue) -> tuple[str, ...] | tuple[int, ...] | None:
    if stop is None:
        return None
    if isinstance(stop, str):
        _check_stops((stop,))
        return (stop,)
    if isinstance(stop, list):
        texts = tuple(each for each in stop if isinstance(each, str))
        if len(texts) == len(stop):
            _check_stops(texts)
            return texts
        tokens = tuple(
            each for each in stop if isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**31
        )
        if len(tokens) == len(stop):
            return tokens
    raise InputError(
        "stop must be a text or token ids",
        field="sampling_params.stop",
        value=stop,
        allowed="a text, a list of texts, or a list of token ids",
    )
