"""Console output of a run: evaluations, alarms, and the remaining time.

Sinks get the same metrics where they were asked for; nothing here needs an account.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tinsmith.lab.live.progress import Progress, Standing, Wait, duration, in_notebook
from tinsmith.pages.console import VisibleConsole
from tinsmith.stats.monitors import Alarm
from tinsmith.types.errors import ConfigError
from tinsmith.types.visible import visible
from tinsmith.types.waits import LONG_SECONDS, Ticks, is_terminal, pause_after, ticking

_ROWS: Final = 8  # Evaluations that are shown, the latest ones.
_BAR_COLUMNS: Final = 30
_STEP_PART: Final = 0.5
"""Share of the pause between two lines after which a step's line is due: it replaces one with seconds only."""
_WIDE: Final = 150  # Columns of a line in a notebook, so that it covers the line that was there.


class LiveTable:
    """Table of one run, redrawn in place in a terminal."""

    def __init__(self, name: str, columns: Sequence[tuple[str, str]], out: TextIO) -> None:
        """Set the run's name and columns, each a heading and a metric."""
        self._name = name
        self._columns = tuple(columns)
        self._console = VisibleConsole(file=out, highlight=False, markup=False)
        self._rows: list[tuple[int, Mapping[str, object]]] = []
        self._alarms: list[str] = []
        self._workers: str | None = None
        self._latest: tuple[Standing, Mapping[str, object]] | None = None
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._live = Live(get_renderable=self._rendered, console=self._console, refresh_per_second=1)
        self._live.start()

    def show(self, standing: Standing, metrics: Mapping[str, object], *, permanent: bool) -> None:
        """Redraw after a step; an evaluation's row stays, any other is replaced by the next step's."""
        with self._lock:
            self._latest, self._began = (standing, metrics), time.perf_counter()
            self._live.refresh()
            if permanent:
                self._rows = [*self._rows, (standing.step, metrics)][-_ROWS:]

    def show_workers(self, words: str) -> None:
        """Set the state of the server's workers; from any thread."""
        with self._lock:
            changed, self._workers = words != self._workers, words
            if changed and self._live.is_started:
                self._live.refresh()

    def alarm(self, words: str) -> None:
        """Add an alarm below the table."""
        self._alarms.append(words)

    def say(self, words: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(visible(words)), soft_wrap=True)

    def close(self) -> None:
        """Stop redrawing; harmless when repeated."""
        self._live.stop()

    def _rendered(self) -> RenderableType:
        """Return the current table; called every second too, so that a long step counts its seconds."""
        latest, took = self._latest, time.perf_counter() - self._began
        waited = f", {duration(took)} in this step" if took >= LONG_SECONDS else ""
        if latest is None:
            return Text(visible(f"{self._name}: first step{waited}"))
        standing, metrics = latest
        rows = [*(row for row in self._rows if row[0] != standing.step), (standing.step, metrics)]
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(visible(self._name), no_wrap=True),
            ProgressBar(total=max(1, standing.steps), completed=standing.step, width=_BAR_COLUMNS),
            f"step {standing.step}/{standing.steps}, {standing.left}{waited}",
        )
        columns = [
            (heading, key)
            for heading, key in self._columns
            if any(isinstance(metrics.get(key), float) for _, metrics in rows)
        ]
        table = Table(box=None, pad_edge=False)
        table.add_column("step", justify="right", no_wrap=True)
        for heading, _ in columns:
            table.add_column(heading, justify="right", no_wrap=True)
        for step, metrics in rows:
            table.add_row(str(step), *(_figure(metrics.get(key)) for _, key in columns))
        return Group(
            bar,
            table,
            *([] if self._workers is None else [Text(visible(self._workers), no_wrap=True)]),
            *(Text(visible(f"ALARM {words}"), style="bold red") for words in self._alarms),
        )


