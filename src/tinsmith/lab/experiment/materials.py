"""What a plan runs on: what it is about, papers or tasks, of which the rest of a run need not know; and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import SERVED_NAME, named_model
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class RunData(Protocol):
    """What a run is about: its items, and what is said of them in the files of its folder."""

    def identity(self) -> Mapping[str, object]:
        """Return what of it decides results, beside the plan's own keys; `data` says which data these are."""
        ...

    def config(self) -> Mapping[str, object]:
        """Return what `config.json` says of it: `task`, `reward`, `data`."""
        ...

    def circumstances(self) -> Mapping[str, object]:
        """Return where it was found."""
        ...

    def nano_base(self, say: Say) -> Path:
        """Return the folder of the small base that can read it; built where it is not cached."""
        ...

    def models(self) -> Mapping[str, str]:
        """Return what an embedded server serves for it, beside the model that is trained."""
        ...

    def before(self) -> Sequence[str]:
        """Return what a person is told before the run."""
        ...

    def begin(self, folder: RunFolder) -> None:
        """Put into a run's folder what its report needs."""
        ...

    def course(self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection) -> Course[Any, Any]:
        """Return what is trained on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What a plan runs on."""

    run_data: RunData
    model_name: str
    """As the server knows it, without the adapter's suffix."""
    models: Mapping[str, str]
    """What an embedded server serves; empty where another server is used."""


def gather(plan: Plan, say: Say) -> Materials:
    """Find or build the data and the model.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
        DataError: the data cannot be used.
    """
    named_model(plan)  # what is refused is told before a world is built
    return with_model(plan, plan.experiment.subject.run_data(plan, say), say)


def with_model(plan: Plan, run_data: RunData, say: Say) -> Materials:
    """Find or build the model for this data.

    Raises:
        ConfigError: a model is named that is not there, or none where one is needed.
    """
    named = named_model(plan)
    if plan.circumstances.base_url is not None:
        assert named is not None, "a server elsewhere has no model without a name"
        return Materials(run_data=run_data, model_name=named[0], models={})
    name, source = named or (SERVED_NAME, str(run_data.nano_base(say)))
    return Materials(run_data=run_data, model_name=name, models={name: source, **run_data.models()})
