"""Files of studies: those of users, and what a study leaves in its folder, beside its runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tinsmith.lab.study.study import Study
from tinsmith.lab.user_task.loading import load_module
from tinsmith.types.errors import ConfigError

_DEFINED: Final = re.compile(r"^study\b[^=\n]*=", re.MULTILINE)
STUDY_JSON: Final = "study.json"
"""The same bytes wherever and however often the study is run."""
SECONDS_JSON: Final = "seconds.json"
TABLES: Final = "study.md"
PAGE: Final = "index.html"


def holds_study(folder: Path) -> bool:
    """Whether a study came to its end in a folder."""
    return all((folder / name).is_file() for name in (STUDY_JSON, PAGE, TABLES))


def load_study(path: Path) -> Study | None:
    """Return the study of a file; None: it defines none, and is not run.

    Raises:
        ConfigError: the file cannot be run, or its `study` is something else.
    """
    path = path.absolute()
    if path.suffix != ".py" or not path.is_file() or not _DEFINED.search(path.read_text("utf-8", errors="replace")):
        return None
    module, _ = load_module(path)
    found = vars(module).get("study")
    if not isinstance(found, Study):
        raise ConfigError(
            f"{path.name}: study is no tinsmith.Study", field="study", value=type(found).__name__, allowed="Study(...)"
        )
    return found
