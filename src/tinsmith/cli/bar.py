"""Progress bar on standard error, in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Display

from tinsmith.cli.run import INTERRUPTED
from tinsmith.data.progress import Progress
from tinsmith.types.waits import tell, ticking


class _Bar:
    def __init__(self, display: Display) -> None:
        self._display = display
        self._task = None

    def begin(self, what: str, total: int | None) -> None:
        if self._task is not None:
            self._display.stop_task(self._task)
        self._task = self._display.add_task(what, total=total)

    def advance(self, steps: int = 1) -> None:
        if self._task is not None:
            self._display.advance(self._task, steps)


class _Lines:
    """A line as each stage begins."""

    def __init__(self) -> None:
        self._what, self._steps, self._total = "", 0, None

    @property
    def doing(self) -> str:
        """Stage, and the progress within it."""
        return self._what if not self._steps else f"{self._what}: {self._steps:,} of {self._total or '?'}"

    def begin(self, what: str, total: int | None) -> None:
        self._what, self._steps, self._total = what, 0, total
        tell(what)

    def advance(self, steps: int = 1) -> None:
        self._steps += steps


@contextmanager
def progress_bar() -> Generator[Progress, None, None]:
    """Show progress while the body runs; without a terminal, print the name of each stage."""
    if not sys.stderr.isatty():
        lines = _Lines()
        with ticking(lambda: lines.doing):
            yield lines
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Display(*columns, console=Console(stderr=True), transient=True) as display:
        yield _Bar(display)


@contextmanager
def download_bar(what: str) -> Generator[Callable[[int, int | None], None], None, None]:
    """Show a download; the body calls the yielded function with (bytes so far, total bytes)."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    is_terminal = sys.stderr.isatty()
    with Display(*columns, console=Console(stderr=True), transient=True, disable=not is_terminal) as display:
        task = display.add_task(what, total=None)

        def update(done: int, total: int | None) -> None:
            display.update(task, completed=done, total=total)

        if is_terminal:
            yield update
            return
        with ticking(what):  # in a pipe lines say that it goes on
            yield update


@contextmanager
def interruptible(*, resumes: bool) -> Generator[None, None, None]:
    """Print on Ctrl-C how to resume, and end the command."""
    try:
        yield
    except KeyboardInterrupt:
        further = "goes on where it stopped" if resumes else "begins again"
        print(f"\ntinsmith: interrupted; the same command {further}", file=sys.stderr)
        raise typer.Exit(code=INTERRUPTED) from None
