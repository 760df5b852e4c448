"""Whether the sampler and the trainer are one model: their log-probabilities of the same tokens, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import mean
from tinsmith.ops.objectives import kl
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True)
class ParityRecord:
    """What a whole run's comparisons add up to, as the gate asks for it."""

    steps: int
    unequal_bits: int  # Sum over the steps.


@dataclass(frozen=True, slots=True)
class Parity:
    """Sampled tokens' log-probabilities q (sampler) and p (trainer), in nats; d = log q - log p.

    `kl_k1` is the mean of d, `kl_k2` of d^2/2, `kl_k3` of exp(-d) - 1 + d, all estimates of
    KL(sampler || trainer) because the tokens come from the sampler. On one model all are 0.0.
    """

    num_tokens: int
    unequal_bits: int  # Tokens whose two log-probabilities are not the same float.
    max_difference: float  # Largest |d|.
    mean_difference: float  # Mean |d|.
    kl_k1: float
    kl_k2: float
    kl_k3: float

    @property
    def exact(self) -> bool:
        """Whether every token's two log-probabilities are the same bits."""
        return self.unequal_bits == 0

    def metrics(self, prefix: str = "optim") -> Mapping[str, float]:
        """Return the figures by their names in metrics.jsonl."""
        return {
            f"{prefix}/kl_sample_train": self.kl_k1,
            f"{prefix}/kl_sample_train_k2": self.kl_k2,
            f"{prefix}/kl_sample_train_k3": self.kl_k3,
            f"{prefix}/max_logprob_difference": self.max_difference,
            f"{prefix}/mean_logprob_difference": self.mean_difference,
            f"{prefix}/unequal_logprob_bits": float(self.unequal_bits),
        }


def parity(sampler: NDArray[np.float32], trainer: NDArray[np.float32]) -> Parity:
    """Compare two arrays of log-probabilities, (T,) float32, of the same sampled tokens.

    Bits are compared, not values: 0.0 and -0.0 differ. Sums are rounded once, so that no order of
    tokens changes a figure.
    Source: k1 and k2 are the cookbook's kl_sample_train_v1 and _v2; k3 is Schulman's (2020).

    >>> parity(np.float32([-1.0, -2.0]), np.float32([-1.0, -2.0])).exact
    True
    """
    for name, values in (("sampler", sampler), ("trainer", trainer)):
        if values.dtype != np.float32 or values.ndim != 1 or not values.size:
            raise DataError(
                "log-probabilities are one float32 a token; others have other bits",
                field=f"{name}.shape, dtype",
                value=(values.shape, str(values.dtype)),
                allowed="(T,) with T >= 1, float32",
            )
        if not np.isfinite(values).all():
            raise DataError("a log-probability is not a finite number", field=name)
    if sampler.shape != trainer.shape:
        raise DataError(
            "sampler and trainer must have scored the same tokens", field="tokens", value=(sampler.size, trainer.size)
        )
    unequal = np.ascontiguousarray(sampler).view(np.uint32) != np.ascontiguousarray(trainer).view(np.uint32)
    d = sampler.astype(np.float64) - trainer.astype(np.float64)
    return Parity(
        num_tokens=int(d.size),
        unequal_bits=int(unequal.sum()),
        max_difference=float(np.abs(d).max()),
        mean_difference=mean(np.abs(d)),
        kl_k1=mean(kl.k1(d)),
        kl_k2=mean(kl.k2(d)),
        kl_k3=mean(kl.k3(d)),
    )
