"""Exchangeable parts of an engine: the policy, the sampler's kernels and the order of datums.

The defaults make the engine as promised. Others replace them only to show that the checks detect the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinsmith.engine.sequences import Policy
from tinsmith.models.adapter import Adapter
from tinsmith.ops.kernels import Kernels
from tinsmith.types.deviation import Deviation

PolicyOf = Callable[[Adapter], Policy]
"""Function from an adapter to the policy that is sampled."""

DatumOrder = Callable[[int], Sequence[int]]
"""Function from a number of datums to the order of their indices, which is that of the units and so of the sums."""


def unmerged(adapter: Adapter) -> Policy:
    """Sample through the trainer's own weights."""
    return Policy(adapter.decoder, adapter.low, adapter)


def the_trainers(kernels: Kernels) -> Kernels:
    """Sample with the trainer's own kernels."""
    return kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Exchangeable parts of an engine."""

    deviation: Deviation = Deviation.NONE
    """Name of the deviation that the parts below implement."""
    policy_of: PolicyOf = unmerged
    sampling: Callable[[Kernels], Kernels] = the_trainers
    """Function from the trainer's kernels to the sampler's."""
    order: DatumOrder = range


SOUND = Parts()
"""Parts of an engine without a deviation."""
