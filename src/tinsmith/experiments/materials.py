"""What a plan runs on: its papers, which papers these are, and the model under its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.base_model import BaseRecipe
from tinsmith.experiments.plan import At, Plan
from tinsmith.experiments.worlds import (
    Told,
    WorldRecipe,
    nano_base,
    open_slice,
    papers_of,
    slice_identity,
    world_slice,
)
from tinsmith.training.study import Papers
from tinsmith.types.errors import ConfigError

SERVED_NAME = "base"
"""What an embedded server calls a model that was given as a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    papers: Papers
    data: Mapping[str, object]
    """Which papers these are, wherever they lie; `sha256` is over all of them."""
    source: Slice | None
    """Where the papers are from, with its baselines; None: they were handed over."""
    model_name: str
    """As the server knows it, without the adapter's suffix."""
    models: Mapping[str, str]
    """What an embedded server serves; empty where another server is used."""


def gather(plan: Plan, told: Told) -> Materials:
    """Find or build the papers and the model.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
        DataError: the slice cannot be used.
    """
    where = plan.circumstances
    source = (
        world_slice(WorldRecipe(), told) if where.data is None else open_slice(where.data, told)
    )
    return with_model(
        plan,
        papers_of(source, plan.task, shuffle_seed=shuffle_seed(plan)),
        slice_identity(source),
        told,
        source=source,
    )


def shuffle_seed(plan: Plan) -> int | None:
    """Return the seed to shuffle a plan's training labels with; None: they stay where they are."""
    return plan.settings.seed if plan.frame.shuffle_labels else None


def with_model(
    plan: Plan,
    papers: Papers,
    data: Mapping[str, object],
    told: Told,
    *,
    source: Slice | None = None,
) -> Materials:
    """Find or build the model for these papers.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
    """
    where = plan.circumstances
    models: dict[str, str] = {}
    if where.base_url is not None:
        if where.model_name is None:
            raise ConfigError(
                "a server is named, and no model that it serves",
                field="model_name",
                fix="model_name=NAME, as the server lists it",
            )
        name = where.model_name
    elif where.model_name is not None:
        named = where.model_name.startswith("tinsmith/")
        name = where.model_name if named else SERVED_NAME
        models[name] = where.model_name
    elif plan.frame.at is At.SEED:
        raise ConfigError(
            "the seeds' settings are for a large model, and none is named",
            field="model_name",
            fix="model_name=FOLDER, or base_url=... and model_name=NAME; at=nano builds its own",
        )
    else:
        # It reads papers and no labels: a control with shuffled ones has the same base as what it controls.
        name = SERVED_NAME
        models[name] = str(nano_base(BaseRecipe(), plan.task, papers, told))
    return Materials(papers=papers, data=data, source=source, model_name=name, models=models)
