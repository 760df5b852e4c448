"""Model that a plan names, what a server calls it, and whether its rates are its own. Reads no weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.keys import Circumstances
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.models.published.packaged import PREFIX, packaged_model
from tinsmith.models.published.sources import find_model, is_here
from tinsmith.types.errors import ConfigError

SERVED_NAME: Final = "base"
"""What an embedded server calls a model that was given as a folder or a file."""

CARD: Final = "base.json"
"""In the folder of a nano base: what it was built from."""

_OF_TASKS: Final = (Kind.RLVR, Kind.TASK, Kind.TASK_SFT, Kind.TASK_SPARSE)
_AS_SMALL: Final = ("tinsmith/nano", "tinsmith/tiny", "tinsmith/moe-nano")
"""Built-in models that the rates of `at=nano` are for as well."""


def served_name(model_name: str | None, base_url: str | None) -> str:
    """Return what a run's server calls the model of this `model_name`."""
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
    """Return the model's name as served and where it comes from; None: the nano base, which is built."""
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


def require_own_rates(plan: Plan) -> None:
    """Check that a model that is not the nano base is not trained at the nano base's rates unless they are asked for.

    A rate that suits a million parameters is ten times too high for a hundred million: the run would not fail, but end
    in noise. A folder with the card of a nano base is one, wherever it lies.
    """
    named = plan.circumstances.model_name
    if plan.frame.at is not At.NANO or named is None or named in _AS_SMALL:
        return
    if plan.circumstances.base_url is None and (Path(named) / CARD).is_file():
        return
    given = {*plan.overrides, *(plan.experiment.delta if plan.frame.kind in _OF_TASKS else ())}
    missing = [key for key in _rates(plan) if key not in given]
    if missing:
        small = "at=small, which has rates for a small pretrained model; or "
        raise ConfigError(
            "no learning rate is known for this model, and none is given",
            field="model_name",
            value=named,
            fix=(small if At.SMALL in plan.entry.places else "")
            + " ".join(f"{key}=..." for key in missing)
            + " of your own",
        )


def _rates(plan: Plan) -> list[str]:
    """Return the keys of the rates that something is trained at."""
    settings = plan.settings
    rates = ["learning_rate"] if settings.steps else []
    if isinstance(settings, RlSettings) and settings.sft_steps:
        rates.append("sft_learning_rate")
    return rates
