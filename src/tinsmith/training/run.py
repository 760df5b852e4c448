"""One run in progress: the server's clients, the folder, what is watched; evaluated, saved, chosen and tested."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import tinker

from tinsmith.analysis.alarms import Alarm
from tinsmith.tasks.paper import Item
from tinsmith.tasks.rewards import Reward, RewardState
from tinsmith.training.connect import Connection
from tinsmith.training.evaluating import evaluate, probe
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.offset import tested_with_offset
from tinsmith.training.rollout_metrics import Line, rollout_lines
from tinsmith.training.rollouts import WAIT_SECONDS
from tinsmith.training.run_folder import METRICS, ROLLOUTS, TIMINGS, TRACE, Mark, RunFolder
from tinsmith.training.schedule import subset
from tinsmith.training.server_facts import TraceReader
from tinsmith.training.settings import CommonSettings
from tinsmith.training.study import Study
from tinsmith.training.teller import Teller
from tinsmith.training.watch import BestStep, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a finished run has to show."""

    selected: BestStep
    sampler_path: str
    """The chosen policy."""
    final_path: str
    """The last one."""


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything a training loop needs beside its algorithm."""

    service: tinker.ServiceClient
    trainer: tinker.TrainingClient
    model_name: str
    study: Study
    settings: CommonSettings
    folder: RunFolder
    teller: Teller
    reward: Reward | None = None
    connection: Connection | None = None
    """Where the trace of the optimizer steps is read from; None: there is none."""
    step: int = 0
    """Where it stands: optimizer steps its weights have seen."""
    watch: Watch = field(init=False)
    _sampler: tinker.SamplingClient | None = None
    _base: tinker.SamplingClient | None = None
    _timings: dict[str, float] = field(default_factory=dict[str, float])
    _tracer: TraceReader | None = None
    _lines: list[Line] = field(default_factory=list[Line])
    _alarms: list[Alarm] = field(default_factory=list[Alarm])
    _began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.watch = Watch(self.study.task.labels, self.settings.select_by)
        if self.connection is not None:
            self._tracer = TraceReader(self.connection, self.trainer.model_id)

    @property
    def train_items(self) -> Sequence[Item]:
        """The papers to train on."""
        return subset(self.study.papers.train, self.settings.train_items)

    @property
    def validation_items(self) -> Sequence[Item]:
        """The papers that evaluations while training look at."""
        return subset(self.study.papers.validation, self.settings.eval_items)

    def resume(self, mark: Mark) -> None:
        """Go on from a checkpoint, whose weights the trainer has loaded already."""
        self.step = mark.step
        self.watch.restore(mark.kept["watch"])
        if self.reward is not None:
            self.reward.restore(RewardState.from_json(mark.kept["reward"]))

    def sampler(self) -> tinker.SamplingClient:
        """A client of the current policy; the same one until the policy changes."""
        if self._sampler is None:
            made = self.trainer.save_weights_and_get_sampling_client()
            self._sampler = made.result(WAIT_SECONDS)
        return self._sampler

    def base(self) -> tinker.SamplingClient:
        """A client of the base model."""
        if self._base is None:
            made = self.service.create_sampling_client(base_model=self.model_name)
            self._base = made.result(WAIT_SECONDS)
        return self._base

    @contextmanager
    def timed(self, name: str) -> Generator[None, None, None]:
        """Add what the body takes to this step's timings."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._timings[name] = self._timings.get(name, 0.0) + time.perf_counter() - began

    def saw(self, step: int, groups: Sequence[ScoredGroup]) -> None:
        """Watch a step's groups, and keep their rollouts."""
        self._alarms += self.watch.saw_groups(step, groups)
        self._lines += rollout_lines(step, groups)

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate the current policy on the validation split, sampled and greedily; return the metrics."""
        with self.timed("eval_s"):
            client, items = self.sampler(), self.validation_items
            metrics: dict[str, float] = {}
            sampled = None
            for greedy, split in ((False, "eval"), (True, "eval_greedy")):
                found = evaluate(
                    client, self.study, items, self.settings, step=step, split=split, greedy=greedy
                )
                sampled = sampled or found
                metrics |= found.evaluation.metrics(split)
                self._lines += found.lines
            assert sampled is not None
            metrics |= probe(self.trainer, self.base(), self.study, items, sampled.rollouts)
        self._alarms += self.watch.saw_evaluation(
            step, sampled.evaluation, metrics["eval/label_mi"]
        )
        self._keep_best(step)
        return metrics

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step's metrics, rollouts, trace and timings; the policy has changed.

        Raises:
            BackendError: the server told of its optimizer steps before, and does no longer.
        """
        alarms = {alarm.key: alarm.value for alarm in self._alarms}
        line = {"step": step, **{key: metrics[key] for key in sorted(metrics)}, **alarms}
        self.folder.append(ROLLOUTS, self._lines)
        self.folder.append(METRICS, [line])
        with self.timed("trace_s"):
            self.folder.append(TRACE, self._trace_lines(step))
        now = time.perf_counter()
        timings = {**self._timings, "step_s": now - self._began}
        self.folder.append(TIMINGS, [{"step": step, **timings}])
        self.teller.step(step, line, timings, self._alarms)
        self._lines, self._alarms, self._timings, self._began = [], [], {}, now
        self._sampler = None
        self.step = step + 1

    def _trace_lines(self, step: int) -> list[Line]:
        """One line for each of the step's optimizer steps."""
        made = [] if self._tracer is None else self._tracer.new()
        return [
            {
                "step": step,
                "substep": substep,
                "gradient": one["gradient"],
                "weights": one["weights"],
            }
            for substep, one in enumerate(made)
        ]

    def checkpoint(self, step: int) -> None:
        """Save weights and everything else a resumed run needs."""
        with self.timed("save_s"):
            saved = self.trainer.save_state(f"step-{step:06d}", overwrite=True)
            reward = None if self.reward is None else self.reward.state().to_json()
            self.folder.mark(
                step=step,
                state_path=saved.result(WAIT_SECONDS).path,
                kept={"watch": self.watch.state(), "reward": reward},
            )

    def finish(self, *, offset: bool = False) -> Finished:
        """Evaluate the last policy, save it, and look at the test split: with the chosen policy and with the last."""
        last = self.settings.steps
        metrics = self.evaluate(last)
        final = self.trainer.save_weights_for_sampler("final").result(WAIT_SECONDS).path
        best = self.watch.best
        assert best is not None, "the last policy was just evaluated"
        with self.timed("test_s"):
            chosen = self.sampler() if best.step == last else self._sampler_of(best.sampler_path)
            metrics |= self._test(chosen, best.step, "test")
            if best.step == last:
                again = {
                    key.replace("test", "test_last", 1): metrics[key] for key in sorted(metrics)
                }
                metrics |= {key: again[key] for key in again if key.startswith("test_last")}
            else:
                metrics |= self._test(self.sampler(), last, "test_last")
            if offset:
                found, lines = tested_with_offset(
                    chosen, self.study, self.validation_items, step=best.step
                )
                metrics |= found
                self._lines += lines
        # A server that died in the last evaluation is found out here, and not by failures in a finished run.
        self.trainer.get_info()
        self.record(last, metrics)
        path = final if best.step == last else best.sampler_path
        return Finished(selected=best, sampler_path=path, final_path=final)

    def _test(self, client: tinker.SamplingClient, step: int, split: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for greedy, name in ((False, split), (True, f"{split}_greedy")):
            found = evaluate(
                client,
                self.study,
                self.study.papers.test,
                self.settings,
                step=step,
                split=name,
                greedy=greedy,
            )
            metrics |= found.evaluation.metrics(name)
            self._lines += found.lines
        return metrics

    def _sampler_of(self, path: str) -> tinker.SamplingClient:
        return self.service.create_sampling_client(model_path=path).result(WAIT_SECONDS)

    def _keep_best(self, step: int) -> None:
        """Save the policy to sample from, if it is the best so far."""
        best = self.watch.best
        if best is not None and best.step == step:
            saved = self.trainer.save_weights_for_sampler(f"best-{step:06d}").result(WAIT_SECONDS)
            self.watch.best = replace(best, sampler_path=saved.path)
