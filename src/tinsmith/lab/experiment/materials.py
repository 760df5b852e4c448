"""What a plan runs on: what it is about, papers or tasks, of which the rest of a run need not know; and the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import SERVED_NAME, named_model
from tinsmith.lab.live.progress import Say

if TYPE_CHECKING:
    from tinsmith.lab.papers.run_data import PaperData
    from tinsmith.lab.user_task.run_data import TaskData


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    run_data: TaskData | PaperData
    model_name: str
    """As the server knows it, without the adapter's suffix."""
    models: Mapping[str, str]
    """What an embedded server serves; empty where another server is used."""


def gather(plan: Plan, say: Say) -> Materials:
    """Find or build the data and the model."""
    named_model(plan)  # what is refused is told before a world is built
    return with_model(plan, plan.experiment.subject.run_data(plan, say), say)


def with_model(plan: Plan, run_data: TaskData | PaperData, say: Say) -> Materials:
    """Find or build the model for this data."""
    named = named_model(plan)
    if plan.circumstances.base_url is not None:
        assert named is not None, "a server elsewhere has no model without a name"
        return Materials(run_data=run_data, model_name=named[0], models={})
    name, source = named or (SERVED_NAME, str(run_data.nano_base(say)))
    return Materials(run_data=run_data, model_name=name, models={name: source, **run_data.models()})
