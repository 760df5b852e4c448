"""What a run is about: papers with labels, or tasks with criteria. All that the rest of a run need not know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tinsmith.lab.course import Course
from tinsmith.lab.progress import Told
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
