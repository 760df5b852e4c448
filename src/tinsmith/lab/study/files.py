"""Files of studies: those of users, and what a study leaves in its folder, beside its runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Final, TypeVar

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.lab.study.keys import Measurement
from tinsmith.lab.study.study import Study
from tinsmith.lab.user_task.functions import load_module
from tinsmith.types.errors import ConfigError
from tinsmith.types.version import VERSION

T = TypeVar("T")
_DEFINED: Final = re.compile(r"^(?:study\b[^=\n]*=|def study\()", re.MULTILINE)
STUDY_JSON: Final = "study.json"  # The same bytes wherever and however often the study is run.
SECONDS_JSON: Final = "seconds.json"
TABLES: Final = "study.md"
PAGE: Final = "index.html"
SECTIONS: Final = "sections.json"  # Titles of the page's sections that do not follow from the values, if there are any.


def holds_study(folder: Path) -> bool:
    """Return true if a study came to its end in a folder."""
    return all((folder / name).is_file() for name in (STUDY_JSON, PAGE, TABLES))


def made_once(file: Path, request: object, kind: type[T], make: Callable[[], T]) -> T:
    """Return what a file holds, if it is of this version and was asked for in the same way; else make and write it."""
    key = [VERSION, msgspec.json.decode(msgspec.json.encode(request))]
    try:
        before = msgspec.json.decode(file.read_bytes())
        if before["asked"] == key:
            return msgspec.convert(before["made"], kind)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError):
        pass  # none, or one of another version
    made = make()
    write_text(msgspec.json.encode({"asked": key, "made": made}).decode() + "\n", file)
    return made


def write_text(text: str, file: Path) -> None:
    """Write a text, making its folder; the file is the old one or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_json(value: object, file: Path, *, sort_keys: bool = False) -> None:
    """Write a value as JSON; the file is the old one or the new one."""
    write_text(json.dumps(value, indent=1, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False) + "\n", file)


def defines_study(path: Path) -> bool:
    """True if a Python file defines a study; it is not run."""
    return path.suffix == ".py" and path.is_file() and bool(_DEFINED.search(path.read_text("utf-8", errors="replace")))


def load_study(path: Path) -> Study | Measurement | None:
    """Return the study of a file, or its measurement; None: it defines none, and is not run."""
    path = path.absolute()
    if not defines_study(path):
        return None
    module, _ = load_module(path)
    found = vars(module).get("study")
    if not isinstance(found, Study | FunctionType):
        what, allowed = f"{path.name}: study is not a tinsmith.Study", "Study(...), or a function that measures"
        raise ConfigError(what, field="study", value=type(found).__name__, allowed=allowed)
    return found
