"""What a study leaves in its folder, beside its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

STUDY_JSON: Final = "study.json"
"""The same bytes wherever and however often the study is run."""
SECONDS_JSON: Final = "seconds.json"
TABLES: Final = "study.md"
PAGE: Final = "index.html"


def holds_study(folder: Path) -> bool:
    """Whether a study came to its end in a folder."""
    return all((folder / name).is_file() for name in (STUDY_JSON, PAGE, TABLES))
