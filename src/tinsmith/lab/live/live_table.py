"""What a person sees of a run in a terminal: a bar, a row an evaluation, and the alarms, redrawn in place."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tinsmith.lab.live.standing import Standing
from tinsmith.pages.console import VisibleConsole
from tinsmith.types.visible import visible

_ROWS: Final = 8
"""Evaluations that are shown, the latest ones."""
_BAR_COLUMNS: Final = 30


class LiveTable:
    """The table of one run, on one terminal."""

    def __init__(self, name: str, columns: Sequence[tuple[str, str]], out: TextIO) -> None:
        """Take the run's name and its columns, each a heading and the metric below it."""
        self._name = name
        self._columns = tuple(columns)
        self._console = VisibleConsole(file=out, highlight=False, markup=False)
        self._rows: list[tuple[int, Mapping[str, object]]] = []
        self._alarms: list[str] = []
        self._workers: str | None = None
        self._latest: tuple[Standing, Mapping[str, object]] | None = None
        self._lock = threading.Lock()
        self._live = Live(console=self._console, auto_refresh=False)

    def show(self, standing: Standing, metrics: Mapping[str, object], *, kept: bool) -> None:
        """Draw it after a step; the row of an evaluation is kept, that of another step is the next one's place."""
        with self._lock:
            self._latest = (standing, metrics)
            self._live.start()
            self._draw()
            if kept:
                self._rows = [*self._rows, (standing.step, metrics)][-_ROWS:]

    def show_workers(self, words: str) -> None:
        """Take how the workers of the server stand; from any thread."""
        with self._lock:
            changed, self._workers = words != self._workers, words
            if changed and self._latest is not None and self._live.is_started:
                self._draw()

    def alarm(self, words: str) -> None:
        """Keep an alarm below the table, from the next drawing on."""
        self._alarms.append(words)

    def say(self, words: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(visible(words)), soft_wrap=True)

    def close(self) -> None:
        """Leave it as it stands; harmless when repeated."""
        self._live.stop()

    def _draw(self) -> None:
        assert self._latest is not None
        standing, metrics = self._latest
        rows = [row for row in self._rows if row[0] != standing.step]
        self._live.update(self._drawn(standing, [*rows, (standing.step, metrics)]), refresh=True)

    def _drawn(self, standing: Standing, rows: Sequence[tuple[int, Mapping[str, object]]]) -> Group:
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(visible(self._name), no_wrap=True),
            ProgressBar(total=max(1, standing.steps), completed=standing.step, width=_BAR_COLUMNS),
            f"step {standing.step}/{standing.steps}, {standing.left}",
        )
        shown = [
            (heading, key)
            for heading, key in self._columns
            if any(isinstance(metrics.get(key), float) for _, metrics in rows)
        ]
        table = Table(box=None, pad_edge=False)
        table.add_column("step", justify="right", no_wrap=True)
        for heading, _ in shown:
            table.add_column(heading, justify="right", no_wrap=True)
        for step, metrics in rows:
            table.add_row(str(step), *(_figure(metrics.get(key)) for _, key in shown))
        return Group(
            bar,
            table,
            *([] if self._workers is None else [Text(visible(self._workers), no_wrap=True)]),
            *(Text(visible(f"ALARM {words}"), style="bold red") for words in self._alarms),
        )


def _figure(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else ""
