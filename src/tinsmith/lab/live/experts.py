"""A mixture's experts in a run: what a server tells of their loads, as metrics, and the alarm when many are idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tinsmith.stats.monitors.alarms import Alarm
from tinsmith.stats.monitors.run_monitors import ExpertMonitor

WITH_TOKENS = "moe/frac_with_tokens"
_TOLD = {
    "e_frac_with_tokens:mean": WITH_TOKENS,
    "e_frac_oversubscribed:mean": "moe/frac_oversubscribed",
    "e_max_violation:mean": "moe/max_violation",
    "e_max_violation:max": "moe/max_violation_of_a_layer",
    "e_min_violation:mean": "moe/min_violation",
    "e_router_entropy:mean": "moe/router_entropy",
}
_LOAD = "e_tokens/"


def expert_metrics(told: Mapping[str, float]) -> dict[str, float]:
    """Return metrics `moe/...` of what came with a loss; nothing where the model is no mixture.

    The Tinker SDK names the first five (types.ForwardBackwardOutput.metrics); `moe/router_entropy` is a share of that
    of equal probabilities, and `moe/tokens/LAYER/EXPERT` a load, told of models with few experts.
    """
    found = {ours: told[theirs] for theirs, ours in _TOLD.items() if theirs in told}
    for name in sorted(told):
        if name.startswith(_LOAD):
            found["moe/tokens/" + name.removeprefix(_LOAD).removesuffix(":sum")] = told[name]
    return found


def route_metrics(told: Mapping[str, float]) -> dict[str, float]:
    """Return how many of the trained tokens the sampler had sent to other experts, of how many it could tell."""
    names = {"optim/unequal_routes": "e_unequal_routes:sum", "optim/compared_routes": "e_compared_routes:sum"}
    return {ours: told[theirs] for ours, theirs in names.items() if theirs in told}


@dataclass(slots=True)
class ExpertWatch:
    """Looks at the metrics of a run's steps, in their order."""

    monitor: ExpertMonitor = field(default_factory=ExpertMonitor)

    def saw(self, step: int, metrics: Mapping[str, float]) -> list[Alarm]:
        """Take a step in; return the alarms that begin with it."""
        share = metrics.get(WITH_TOKENS)
        return [] if share is None else self.monitor.observe(step, 1.0 - share)

    def restore(self, lines: Iterable[Mapping[str, object]]) -> None:
        """Go on from the metrics that a run had written."""
        for line in lines:
            step, share = line.get("step"), line.get(WITH_TOKENS)
            if isinstance(step, int) and isinstance(share, float):
                self.monitor.observe(step, 1.0 - share)
