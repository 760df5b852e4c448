"""What a run is about: papers with labels, or tasks with rubrics. All that the rest of a run need not know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from tinsmith.experiments.keys import Circumstances
from tinsmith.experiments.worlds import Told
from tinsmith.models.packaged import PREFIX, packaged_model
from tinsmith.models.sources import find_model, is_here
from tinsmith.runs.run_folder import RunFolder
from tinsmith.training.connect import Connection
from tinsmith.training.course import Course

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
    """Whether a judge or challenger of this name is a model that a run's own server loads beside the trained one.

    A path always is; a name only where no other server is asked, which may serve it itself, and only if it is not that
    of the trained one.
    """
    if Path(name).exists():
        return True
    if where.base_url is not None or name == where.model_name:
        return False
    return name.startswith(PREFIX) or packaged_model(name) is not None or is_here(name)


class Matter(Protocol):
    """See the module."""

    def identity(self) -> Mapping[str, object]:
        """Return what of it decides results, beside the plan's own keys; `data` says which data these are."""
        ...

    def config(self) -> Mapping[str, object]:
        """Return what `config.json` says of it: `task`, `reward`, `data`."""
        ...

    def circumstances(self) -> Mapping[str, object]:
        """Return where it was found."""
        ...

    def nano_base(self, told: Told) -> Path:
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

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[Any, Any]:
        """Return what is trained on."""
        ...
