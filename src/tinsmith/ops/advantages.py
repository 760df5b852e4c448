"""Advantages of one group's rewards: the subtracted baseline, and the divisor.

Axis: `_G` the rollouts of one group (one prompt). All functions are pure, work in float64, do not depend on the order
of the group, and give exact zeros where all rewards are equal: a constant group is detected by comparison, not by a
small number added to the standard deviation. Rewards must be finite; the caller leaves failed rollouts out, and never
gives them a reward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from tinsmith.ops.exact import Float64Array, mean
from tinsmith.types.errors import InputError


class Advantage(StrEnum):
    """Formula from a group's rewards to advantages."""

    CENTER = "center"
    """Reward minus the group mean; Tinker's."""
    STD = "std"
    """Reward minus the mean, divided by the population standard deviation; GRPO's."""
    STD_DDOF1 = "std_ddof1"
    """Reward minus the mean, divided by the sample standard deviation (G - 1 in the variance)."""
    RLOO = "rloo"
    """Reward minus the mean of the other rewards."""
    DRGRPO = "drgrpo"
    """Dr. GRPO's advantage, which is CENTER; its other half is Aggregation.SEQ_MEAN_TOKEN_SUM_NORM."""


def center_within_group(rewards_G: Float64Array) -> Float64Array:
    """Subtract the group mean: the GRPO advantage without division by the standard deviation.

    Source: arXiv:2402.03300 sec. 4.1.2, minus the std term (arXiv:2503.20783 sec. 3.2).

    Args:
        rewards_G: shape (G,), G >= 1, float64.

    Returns:
        Shape (G,). A constant group gives zeros, and so does a group of one.

    Raises:
        InputError: for an empty group, another shape, or a reward that is not finite.

    >>> center_within_group(np.array([1.0, 0.0]))
    array([ 0.5, -0.5])
    """
    rewards_G = _checked(rewards_G, smallest=1, rule="center")
    if _constant(rewards_G):
        return np.zeros_like(rewards_G)
    centred_G = rewards_G - mean(rewards_G)
    return centred_G - mean(centred_G)  # corrects the rounding of the first mean


def standardise_within_group(rewards_G: Float64Array) -> Float64Array:
    """Subtract the group mean and divide by the population standard deviation.

    With two rollouts this is the sign of the reward difference: every reward weight is erased.
    Source: arXiv:2402.03300 sec. 4.1.2; no epsilon in the denominator.

    Args:
        rewards_G: shape (G,), G >= 1, float64.

    Returns:
        Shape (G,). A constant group gives zeros, and so does a group of one.

    Raises:
        InputError: for an empty group, another shape, or a reward that is not finite.

    >>> standardise_within_group(np.array([3.0, 1.0]))
    array([ 1., -1.])
    """
    return _standardise(_checked(rewards_G, smallest=1, rule="std"), ddof=0)


def standardise_within_group_ddof1(rewards_G: Float64Array) -> Float64Array:
    """Subtract the group mean and divide by the sample standard deviation (variance over G - 1).

    Source: arXiv:2402.03300 sec. 4.1.2 with torch's default `std`, as most implementations have it.

    Args:
        rewards_G: shape (G,), G >= 2, float64.

    Returns:
        Shape (G,). A constant group gives zeros.

    Raises:
        InputError: for a group of fewer than two, another shape, or a reward that is not finite.
    """
    return _standardise(_checked(rewards_G, smallest=2, rule="std_ddof1"), ddof=1)


def leave_one_out(rewards_G: Float64Array) -> Float64Array:
    """Subtract from each reward the mean of the others: G / (G - 1) times the centred reward.

    Source: arXiv:2402.14740 (RLOO); the baseline does not contain the sample itself.

    Args:
        rewards_G: shape (G,), G >= 2, float64.

    Returns:
        Shape (G,). A constant group gives zeros.

    Raises:
        InputError: for a group of fewer than two, another shape, or a reward that is not finite.

    >>> leave_one_out(np.array([1.0, 0.0]))
    array([ 1., -1.])
    """
    rewards_G = _checked(rewards_G, smallest=2, rule="rloo")
    size = rewards_G.size
    return center_within_group(rewards_G) * (size / (size - 1))


ADVANTAGES: Mapping[Advantage, Callable[[Float64Array], Float64Array]] = MappingProxyType(
    {
        Advantage.CENTER: center_within_group,
        Advantage.STD: standardise_within_group,
        Advantage.STD_DDOF1: standardise_within_group_ddof1,
        Advantage.RLOO: leave_one_out,
        Advantage.DRGRPO: center_within_group,
    }
)


def overlong_penalty(length: int, *, max_length: int, cache: int) -> float:
    """Return DAPO's soft penalty on a response's length, to be added to its reward.

    0 up to max_length - cache tokens; (max_length - cache - length) / cache in the cache zone;
    -1 beyond max_length. Source: arXiv:2503.14476 sec. 3.4 (there 20480 and 4096).

    Raises:
        InputError: for a negative length, or unless 0 < cache <= max_length.

    >>> overlong_penalty(18432, max_length=20480, cache=4096)
    -0.5
    """
    if length < 0:
        raise InputError("a length must be a number of tokens", field="length", value=length, allowed=">= 0")
    if not 0 < cache <= max_length:
        raise InputError(
            "the penalty rises over the last `cache` tokens",
            field="cache",
            value=cache,
            allowed=f"1 to max_length = {max_length}",
        )
    free = max_length - cache
    if length <= free:
        return 0.0
    return (free - length) / cache if length <= max_length else -1.0


def _standardise(rewards_G: Float64Array, *, ddof: int) -> Float64Array:
    if _constant(rewards_G):
        return np.zeros_like(rewards_G)
    centred_G = rewards_G - mean(rewards_G)
    centred_G = centred_G / np.abs(centred_G).max()  # so that no square under- or overflows
    centred_G = centred_G - mean(centred_G)  # corrects the rounding of the first mean
    variance = mean(centred_G * centred_G) * (centred_G.size / (centred_G.size - ddof))
    return centred_G / math.sqrt(variance)


def _constant(rewards_G: Float64Array) -> bool:
    return bool((rewards_G == rewards_G[0]).all())


def _checked(rewards_G: Float64Array, *, smallest: int, rule: str) -> Float64Array:
    rewards_G = np.asarray(rewards_G, dtype=np.float64)
    if rewards_G.ndim != 1 or rewards_G.size < smallest:
        raise InputError(
            f"the advantage {rule!r} takes one group's rewards",
            field="rewards.shape",
            value=rewards_G.shape,
            allowed=f"(G,) with G >= {smallest}",
        )
    if not np.isfinite(rewards_G).all():
        raise InputError(
            "a reward is not a finite number",
            field="rewards",
            value=rewards_G.tolist(),
            fix="leave failed rollouts out of the group before advantages are computed",
        )
    return rewards_G
