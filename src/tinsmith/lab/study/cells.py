"""Cells of a study that have not come to their end, run several at once, here or on a cluster; and the time they take.

Each is one `tinsmith run` in a process and with a server of its own; what they find does not depend on how many run at
once, or where. A run that is there already and is the same is not run again; one that was interrupted goes on.
"""

from __future__ import annotations

import fcntl
import heapq
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from tinsmith.engine.cluster.ray_runtime import LEAST_OBJECT_STORE, join, start_local
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.experiment.manifest import require_same_base, require_same_run
from tinsmith.lab.experiment.materials import gather
from tinsmith.lab.live.progress import duration, other_work
from tinsmith.lab.runs.files import TIMINGS, IfExists, Status
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.node_cell import Ended, NodeCell, interrupt_runs, run_cell
from tinsmith.lab.study.sizes import Cell, own_base
from tinsmith.ops.extension import physical_cores
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.waits import Say, ticking

_LOCK: Final = ".lock"
LOST: Final = 3  # Exit code of a run that lost its server or its judge, and can be resumed.
TRIES: Final = 3  # The most times that a cell is sent to a cluster: a task that is lost is run again twice.
LOCAL: Final = "local"  # A Ray that is started on this machine for the study.
RunCells = Callable[[Sequence[Cell], Say], None]  # Runs cells that have not come to their end yet.
Send = Callable[[NodeCell], Future[Ended]]
"""Has a cell run on a cluster, when as many cores are free as it has threads.

The future raises LostError where its task was lost, ConfigError where it could not begin.
"""


