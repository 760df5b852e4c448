"""The parts of an engine that can be exchanged: how a policy is made, what samples, in which order datums are taken.

The defaults are the engine. Others are put in their place only to show that the checks find what they break.
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
"""From a count of datums, their indices in the order in which they are taken: that of the units, and so of the sums."""


def unmerged(adapter: Adapter) -> Policy:
    """Sampling through the trainer's own weights."""
    return Policy(adapter.decoder, adapter.low, adapter)


def the_trainers(kernels: Kernels) -> Kernels:
    """Sampling with the trainer's own kernels."""
    return kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of an engine."""

    deviation: Deviation = Deviation.NONE
    """Deviation that the other parts amount to."""
    policy_of: PolicyOf = unmerged
    sampling: Callable[[Kernels], Kernels] = the_trainers
    """The sampler's kernels, from the trainer's."""
    order: DatumOrder = range


SOUND = Parts()
"""The engine as promised."""
