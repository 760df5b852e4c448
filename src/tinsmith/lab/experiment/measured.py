"""Times of runs on this machine beside their forecasts, by which the next forecast of such a run is corrected."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final, cast

from tinsmith.data.replacing import replacing
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.types.home import home

START_SECONDS: Final = 10.0
"""To start the server, load the model and save at the end."""
_CORES: Final = 2
"""Of the machine that the paces were measured on."""
_FILE: Final = "paces.json"
_MOST: Final = 16.0
"""The most that a forecast is corrected by, either way."""


def correction(plan: Plan) -> float:
    """Return how many times as long as on two cores the last run of this model took here, with as many threads.

    Where there was none: 1, or as many times as its threads are fewer than these cores.
    """
    threads = plan.circumstances.threads
    usual = max(1.0, _CORES / threads) if threads else 1.0
    found = _known().get(_key(plan), usual)
    return found if isinstance(found, float) and 1 / _MOST <= found <= _MOST else usual


def remember(plan: Plan, forecast: float | None, took: float) -> None:
    """Keep how long a whole run took, in seconds, beside its forecast; a short run is no measure."""
    if forecast is None or min(forecast, took) <= 2 * START_SECONDS:
        return
    factor = correction(plan) * (took - START_SECONDS) / (forecast - START_SECONDS)
    known = {**_known(), _key(plan): min(_MOST, max(1 / _MOST, factor))}
    with suppress(OSError), replacing(home() / _FILE) as part:  # a forecast ends no run
        part.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _known() -> dict[str, object]:
    with suppress(OSError, ValueError):
        found: object = json.loads((home() / _FILE).read_bytes())
        if isinstance(found, dict):
            return cast("dict[str, object]", found)
    return {}


def _key(plan: Plan) -> str:
    where = plan.circumstances
    return f"{where.model_name or 'nano'}, {where.threads or 'all'} threads"
