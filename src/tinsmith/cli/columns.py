"""Shared parts of commands: options from a dataclass, columns of text, checks of named folders.

Checks are made before anything heavy is imported.
"""

from __future__ import annotations

import inspect
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from tinsmith.cli.completion import complete_here
from tinsmith.types.errors import CheckpointError, ConfigError, DataError, perhaps
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP: Final = "  "
_LEAST: Final = 30  # Characters that the last column needs beside the others; with less room it stands below them.
_UNLIMITED: Final = 1000


def with_options(command: Callable[[Any], None]) -> Callable[..., None]:
    """Return a command with an option for each field of the dataclass that `command` takes."""
    (parameter,) = inspect.signature(command, eval_str=True).parameters.values()
    signature = inspect.signature(parameter.annotation, eval_str=True)

    @wraps(command)
    def run(**options: object) -> None:
        command(parameter.annotation(**options))

    vars(run)["__signature__"] = signature
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return run


def terminal_width() -> int | None:
    """Return the columns of the terminal on standard output; None if it is none, and lines have no limit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def open_console() -> Console:
    """Return a console for tables; without a terminal no row is wrapped."""
    from tinsmith.pages.console import VisibleConsole

    width = None if sys.stdout.isatty() else _UNLIMITED
    return VisibleConsole(highlight=False, markup=False, width=width)


def figures_table(names: str, *figures: str) -> Table:
    """Return a table without rows: the head of its names, and those of columns of figures."""
    from rich.table import Table

    table = Table(names, box=None, pad_edge=False, header_style="bold")
    for head in figures:
        table.add_column(head, justify="right")
    return table


def rows(table: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Format rows: columns as wide as their widest cell, with the last one wrapped."""
    table = [[visible(cell) for cell in row] for row in table]
    fixed = max((len(row) for row in table), default=1) - 1
    wide = [max(len(row[i]) for row in table if len(row) > fixed) for i in range(fixed)]
    lines: list[str] = []
    for row in table:
        if len(row) <= fixed:  # a heading of its own
            lines.append(_GAP.join(row))
            continue
        *names, words = row
        front = _GAP.join(name.ljust(room) for name, room in zip(names, wide, strict=True) if room).rstrip()
        indent = sum(room + len(_GAP) for room in wide if room)
        lines += _beside(front, words, indent, width)
    return lines


def wrapped(text: str, width: int | None) -> str:
    """Wrap a text at spaces, line by line; continuation lines are indented."""
    text = visible(text)
    if width is None:
        return text
    return "\n".join(
        textwrap.fill(line, max(width, _LEAST), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def _beside(front: str, words: str, indent: int, width: int | None) -> list[str]:
    if width is None:
        return [f"{front:{indent}}{words}".rstrip()]
    below = width - indent < _LEAST
    room = max(_LEAST, width - (4 if below else indent))
    lines = textwrap.wrap(words, room, break_long_words=False, break_on_hyphens=False)
    if below:
        return [front, *(f"    {line}" for line in lines)]
    first, *rest = lines or [""]
    return [f"{front:{indent}}{first}".rstrip(), *(" " * indent + line for line in rest)]


AsJson = Annotated[bool, Option("--json", help="Print all results as JSON.")]


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print(visible(json.dumps(value, indent=1, ensure_ascii=False)))


Open = Annotated[bool, Option("--open", help="Open the page in a browser.")]


def tell_page(file: Path, opened: bool) -> None:
    """Print where a page is, as an address; a folder where there is no page."""
    if not file.is_file():
        print(visible(f"wrote {file}"))
        return
    address = file.absolute().as_uri()
    print(visible(f"page: {address}"))
    if opened:
        import webbrowser

        webbrowser.open(address)


Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a run, or the file that `tinsmith pack` made of it.")]
HereKeys = Annotated[
    list[str] | None,
    Argument(
        metavar="[key=value ...]",
        help="Where and how fast to compute: model_name=PATH, data=DIR, task=FILE.py, device=cuda, threads=2.",
        autocompletion=complete_here,
    ),
]


@contextmanager
def run_folders(named: Sequence[Path]) -> Generator[list[Path], None, None]:
    """Yield the folders of runs, given as folders or packed files."""
    from tinsmith.lab.bundle.archive import folders_of

    with folders_of(named) as folders:
        require_runs(folders)
        yield folders


def require_runs(folders: Sequence[Path]) -> None:
    """Check that each folder holds a run."""
    from tinsmith.lab.runs.files import holds_run
    from tinsmith.lab.study.sizes import CELLS

    allowed = "the folder of a run, as `tinsmith run` leaves it, or a FILE.zip of `tinsmith pack`"
    for folder in folders:
        if not folder.exists():
            what, fix = f"there is no folder or file {folder}", perhaps(str(folder), map(str, folder.parent.glob("*")))
            raise DataError(what, field="DIR", value=str(folder), allowed=allowed, fix=fix)
        if not holds_run(folder):
            is_study = (folder / CELLS).is_dir()
            fix = f"name one of its runs, in {CELLS}/ (of a packed study after `tinsmith unpack`)" if is_study else None
            what = f"{folder.name} is a study, and no run" if is_study else f"{folder} holds no run"
            raise DataError(what, field="DIR", value=folder.name if is_study else str(folder), allowed=allowed, fix=fix)


def require_replaceable(file: Path, mark: bytes) -> None:
    """Check that a file's folder exists, and that an existing file has the mark of ours."""
    if not file.parent.is_dir():
        what = "there is no such folder to write to"
        raise ConfigError(what, field="--out", value=str(file), allowed="a file in a folder that exists")
    if file.is_file() and mark not in file.read_bytes():
        what, allowed = "this file exists already, and is nothing that this command wrote", "a new file"
        raise ConfigError(what, field="--out", value=str(file), allowed=allowed, fix="name another, or move it away")


def require_checkpoint(named: str) -> None:
    """Check that a checkpoint's name is a tinker:// path or a folder that is there."""
    from tinsmith.engine.tinker_paths import SCHEME

    if not named.startswith(SCHEME) and not Path(named).is_dir():
        allowed = "a checkpoint's folder, a run's folder, or a tinker:// path"
        raise CheckpointError("there is no such checkpoint", field="CHECKPOINT", value=named, allowed=allowed)
