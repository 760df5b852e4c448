"""Run in progress: the server's clients, the folder, evaluation, checkpoints, selection and test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, cast

import msgspec
import tinker

from tinsmith.lab.course import Course
from tinsmith.lab.grouping import Line, ScoredGroup
from tinsmith.lab.live.interrupts import Interrupts
from tinsmith.lab.live.progress import Pace, Standing
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.live.watch import Examinee, ExpertWatch
from tinsmith.lab.policy import Agents, joined
from tinsmith.lab.rollouts import WAIT_SECONDS, A, I, Sampler
from tinsmith.lab.runs.files import CHECKPOINTS, METRICS, ROLLOUTS, TIMINGS, TRACE
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.records import Selected
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import TraceReader
from tinsmith.lab.service.official_client import ready
from tinsmith.lab.settings import CommonSettings, RlSettings
from tinsmith.lab.subject import line_of
from tinsmith.stats.groups import FlatRewards
from tinsmith.stats.monitors import Alarm, DeterminismMonitor
from tinsmith.types.errors import DataError

Reached = Callable[[Standing], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOrder:
    """Indices of an epoch's units in training order."""

    epoch: int
    places: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Run(Generic[I, A]):
    """Everything that a training loop needs beside its algorithm."""

    service: tinker.ServiceClient
    trainer: tinker.TrainingClient  # The first agent's, where there are several.
    model_name: str
    course: Course[I, A]
    settings: CommonSettings
    folder: RunFolder
    teller: Teller
    agents: Agents = field(default_factory=lambda: Agents([]))  # All training clients; left empty: the trainer alone.
    connection: Connection | None = None  # Where the trace of the optimizer steps is read from; None: there is none.
    stop_after: int = 0
    """The step to stop after; its settings, and all that follows from their steps, stay the whole run's. 0: none."""
    interrupts: Interrupts = field(default_factory=Interrupts)
    forecast: float | None = None  # Seconds of all that follows the start, forecast before it.
    reached: Reached | None = None  # Is told where it stands after each evaluation, when its step has been written.
    step: int = 0  # Where it stands: optimizer steps its weights have seen.
    best: Selected | None = None
    experts: ExpertWatch = field(default_factory=ExpertWatch)
    offline: Sequence[Any] | None = None
    """Rollouts drawn before the first step, for offline training; None if there are none yet."""
    fresh: str = "null"  # State of a resumed run's rewards before the first step, as JSON.
    spent: bool = False  # True if it is to end here, as its rewards have not differed any more for long.
    order: EpochOrder | None = None  # Order that was computed last, where items are trained on by perplexity.
    _sampler: Sequence[tinker.SamplingClient] = ()
    _base: tinker.SamplingClient | None = None
    _timings: dict[str, float] = field(default_factory=dict[str, float])
    _tracers: list[TraceReader] = field(default_factory=list[TraceReader])
    _lines: list[Line] = field(default_factory=list[Line])
    _alarms: list[Alarm] = field(default_factory=list[Alarm])
    _determinism: DeterminismMonitor = field(default_factory=DeterminismMonitor)
    _flat: FlatRewards = field(default_factory=FlatRewards)
    _pace: Pace = field(init=False)
    _began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._pace = Pace(settings=self.settings, forecast=self.forecast, later_steps=self.course.later_steps)
        self.agents.trainers = self.agents.trainers or [self.trainer]

    @property
    def stops_here(self) -> bool:
        """True if the run has reached its stopping step."""
        return 0 < self.stop_after <= self.step < self.settings.steps

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Every alarm so far, oldest first."""
        found = (*self.course.watch.alarms, *self._determinism.alarms)
        return tuple(sorted(found, key=lambda alarm: alarm.step))

    def resume(self, mark: Mark) -> None:
        """Restore the state of a checkpoint, whose weights the trainer has loaded already."""
        self.step = mark.step
        self.fresh = json.dumps(self.course.subject.state())
        try:
            rewards = cast("Mapping[str, Any]", mark.kept["rewards"])
            self._determinism.restore(rewards["determinism"])
            self._flat, self.spent = msgspec.convert(rewards["flat"], FlatRewards), rewards["spent"]
            if "order" in mark.kept:
                self.order = msgspec.convert(mark.kept["order"], EpochOrder)
            self.course.restore(mark.kept["course"])
            self.best = msgspec.convert(mark.kept["best"], Selected | None)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            what = f"the line of step {mark.step} is not as a run writes it"
            raise DataError(what, field=CHECKPOINTS, value=str(error)) from None
        self.experts.restore(self.folder.read_lines(METRICS))

    @property
    def trainers(self) -> Sequence[tinker.TrainingClient]:
        """Those of all agents that there are at this step."""
        return self.agents.at(self.step)

    def sampler(self) -> tinker.SamplingClient:
        """Client of the current policy, cached until the policy changes."""
        return self.samplers()[0]

    def policy(self) -> Sampler:
        """Clients of the current policy's agents; a single client if there is one."""
        return self.agents.policy(self.samplers())

    def samplers(self) -> Sequence[tinker.SamplingClient]:
        """Clients of the current policy's agents."""
        if not self._sampler:
            own = self.connection is not None and self.connection.server is not None
            # A server of its own need not hold the policy of every step until the session ends; of others, not all can.
            made = [
                one.save_weights_and_get_sampling_client(kind="inflight")
                if own
                else one.save_weights_and_get_sampling_client()
                for one in self.trainers
            ]
            self._sampler = [ready(one, WAIT_SECONDS) for one in made]
        return self._sampler

    def _saved(self, name: str) -> str:
        made = [one.save_weights_for_sampler(name) for one in self.trainers]
        return joined(one.result(WAIT_SECONDS).path for one in made)

    def base(self) -> tinker.SamplingClient:
        """A client of the base model."""
        if self._base is None:
            made = self.service.create_sampling_client(base_model=self.model_name)
            self._base = ready(made, WAIT_SECONDS)
        return self._base

    @contextmanager
    def timed(self, name: str) -> Generator[None, None, None]:
        """Add the body's duration to this step's timings."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._timings[name] = self._timings.get(name, 0.0) + time.perf_counter() - began

    def observe(self, step: int, groups: Sequence[ScoredGroup[I, A]]) -> None:
        """Monitor a step's groups, and write their rollouts."""
        self._alarms += self.course.watch.observe(step, groups)
        rewards = [[one.terms.total for one in group.scored] for group in groups]
        self._alarms += self._determinism.observe(step, rewards)
        if isinstance(self.settings, RlSettings) and self.settings.early_stop:
            self.spent = self._flat.observe(rewards)
        for group in groups:
            for one in group.scored:
                reward: Line = {"terms": dict(one.terms.values), "total": one.terms.total, "advantage": one.advantage}
                if one.by_turn is not None:
                    reward["advantage_by_turn"] = one.by_turn
                self._lines.append({**line_of(self.course.subject, step, "train", one.rollout), **reward})
            self._lines += [line_of(self.course.subject, step, "train", one) for one in group.failures]

    def examine(self, step: int) -> dict[str, float]:
        """Evaluate the current policy, and save it if it is the best so far; return the metrics."""
        with self.timed("eval_s"):
            client, progress = self.sampler(), self.teller.waiting(f"examined at step {step}")
            policy = Examinee(
                client=client, trainer=self.trainer, base=self.base, step=step, policy=self.policy(), progress=progress
            )
            found = self.course.examine(policy)
        self._timings["answers_s"] = found.answers_s
        self._lines += found.tested.lines
        self._alarms += found.judged.alarms
        score = found.judged.score
        if self.best is None or self.best.score is None or score > self.best.score:
            self.best = Selected(step=step, score=score, sampler_path=self._saved(f"best-{step:06d}"))
        return dict(found.tested.metrics)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step's metrics, rollouts, trace and timings; the policy has changed."""
        self._alarms += self.experts.observe_metrics(step, metrics)
        alarms = {alarm.key: alarm.value for alarm in self._alarms}
        line = {"step": step, **{key: metrics[key] for key in sorted(metrics)}, **alarms}
        self.folder.append(ROLLOUTS, self._lines)
        with self.timed("trace_s"):
            self.folder.append(TRACE, self._trace_lines(step))
        self.folder.append(METRICS, [line])  # last: a killed run's step is one that has its line of metrics
        timings = {**self._timings, "step_s": time.perf_counter() - self._began}
        standing = self._pace.record(step, timings, *self.course.test_worth)
        if not standing.later:
            timings["left_s"] = standing.seconds_left
        self.folder.append(TIMINGS, [{"step": step, **timings}])
        self.teller.step(standing, line, self._alarms)
        self._lines, self._alarms, self._timings = [], [], {}
        self._sampler = ()
        self.step = step + 1
        if self.reached is not None and any(key.startswith("eval/") for key in metrics):
            began = time.perf_counter()
            self.reached(standing)
            if step < self.settings.steps:
                self._pace.drew(time.perf_counter() - began)
        self._began = time.perf_counter()  # What draws a page is no part of the step that follows.

    def _trace_lines(self, step: int) -> list[Line]:
        if self.connection is not None:
            untraced = self.agents.trainers[len(self._tracers) :]
            self._tracers += [TraceReader(self.connection, one.model_id) for one in untraced]
        return [
            {"step": step, "substep": substep, "gradient": one["gradient"], "weights": one["weights"]}
            | {key: one[key] for key in ("units",) if key in one}
            | ({"agent": number} if self.agents.several else {})
            for number, tracer in enumerate(self._tracers)
            for substep, one in enumerate(tracer.new())
        ]

    def checkpoint(self, step: int) -> None:
        """Save weights, and the state for resuming the run."""
        with self.timed("save_s"):
            saved = [one.save_state(f"step-{step:06d}", overwrite=True) for one in self.agents.trainers]
            rewards = {"determinism": self._determinism.state(), "flat": self._flat, "spent": self.spent}
            state = {"course": self.course.state(), "best": self.best, "rewards": rewards}
            state |= {} if self.order is None else {"order": self.order}
            state_path = joined(one.result(WAIT_SECONDS).path for one in saved)
            self.folder.mark(step=step, state_path=state_path, kept=msgspec.to_builtins(state))

    def finish(self) -> Selected:
        """Evaluate and save the last policy, then test it and the chosen one."""
        last = self.settings.steps
        metrics = self.examine(last)
        final = self._saved("final")
        best = self.best
        assert best is not None, "the last policy was just examined"
        progress = self.teller.waiting("tested")
        with self.timed("test_s"):
            if best.step == last:
                tested = self.course.test(self.policy(), last, None, last, progress)
            else:
                made = [self.service.create_sampling_client(model_path=path) for path in best.sampler_path.split()]
                chosen = self.agents.policy([ready(one, WAIT_SECONDS) for one in made])
                tested = self.course.test(chosen, best.step, self.policy(), last, progress)
        self._lines += tested.lines
        # A server that died in the last evaluation is found out here, and not by failures in a finished run.
        self.trainer.get_info()
        ended = {"train/stopped_at": float(self.step)} if self.spent and self.step < last else {}
        self.record(last, {**metrics, **tested.metrics, **ended})
        path = final if best.step == last else best.sampler_path
        by = self.course.watch.selects_by or self.settings.select_by.value
        return msgspec.structs.replace(best, by=by, sampler_path=path, final_path=final)