@contextmanager
def sole_process(out: Path) -> Generator[None, None, None]:
    """Be the one process that runs a study into `out`; a lock file in it, which ends with the process.

    Raises:
        ConfigError: another one is, or something else than a study is there.
    """
    begun = (out / _LOCK).exists() or (out / STUDY_JSON).exists()
    if out.exists() and not begun and not (out.is_dir() and next(out.iterdir(), None) is None):
        what = "this folder is not empty, and holds no study"
        raise ConfigError(what, field="out", value=str(out), allowed="an empty or new folder, or that of this study")
    out.mkdir(parents=True, exist_ok=True)
    with (out / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            what, fix = "another process is running this study", "wait until it ends, or name another folder"
            raise ConfigError(what, field="out", value=str(out), fix=fix) from None
        yield


def run_cells(
    cells: Sequence[Cell],
    say: Say,
    *,
    send: Send | None = None,
    cores: Sequence[int] = (),
    most: int = 0,
    minutes: Minutes | None = None,
) -> None:
    """Run every cell that has not come to its end yet; one that fails keeps no other from its end.

    `send` has a cell run on a cluster (None: they run here), `most` at once; 0: as many as there are cores. `minutes`
    forecasts a run; None: nothing is known of it.
    """
    waiting = prepared(cells, say)
    if not waiting:
        return
    at_once, threads = shared_cores(cores if send else [physical_cores()], len(waiting), most)
    folders = {cell.folder.name: cell.folder for cell in waiting}
    seconds = minutes and seconds_of(waiting, threads, minutes)
    slower = other_work() if seconds and not send else 1.0
    left = TimeLeft(
        list(folders),
        seconds and [slower * each for each in seconds],
        at_once,
        own_left=lambda name, elapsed: left_of_run(folders[name], elapsed),
    )
    pool = ThreadPoolExecutor(at_once)
    try:
        with _signed(waiting, threads) as signed:
            _run(signed, send or partial(pool.submit, run_cell), at_once, TRIES if send else 1, left, say)
    finally:
        pool.shutdown(wait=False)  # who interrupts twice does not wait for a run


def prepared(cells: Sequence[Cell], say: Say) -> list[Cell]:
    """Return the cells that have not come to their end yet, when what they share is there."""
    waiting = [cell for cell in cells if not _ended(cell, say)]
    plans = [make_plan(cell.experiment, cell.overrides) for cell in waiting]
    firsts = dict[str, Plan]()
    for plan in plans:
        firsts.setdefault(own_base(plan), plan)
    for plan in firsts.values():
        gather(plan, say)  # what runs share is built once, before they all look for it
    return waiting


def _ended(cell: Cell, say: Say) -> bool:
    manifest = RunFolder(cell.folder).manifest()
    if not manifest.status:
        return False
    materials = gather(make_plan(cell.experiment, cell.overrides), say)
    try:
        require_same_run(manifest, materials)
        require_same_base(manifest, materials)
    except ConfigError as error:
        what, fix = f"{cell.folder.name}: {error.what}", "name another folder for the study, or delete that of the run"
        raise ConfigError(what, field=error.field, value=error.value, allowed=error.allowed, fix=fix) from None
    return manifest.status == Status.FINISHED.value


def shared_cores(nodes: Sequence[int], cells: int, most: int) -> tuple[int, int]:
    """Return how many cells run at once, at most `most` (0: any number), and the threads of each."""
    cores = [one for one in nodes if one > 0]
    if not cores:
        raise BackendError("no node of this cluster has a free core", field="ray")
    at_once = max(1, min(cells, sum(cores), most or cells))
    return at_once, max(1, min(cores) // -(-at_once // len(cores)))


@contextmanager
def _signed(cells: Sequence[Cell], threads: int) -> Generator[list[NodeCell], None, None]:
    """Put a sign beside the folder of each, and take it away at the end."""
    token = secrets.token_hex(16)
    signs = [cell.folder.with_name(f".{cell.folder.name}.running") for cell in cells]
    try:
        for sign in signs:
            sign.parent.mkdir(parents=True, exist_ok=True)
            sign.write_text(token)
        yield [
            NodeCell(
                name=cell.folder.name,
                label=cell.label or cell.folder.name,
                arguments=tuple(_arguments(cell, threads)),
                threads=threads,
                here=str(Path.cwd()),
                sign=str(sign),
                token=token,
            )
            for cell, sign in zip(cells, signs, strict=True)
        ]
    finally:
        for sign in signs:
            sign.unlink(missing_ok=True)


def _arguments(cell: Cell, threads: int) -> list[str]:
    """Return what stands after `tinsmith run`; with so many threads, unless the study was given a number of them."""
    where = {"log_path": str(cell.folder), "behavior_if_log_dir_exists": IfExists.RESUME.value}
    return replace(cell, overrides={"threads": str(threads), **cell.overrides, **where}).command


def _run(cells: Sequence[NodeCell], send: Send, at_once: int, tries: int, left: TimeLeft, say: Say) -> None:
    queue, sent = deque(cells), dict.fromkeys((cell.name for cell in cells), 0)
    running: dict[Future[Ended], NodeCell] = {}
    failed: dict[str, str] = {}
    all_lost = True
    with _interrupting(running, say):
        while queue or running:
            while queue and len(running) < at_once:
                cell = queue.popleft()
                sent[cell.name] += 1
                running[send(cell)] = cell
                left.begin(cell.name)
            names = "; ".join(one.label for one in running.values())
            to_go = f"{len(queue) + len(running)} of {len(cells)} runs to go: {names}"
            with ticking(lambda to_go=to_go: f"{to_go}{left}", say):
                done = set[Future[Ended]]()
                while not done:  # polars has the system resume a wait that Ctrl-C interrupts: one without an end stays
                    done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                why, is_lost = _failure(future, cell.label, say)
                if is_lost and sent[cell.name] < tries:
                    say(f"{cell.label}: {why}; it is run again")
                    queue.appendleft(cell)
                elif why:
                    say(f"{cell.label}: {why}")
                    failed[cell.name] = why
                    all_lost &= is_lost
                if cell not in queue:
                    left.end(cell.name)
    if failed:
        name, why = next(iter(failed.items()))
        what = f"{len(failed)} of {len(cells)} runs failed; {name}: {why}"
        fix = "the same command goes on with them" if all_lost else "see the lines above"
        raise (LostError if all_lost else ConfigError)(what, field="cells", value=", ".join(failed), fix=fix)


@contextmanager
def _interrupting(running: Mapping[Future[Ended], NodeCell], say: Say) -> Generator[None, None, None]:
    """Interrupt the runs of this machine with the study, and wait for their checkpoints; a cluster ends its own."""
    try:
        yield
    except BaseException:
        while here := [one for one in running if one.running()]:
            if interrupt_runs():
                say("interrupted; each run saves a checkpoint when its step is over (again ends at once)")
            wait(here, timeout=1.0)  # one that was just sent has no process yet
        raise


def _failure(future: Future[Ended], name: str, say: Say) -> tuple[str, bool]:
    """Return why a cell did not come to its end, empty if it did; and whether it may elsewhere, or later."""
    try:
        ended = future.result()
    except (LostError, ConfigError) as error:
        return error.what, isinstance(error, LostError)
    if ended.refused:
        return f"node {ended.node} cannot run it: {ended.refused}", False
    if ended.code == 0:
        say(f"{name}: {duration(ended.seconds)} on {ended.node}")
        return "", False
    last = f": {' '.join(line.strip() for line in ended.last_lines)}" if ended.last_lines else ""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    return f"stopped with {how} on {ended.node}{last}", ended.code == LOST or ended.code < 0


@contextmanager
def runner(
    cluster: tuple[str, int] | None, minutes: Minutes | None = None, here: RunCells | None = None
) -> Generator[RunCells, None, None]:
    """Return what runs cells: on the Ray that is asked for, which is started here or joined, else `here`.

    None: in processes of this machine.
    """
    if cluster is None:
        yield here or partial(run_cells, minutes=minutes)
        return
    address, most = cluster
    ray = start_local(physical_cores(), LEAST_OBJECT_STORE) if address == LOCAL else join(address)
    try:
        yield partial(run_cells, send=_sent, cores=[node.cores for node in ray.nodes()], most=most, minutes=minutes)
    finally:
        ray.close()  # tasks that still run end with it


def _sent(cell: NodeCell) -> Future[Ended]:
    """Send a cell as a task, which Ray does not run again by itself."""
    import ray

    task: Any = ray.remote(run_cell).options(
        name=cell.name, num_cpus=cell.threads, max_retries=0, scheduling_strategy="SPREAD"
    )
    ended = Future[Ended]()
    task.remote(cell).future().add_done_callback(partial(_pass_on, ended))
    return ended


def _pass_on(ended: Future[Ended], theirs: Future[Ended]) -> None:
    """End our future as Ray's ended, with an error of ours."""
    from ray import exceptions

    try:
        ended.set_result(theirs.result())
    except (exceptions.RayTaskError, exceptions.RuntimeEnvSetupError, exceptions.TaskUnschedulableError) as error:
        last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        ended.set_exception(ConfigError(f"its node cannot run it: {last}"))
    except exceptions.RayError as error:
        ended.set_exception(LostError(f"its task was lost: {type(error).__name__}"))


Minutes = Callable[[Plan], float | None]  # Forecasts a run; None: nothing is known of its model.


def seconds_of(cells: Sequence[Cell], threads: int, minutes: Minutes) -> list[float] | None:
    """Return the seconds of each cell, run with so many threads beside others; None: one of them is not known.

    Cells that differ by seed and learning rate alone are forecast once.
    """
    known: dict[tuple[str, frozenset[tuple[str, str]]], float | None] = {}
    found: list[float] = []
    for cell in cells:
        alike = {key: value for key, value in cell.overrides.items() if key not in ("seed", "learning_rate")}
        which = (cell.experiment.name, frozenset(alike.items()))
        if which not in known:
            known[which] = minutes(make_plan(cell.experiment, {"threads": str(threads), **cell.overrides}))
        each = known[which]
        if each is None:
            return None
        found.append(60 * each)
    return found


def side_by_side(seconds: Sequence[float], at_once: int) -> float:
    """Return how long runs of these seconds take, so many at once: each begins, in this order, where one has ended."""
    ends = [0.0] * at_once
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


def left_of_run(folder: Path, elapsed: float) -> float | None:
    """Return the seconds that a run in a folder, which began `elapsed` seconds ago, says are left; None: not yet.

    Negative where it goes on for longer than it said.
    """
    with suppress(OSError, ValueError, msgspec.DecodeError):
        file = folder / TIMINGS
        age = time.time() - file.stat().st_mtime  # Of an earlier process, where it is older than the run.
        *_, last, _ = file.read_bytes().split(b"\n")
        left = msgspec.json.decode(last, type=dict[str, float | None]).get("left_s")
        return None if left is None or age > elapsed else left - age
    return None


class TimeLeft:
    """Seconds that a study's runs still take.

    Args:
        seconds: of each run by name; None: not known, so that all count alike and nothing is forecast until one ends.
        at_once: runs beside one another.
        clock: in seconds.
        own_left: seconds that a run says are left of it, by its name and the seconds since it began; None: not yet.
            Those that runs took beyond it at their ends, for their pages, are added to what others say.
    """

    def __init__(
        self,
        names: Sequence[str],
        seconds: Sequence[float] | None,
        at_once: int,
        clock: Callable[[], float] = time.perf_counter,
        own_left: Callable[[str, float], float | None] | None = None,
    ) -> None:
        self._known = seconds is not None
        self._forecast: Mapping[str, float] = dict(zip(names, seconds or [1.0] * len(names), strict=True))
        self._at_once, self._clock, self._own_left = at_once, clock, own_left
        self._to_go, self._began, self._beyond = dict.fromkeys(names), dict[str, float](), list[float]()
        self._took = self._was_forecast = 0.0
        # The forecast counts as one more run beside those that have ended: one that was short tells little of others.
        self._prior = sum(self._forecast.values()) / len(names) if seconds else 0.0

    def begin(self, name: str) -> None:
        """Note that a run begins, perhaps anew."""
        self._began[name] = self._clock()

    def end(self, name: str) -> None:
        """Note that a run came to its end."""
        took = self._clock() - self._began.pop(name)
        self._took += took
        stated = None if self._own_left is None else self._own_left(name, took)
        if stated is not None:
            self._beyond.append(-stated)
        self._was_forecast += self._forecast[name]
        self._to_go.pop(name, None)

    def seconds(self) -> float | None:
        """Return the seconds left; None: not known yet."""
        now = self._clock()
        elapsed = {name: now - began for name, began in self._began.items()}
        stated = {} if self._own_left is None else {name: self._own_left(name, took) for name, took in elapsed.items()}
        beyond = median(self._beyond) if self._beyond else 0.0
        own = {name: max(0.0, left + beyond) for name, left in stated.items() if left is not None}
        took = self._took + sum(elapsed[name] + left for name, left in own.items())
        was_forecast = self._was_forecast + sum(self._forecast[name] for name in own)
        if not self._known and not was_forecast:
            return None
        known = was_forecast + self._prior
        slower = (took + self._prior) / known if known else 1.0
        begun_first = sorted(self._to_go, key=lambda name: name not in self._began)
        left = [own.get(name, max(0.0, slower * self._forecast[name] - elapsed.get(name, 0.0))) for name in begun_first]
        return side_by_side(left, self._at_once)

    def __str__(self) -> str:
        left = self.seconds()
        if left is None:
            return ""
        return f", about {duration(left)} left" if left >= 1.0 else ", longer than forecast"