def _figure(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else ""


_SHOWN = (
    ("reward", "train/reward/total"),
    ("nll", "train/nll"),
    ("informative", "train/groups/informative"),
    ("macro-F1", "eval/macro_f1"),
    ("greedy", "eval_greedy/macro_f1"),
    ("evaluated", "eval/reward/total"),
    ("greedy", "eval_greedy/reward/total"),
    ("pass rate", "eval/pass_rate"),
    ("greedy", "eval_greedy/pass_rate"),
    ("min recall", "eval/min_class_recall"),
    ("both right", "eval/exact_match"),
    ("MI", "eval/label_mi"),
)


@dataclass(slots=True)
class Teller:
    """Reporter of one run: a table in place if `out` is a terminal, otherwise a line per evaluation."""

    name: str
    steps: int
    sinks: Sequence[Tracker] = ()
    out: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    clock: Callable[[], float] = time.perf_counter
    _due: float = 0.0  # When the next step is told of, by the clock.
    _began: float = 0.0
    _alarmed: set[str] = field(default_factory=set[str])
    _table: LiveTable | None = None
    _in_place: bool = False  # Each line takes the place of the one before: in a notebook, whose output is no terminal.
    _display: Any = None  # IPython's handle of the line that stands there.
    _out_of_ipython: bool = False  # A line was written that is left only by a line break.
    _doing: str = "first step"
    _ticks: Ticks | None = None

    def __post_init__(self) -> None:
        if not self.quiet and is_terminal(self.out):
            self._table = LiveTable(self.name, _SHOWN, self.out)
        self._in_place = self._table is None and in_notebook()
        self._began = self.clock()
        self._due = self._began + pause_after(0.0, _STEP_PART)

    def step(self, standing: Standing, metrics: Mapping[str, object], alarms: Sequence[Alarm]) -> None:
        """Report one step, and each alarm when it begins."""
        step, now = standing.step, self.clock()
        for sink in self.sinks:
            sink.log(step, metrics)
        if self.quiet:
            return
        for alarm in alarms:
            if alarm.key not in self._alarmed:
                self._alarmed.add(alarm.key)
                self._alarm(f"at step {step}: {alarm.message}")
        self._doing = f"step {step + 1}/{self.steps}" if step + 1 < self.steps else "the last evaluation and the test"
        examined = step >= self.steps or any(key.startswith("eval/") for key in metrics)
        if self._table is not None:
            self._table.show(standing, metrics, permanent=examined)
        elif self._in_place:
            filled = _BAR_COLUMNS * step // max(1, self.steps)
            bar = f"[{'#' * filled}{'-' * (_BAR_COLUMNS - filled)}] {self._line(standing, metrics)}"
            self._doing = bar
            self._postpone()
            self._write_anew(bar)
        elif examined or now >= self._due:
            self._postpone()
            print(self._line(standing, metrics), file=self.out, flush=True)

    def say(self, words: str) -> None:
        """Report a line on the run."""
        self._postpone()
        if self._table is not None:
            self._table.say(words)
        elif not self.quiet:
            print(self._next_line + visible(f"{self.name}: {words}"), file=self.out, flush=True)

    def show_workers(self, words: str) -> None:
        """Show the state of the server's workers, if the output has room for it."""
        if self._table is not None:
            self._table.show_workers(words)

    @contextmanager
    def ticking(self) -> Generator[None, None, None]:
        """Report that a step is in progress while the body runs, without a table that counts its seconds."""
        if self.quiet or self._table is not None:
            yield
            return
        if self._in_place:
            self._doing = f"{self.name}: {self._doing}"
        say = self._write_anew if self._in_place else self.say
        with ticking(lambda: self._doing, say, replaces=self._in_place) as self._ticks:
            yield

    def waiting(self, what: str) -> Progress:
        """Return the reporter of a long wait for answers."""
        return Wait(lambda words: self.say(f"{what}: {words}"))

    def _postpone(self) -> None:
        """Postpone the next line, since one is printed now."""
        if self._ticks is not None:
            self._ticks.postpone()
        now = self.clock()
        self._due = now + pause_after(now - self._began, _STEP_PART)

    def close(self) -> None:
        """The run is over."""
        if self._table is not None:
            self._table.close()
        elif self._out_of_ipython:
            print(file=self.out)
        for sink in self.sinks:
            sink.close()

    def _alarm(self, words: str) -> None:
        if self._table is not None:
            self._table.alarm(words)
        else:
            print(self._next_line + visible(f"{self.name}: ALARM {words}"), file=self.out)

    def _write_anew(self, line: str) -> None:
        """Replace the last line: through IPython's display if available, or by a carriage return."""
        if self._display is None and not self._out_of_ipython:
            try:
                shown: Any = importlib.import_module("IPython.display")
                self._display = shown.display({"text/plain": line}, raw=True, display_id=True)
            except ImportError:
                pass
            self._out_of_ipython = self._display is None
        elif self._display is not None:
            self._display.update({"text/plain": line}, raw=True)
        if self._out_of_ipython:
            print(f"\r{line:<{_WIDE}}", end="", file=self.out, flush=True)

    @property
    def _next_line(self) -> str:
        """Characters that would end a line written in place."""
        return "\n" if self._out_of_ipython else ""

    def _line(self, standing: Standing, metrics: Mapping[str, object]) -> str:
        shown = [f"{name} {value:.3f}" for name, key in _SHOWN if isinstance(value := metrics.get(key), float)]
        return f"{self.name}: step {standing.step}/{standing.steps}  {'  '.join(shown)}  {standing.left}"


class Tracker:
    """Experiment tracker: Weights & Biases or trackio, which share an interface."""

    def __init__(self, package: str, project: str, name: str, folder: Path) -> None:
        try:
            self._module: Any = importlib.import_module(package)
        except ImportError:
            what = f"{package} is not installed"
            fix = f"pip install 'tinsmith[{'track' if package == 'trackio' else package}]'"
            raise ConfigError(what, field=f"{package}_project", value=project, fix=fix) from None
        options = {"dir": str(folder)} if package == "wandb" else {}
        self._run: Any = self._module.init(project=project, name=name, **options)

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Log one step's metrics."""
        values = {key: value for key, value in metrics.items() if key != "step"}
        self._module.log(values, step=step)

    def close(self) -> None:
        """Mark the run as finished."""
        self._module.finish()


def sinks_for(*, name: str, wandb_project: str | None, trackio_project: str | None, folder: Path) -> Sequence[Tracker]:
    """Open the requested trackers; none by default."""
    projects = (("wandb", wandb_project), ("trackio", trackio_project))
    return [Tracker(package, project, name, folder) for package, project in projects if project]
