"""pass@k: the probability that at least one of k samples is correct, estimated from n of them."""

from __future__ import annotations

import math

from tinsmith.types.errors import InputError


def pass_at_k(*, n: int, c: int, k: int) -> float:
    """Return 1 - C(n-c, k) / C(n, k), correctly rounded: computed in integers, divided once.

    Source: Chen et al., arXiv:2107.03374 sec. 2.1 (unbiased for every k <= n).

    Args:
        n: number of samples for one problem.
        c: number of correct samples.
        k: size of the hypothetical draw.

    Raises:
        InputError: unless 0 <= c <= n and 1 <= k <= n.

    >>> pass_at_k(n=64, c=1, k=1)
    0.015625
    """
    if not 0 <= c <= n:
        raise InputError("more correct samples than samples", field="c", value=c, allowed=f"0 to {n}")
    if not 1 <= k <= n:
        raise InputError("pass@k needs k of n samples", field="k", value=k, allowed=f"1 to {n}")
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws
