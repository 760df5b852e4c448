"""Three estimators of KL(pi || ref) from tokens drawn from pi.

All take d = log pi(token) - log ref(token) in nats, any shape, and return a value per token. The caller sums, and adds
the result to the reward or the loss.
"""

from __future__ import annotations

import numpy as np

from tinsmith.ops.exact import Float64Array, exp_remainder


def k1(log_ratio: Float64Array) -> Float64Array:
    """Return d: unbiased, of high variance, negative for some tokens.

    In the reward it gives the gradient of the reverse KL; as a loss its expected gradient is zero.
    Source: Schulman, "Approximating KL divergence" (2020); placement: arXiv:2506.09477.
    """
    return np.array(log_ratio, dtype=np.float64)


def k2(log_ratio: Float64Array) -> Float64Array:
    """Return d**2 / 2: biased in value, never negative.

    As a loss its expected gradient is that of the reverse KL.
    Source: Schulman, "Approximating KL divergence" (2020); placement: arXiv:2506.09477.
    """
    return 0.5 * (log_ratio * log_ratio)


def k3(log_ratio: Float64Array) -> Float64Array:
    """Return exp(-d) - 1 + d: unbiased, of low variance, never negative.

    As a loss its expected gradient is that of the forward KL(ref || pi), not of the reverse one.
    Source: Schulman, "Approximating KL divergence" (2020); GRPO's, arXiv:2402.03300 sec. 4.1.1.
    """
    return exp_remainder(-log_ratio)
