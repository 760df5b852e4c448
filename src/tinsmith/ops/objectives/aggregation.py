"""Aggregation of a whole batch's token losses into one number: the multiplier of every token.

The multipliers are computed from the masks of the *whole* batch before any backward pass, so that the normaliser cannot
depend on how the batch is cut into micro-batches. Every loss of Tinker is a plain sum over tokens; for those that are
linear in the advantage (importance_sampling, ppo, cispo, gspo) another mode results from multiplying the advantages
with these multipliers, for cross_entropy from multiplying the weights. Axes: `_D` datums, `_T` tokens of one datum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import Float64Array
from tinsmith.types.errors import ConfigError, InputError


class Aggregation(StrEnum):
    """Divisor of the token losses. S: sequences with an included token; n_i: number of such tokens."""

    TOKEN_SUM = "token_sum"
    """No divisor: Tinker's. The gradient grows with the number of tokens."""
    TOKEN_MEAN = "token_mean"
    """Number of tokens in the batch: DAPO, arXiv:2503.14476 sec. 3.3."""
    SEQ_MEAN_TOKEN_MEAN = "seq_mean_token_mean"
    """S n_i: GRPO, arXiv:2402.03300 sec. 4.1.1."""
    SEQ_MEAN_TOKEN_SUM_NORM = "seq_mean_token_sum_norm"
    """S times a constant, usually the token budget: Dr. GRPO, arXiv:2503.20783 sec. 3.2."""


def token_weights(
    aggregation: Aggregation, masks_D: Sequence[NDArray[np.generic]], *, constant: float = math.nan
) -> tuple[Float64Array, ...]:
    """Return per datum the multiplier of every token; the batch loss is sum over t of w_t loss_t.

    Args:
        aggregation: the mode.
        masks_D: one array (T,) per datum, 1 (or True) on the included tokens, 0 elsewhere. All
            datums of the batch, never a micro-batch. A datum without any token does not count as a
            sequence.
        constant: the divisor of SEQ_MEAN_TOKEN_SUM_NORM, in tokens; the other modes take none.

    Returns:
        One float64 array (T,) per datum, 0 where the mask is 0; all zeros for an empty batch.

    Raises:
        InputError: for a mask that is not one-dimensional or holds anything but 0 and 1.
        ConfigError: for a missing, superfluous or invalid constant.

    >>> [w.tolist() for w in token_weights(Aggregation.TOKEN_MEAN, [np.ones(1), np.ones(3)])]
    [[0.25], [0.25, 0.25, 0.25]]
    """
    _check_constant(aggregation, constant)
    included_DT = [_tokens_that_count(mask, datum_idx) for datum_idx, mask in enumerate(masks_D)]
    counts_D = [int(np.count_nonzero(mask)) for mask in included_DT]
    num_tokens = sum(counts_D)
    num_sequences = sum(1 for count in counts_D if count)

    def weight(count: int) -> float:
        if count == 0:
            return 0.0
        match aggregation:
            case Aggregation.TOKEN_SUM:
                return 1.0
            case Aggregation.TOKEN_MEAN:
                return 1.0 / num_tokens
            case Aggregation.SEQ_MEAN_TOKEN_MEAN:
                return 1.0 / (num_sequences * count)
            case Aggregation.SEQ_MEAN_TOKEN_SUM_NORM:
                return 1.0 / (num_sequences * constant)

    return tuple(np.where(mask, weight(count), 0.0) for mask, count in zip(included_DT, counts_D, strict=True))


def _check_constant(aggregation: Aggregation, constant: float) -> None:
    if aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM_NORM:
        if not 0.0 < constant < math.inf:
            raise ConfigError(
                f"{aggregation} divides by a constant number of tokens",
                field="constant",
                value=constant,
                allowed="> 0 and finite, for example max_tokens",
            )
    elif not math.isnan(constant):
        raise ConfigError(
            f"{aggregation} takes no constant",
            field="constant",
            value=constant,
            allowed=f"only with {Aggregation.SEQ_MEAN_TOKEN_SUM_NORM}",
        )


def _tokens_that_count(mask: NDArray[np.generic], datum_idx: int) -> NDArray[np.bool_]:
    counted = np.asarray(mask) != 0
    if counted.ndim != 1 or not np.array_equal(np.asarray(mask), counted):
        raise InputError(
            "a mask says of every token whether it counts",
            field=f"masks[{datum_idx}]",
            value=np.asarray(mask).tolist(),
            allowed="one dimension, values 0 and 1",
        )
    return counted
