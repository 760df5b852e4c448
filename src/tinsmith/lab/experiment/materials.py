"""What a plan runs on: what it is about, and the model under its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.matter import Matter
from tinsmith.lab.experiment.named_model import SERVED_NAME, named_model
from tinsmith.lab.progress import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    matter: Matter
    model_name: str
    """As the server knows it, without the adapter's suffix."""
    models: Mapping[str, str]
    """What an embedded server serves; empty where another server is used."""


def gather(plan: Plan, told: Told) -> Materials:
    """Find or build the data and the model.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
        DataError: the data cannot be used.
    """
    named_model(plan)  # what is refused is told before a world is built
    return with_model(plan, plan.experiment.subject.matter(plan, told), told)


def with_model(plan: Plan, matter: Matter, told: Told) -> Materials:
    """Find or build the model for this matter.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
    """
    named = named_model(plan)
    if plan.circumstances.base_url is not None:
        assert named is not None, "a server elsewhere has no model without a name"
        return Materials(matter=matter, model_name=named[0], models={})
    name, source = named or (SERVED_NAME, str(matter.nano_base(told)))
    return Materials(matter=matter, model_name=name, models={name: source, **matter.models()})
