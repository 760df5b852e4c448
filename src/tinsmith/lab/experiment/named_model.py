"""Which model a plan names and what a server calls it; refuses a plan without one that it needs. Reads no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.keys import Circumstances
from tinsmith.lab.experiment.own_rates import require_own_rates
from tinsmith.models.published.packaged import PREFIX, packaged_model
from tinsmith.models.published.sources import find_model, is_here
from tinsmith.types.errors import ConfigError

SERVED_NAME: Final = "base"
"""What an embedded server calls a model that was given as a folder or a file."""


def served_name(model_name: str | None, base_url: str | None) -> str:
    """Return what a run's server calls the model of this `model_name`.

    Raises:
        ConfigError: the run serves it itself, and there is no such model.
    """
    if model_name is None:
        return SERVED_NAME
    if base_url is not None:
        return model_name
    return find_model(model_name, field="model_name").served_name or SERVED_NAME


def is_loaded_here(name: str, where: Circumstances) -> bool:
    """Whether a judge or another model of this name is a model that a run's own server loads beside the trained one.

    A path always is; a name only where no other server is asked, which may serve it itself, and only if it is not that
    of the trained one.
    """
    if Path(name).exists():
        return True
    if where.base_url is not None or name == where.model_name:
        return False
    return name.startswith(PREFIX) or packaged_model(name) is not None or is_here(name)


def named_model(plan: Plan) -> tuple[str, str] | None:
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
            "at=seed has the settings for a large model, and none is named",
            field="model_name",
            fix="model_name=FOLDER (or FILE.gguf, smollm2, ORG/NAME), or base_url=... and model_name=NAME; "
            "at=nano builds its own",
        )
    if where.model_name is None:
        return None
    named = served_name(where.model_name, where.base_url)
    require_own_rates(plan)
    return named, where.model_name
