"""What a run would take, before it is run: identity, changes, time and disk, from a few measured rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.fingerprints import plan_fingerprint
from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.experiment.model_pace import MEASURED_PARAMETERS, NANO_PACE, Pace, machine_pace
from tinsmith.lab.experiment.named_model import require_own_rates
from tinsmith.lab.experiment.place_limits import place_limits
from tinsmith.lab.experiment.places import SMALL_MODEL
from tinsmith.lab.papers.compute_spent import Cost
from tinsmith.models.base import read_shape
from tinsmith.models.published.sources import is_here

RUN_MEGABYTES: Final = 20
"""Of a run's folder."""


def dry_run(plan: Plan) -> list[str]:
    """Return what a person wants to know before starting; nothing is written or built."""
    require_own_rates(plan)
    return [
        f"{plan.title}: {plan.experiment.question}",
        *_descent(plan),
        f"values: {_listed(plan.resolved())}",
        f"identity (without data and model): {plan_fingerprint(plan)[:16]}",
        *place_limits(plan),
        *plan.experiment.subject.forecast(plan),
    ]


def _descent(plan: Plan) -> list[str]:
    """Say what the experiment changes in its parent, and what was changed of it here."""
    experiment = plan.experiment
    parent = "no parent" if experiment.parent is None else f"parent: {experiment.parent.name}"
    lines = [f"{parent}; its own: {_listed(experiment.delta)}"]
    if plan.overrides:
        lines.append(f"changed here: {_listed(plan.overrides)}")
    return lines


def _listed(values: Mapping[str, object]) -> str:
    return " ".join(f"{key}={shown_value(value)}" for key, value in values.items())


def time_and_disk(taken: float | None, megabytes: int) -> str:
    """Say how many minutes something takes, if that is known, and what it leaves on disk."""
    if taken is None:
        return "unknown: it depends on the server and its model"
    digits = 1 if taken < 10.0 else 0
    told = f"{taken:.{digits}f} minutes" if taken < 180.0 else f"{taken / 60.0:.0f} hours"
    return f"about {told} on two cores; about {megabytes} MB of disk"


def pace_of(plan: Plan) -> Pace | None:
    """Return the pace of the model that a plan names, or of a nano base; None: its size or its machine is not known."""
    where = plan.circumstances
    if where.base_url is not None or where.device != "cpu":
        return None
    if where.model_name is None:
        return NANO_PACE
    parameters = _parameters(where.model_name)
    return None if parameters is None else machine_pace(parameters)


def _parameters(model_name: str) -> int | None:
    if model_name == SMALL_MODEL:
        return MEASURED_PARAMETERS  # whether or not it was fetched yet
    if not is_here(model_name):
        return None
    return Cost(read_shape(model_name)).parameters
