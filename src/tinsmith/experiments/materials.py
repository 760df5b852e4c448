"""What a plan runs on: what it is about, and the model under its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.experiments.debate_matter import debate_matter
from tinsmith.experiments.keys import At, DebateFrame, RubricFrame
from tinsmith.experiments.matter import SERVED_NAME, Matter, served_name
from tinsmith.experiments.own_rates import require_own_rates
from tinsmith.experiments.paper_matter import slice_matter
from tinsmith.experiments.plan import Plan
from tinsmith.experiments.rubric_matter import rubric_matter
from tinsmith.experiments.worlds import Told
from tinsmith.types.errors import ConfigError


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
    _named_model(plan)  # what is refused is told before a world is built
    matter: Matter
    if isinstance(plan.frame, RubricFrame):
        matter = rubric_matter(plan)
    elif isinstance(plan.frame, DebateFrame):
        matter = debate_matter(plan, plan.frame, told)
    else:
        matter = slice_matter(plan, told)
    return with_model(plan, matter, told)


def with_model(plan: Plan, matter: Matter, told: Told) -> Materials:
    """Find or build the model for this matter.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
    """
    named = _named_model(plan)
    if plan.circumstances.base_url is not None:
        assert named is not None, "a server elsewhere has no model without a name"
        return Materials(matter=matter, model_name=named[0], models={})
    name, source = named or (SERVED_NAME, str(matter.nano_base(told)))
    return Materials(matter=matter, model_name=name, models={name: source, **matter.models()})


def _named_model(plan: Plan) -> tuple[str, str] | None:
    """Return the model's name as served and where it comes from; None: the nano base, which is built.

    Raises:
        ConfigError: a model is named that is not there or has no rates here, or none where one is needed.
    """
    where = plan.circumstances
    if where.base_url is not None and where.model_name is None:
        raise ConfigError(
            "base_url is set, but no model that it serves is named",
            field="model_name",
            fix="model_name=NAME, as the server lists it",
        )
    if where.model_name is None and plan.frame.at is At.SEED:
        raise ConfigError(
            "at=seed needs a model, and none is named",
            field="model_name",
            fix="model_name=FOLDER (or FILE.gguf, smollm2, ORG/NAME), or base_url=... and model_name=NAME; "
            "at=nano builds its own",
        )
    if where.model_name is None:
        return None
    named = served_name(where.model_name, where.base_url)
    require_own_rates(plan)
    return named, where.model_name
