"""Encoding of training and sampling results: protobuf, with little-endian arrays.

The SDK returns the same bits. This module is independent of HTTP and models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from tinsmith.server.wire.messages import CLASSES, DType, WireStop
from tinsmith.server.wire.target_tables import TargetTable
from tinsmith.types.datum import DatumOutput, FloatArray
from tinsmith.types.sampling import SampledSequence, SampleResult, StopReason, TopLogprobs

NO_TOKEN, NO_LOGPROB = 0, -99999.0
"""Content of an empty cell in a table of most probable tokens on the wire."""


def encode_forward_backward(
    outputs: Sequence[DatumOutput], metrics: Mapping[str, float], loss_fn_output_type: str
) -> bytes:
    """Encode a training result: every datum's logprobs, in order, and the metrics.

    A record has one number of targets per position: datums with another number start a new record.
    """
    groups = groupby(outputs, key=lambda output: output.logprobs.shape[1:])
    return CLASSES["ForwardBackwardOutput"](
        loss_fn_output_type=loss_fn_output_type,
        loss_fn_outputs=[
            _record([output.logprobs for output in group], trailing, loss_fn_output_type) for trailing, group in groups
        ],
        metrics={name: float(metrics[name]) for name in sorted(metrics)},
    ).SerializeToString(deterministic=True)


def _record(logprobs: Sequence[FloatArray], trailing: tuple[int, ...], type_tag: str) -> Message:
    ends = np.cumsum([0, *(4 * each.size for each in logprobs)], dtype="<i8")
    joined = np.concatenate([each.ravel() for each in logprobs])
    tensor = CLASSES["BatchedTensor"](
        data=_bytes(joined, "<f4"), offsets=ends.tobytes(), dtype=int(DType.FLOAT32), trailing_shape=trailing
    )
    return CLASSES["ArrayRecord"](type_tag=type_tag, fields={"logprobs": tensor}, num_datums=len(logprobs))


def encode_sample(
    result: SampleResult,
    *,
    prompt_logprobs_last_n: int | None = None,
    targets: TargetTable | None = None,
    cache_hit_tokens: int = 0,
) -> bytes:
    """Encode a sampling result.

    With `prompt_logprobs_last_n`, prompt scores cover only that many of its last tokens; the SDK rejects an answer with
    more. `targets` is the requested table, if any.
    """
    fields: dict[str, object] = {}
    if result.prompt_logprobs is not None:
        scored = result.prompt_logprobs.copy()
        scored[: _skipped(scored, prompt_logprobs_last_n)] = np.nan
        fields["prompt_logprobs"] = _bytes(scored, "<f4")
    if result.prompt_top is not None:
        skipped = _skipped(result.prompt_top.tokens, prompt_logprobs_last_n)
        fields["topk_prompt_logprobs"] = _top(result.prompt_top, skipped)
    if targets is not None and result.target_prompt_logprobs is not None:
        fields["target_prompt_logprobs"] = targets.encode(result.target_prompt_logprobs)
    if result.prompt_alternatives is not None:
        fields["prompt_alt_tokens"] = _alternatives(result.prompt_alternatives)
    return CLASSES["SampleResponse"](
        sequences=[_sequence(sequence) for sequence in result.sequences],
        prompt_cache_hit_tokens=cache_hit_tokens,
        **fields,
    ).SerializeToString(deterministic=True)


def _skipped(rows: NDArray[np.generic], last_n: int | None) -> int:
    return 0 if last_n is None else max(0, len(rows) - last_n)


def _sequence(sequence: SampledSequence) -> Message:
    stop = WireStop.STOP if sequence.stop_reason is StopReason.STOP else WireStop.LENGTH
    top = {} if sequence.top is None else {"topk_sampled_logprobs": _top(sequence.top, 0)}
    return CLASSES["SampledSequence"](
        stop_reason=int(stop), tokens=_bytes(sequence.tokens, "<i4"), logprobs=_bytes(sequence.logprobs, "<f4"), **top
    )


def _alternatives(drawn: TopLogprobs) -> Message:
    shape = list(drawn.tokens.shape)
    tensor = CLASSES["Tensor"]
    return CLASSES["PromptAltTokens"](
        tokens=tensor(dense=_bytes(drawn.tokens, "<i4"), dtype=int(DType.INT32), shape=shape),
        logprobs=tensor(dense=_bytes(drawn.logprobs, "<f4"), dtype=int(DType.FLOAT32), shape=shape),
    )


def _top(top: TopLogprobs, skipped: int) -> Message:
    """Encode a table; a cell without a token or a log-probability, and all of the first `skipped` rows, are empty."""
    empty = (top.tokens < 0) | np.isnan(top.logprobs)
    empty[:skipped] = True
    return CLASSES["TopkLogprobs"](
        token_ids=_bytes(np.where(empty, NO_TOKEN, top.tokens), "<i4"),
        logprobs=_bytes(np.where(empty, np.float32(NO_LOGPROB), top.logprobs), "<f4"),
        k=top.tokens.shape[1],
        length=top.tokens.shape[0],
    )


def _bytes(values: NDArray[np.generic], stored: str) -> bytes:
    return np.ascontiguousarray(values, stored).tobytes()
