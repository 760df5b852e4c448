"""Warnings about settings that are far from what is usual, each with the usual range."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.settings import RlSettings

_RATES: Final = ("learning_rate", "sft_learning_rate")
_FACTOR: Final = 10.0
"""A rate more than so many times the usual one, or as many times below it, is warned about."""
_TEMPERATURES: Final = (0.5, 1.3)


def unusual(plan: Plan) -> list[str]:
    """Return a line for each setting that was given and is far from the usual one; nothing is refused."""
    given = {key: value for key, value in plan.overrides.items() if key in (*_RATES, "temperature")}
    if not given:
        return []
    keys = plan.experiment.subject.kinds[plan.frame.kind].keys.known
    others = {key: str(value) for key, value in plan.overrides.items() if key not in given and key in ("at", "kind")}
    usual = make_plan(plan.experiment, {"at": plan.frame.at.value, **others}).settings
    found: list[str] = []
    for key in _RATES:
        rate, middle = (getattr(one, key, 0.0) for one in (plan.settings, usual))
        if key in given and key in keys and rate and middle and not middle / _FACTOR <= rate <= middle * _FACTOR:
            found.append(
                f"warning: {key}={rate:g} is far from what is usual at={plan.frame.at.value}: "
                f"{middle / _FACTOR:g} to {middle * _FACTOR:g}, mostly {middle:g}"
            )
    low, high = _TEMPERATURES
    temperature = plan.settings.temperature
    if isinstance(plan.settings, RlSettings) and "temperature" in given and not low <= temperature <= high:
        why = "answers of a group become alike, and alike ones teach nothing" if temperature < low else "answers decay"
        found.append(f"warning: temperature={temperature:g} is unusual: {low:g} to {high:g} are usual; {why}")
    return found
