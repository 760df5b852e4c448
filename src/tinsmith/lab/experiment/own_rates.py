"""Refuses to train one model at learning rates that were found for another, and says where its own come from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.types.errors import ConfigError

CARD: Final = "base.json"
"""In the folder of a nano base: what it was built from."""

_OF_TASKS: Final = (Kind.RLVR, Kind.TASK, Kind.TASK_SFT, Kind.TASK_SPARSE)
_AS_SMALL: Final = ("tinsmith/nano", "tinsmith/tiny", "tinsmith/moe-nano")
"""Built-in models that the rates of `at=nano` are for as well."""


def require_own_rates(plan: Plan) -> None:
    """Check that a model that is not the nano base is not trained at the nano base's rates unless they are asked for.

    A rate that suits a million parameters is ten times too high for a hundred million: the run would not fail, but end
    in noise. A folder with the card of a nano base is one, wherever it lies.

    Raises:
        ConfigError: a rate was not given, and the place's is for another model.
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
