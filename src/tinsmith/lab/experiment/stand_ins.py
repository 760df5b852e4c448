"""Stand-ins of the clients of an audit of units: the record replies, and single units of gradient are computed.

A step before the last unit that is wanted is computed whole, so that the weights go on; of the last step only the
wanted units are, and nothing of it is applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
import tinker
from tinker import types

from tinsmith.engine.sequences import Policy
from tinsmith.engine.trace import StepTrace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import Block, ComputeHere, ComputeUnits, MicroBatches, UnitRequest
from tinsmith.engine.unit_sums import UnitSums
from tinsmith.lab.difference.rollouts import Line
from tinsmith.lab.rollouts import RecordedSampler, Trajectory
from tinsmith.lab.service.local import Known, LocalSampler, LocalService, LocalTrainer
from tinsmith.models.adapter import Adapter
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.ops.objectives.objective import Objective, objective_of
from tinsmith.types.datum import Datum, DatumOutput
from tinsmith.types.errors import ConfigError

Substep = tuple[int, int]  # Step of a run, and number of an optimizer step in it.


@dataclass(slots=True)
class Replies:
    """Recorded replies of one step, each given to the conversation that it was written in."""

    _left: dict[tuple[str, int], deque[Line]] = field(default_factory=dict[tuple[str, int], "deque[Line]"])
    _of: dict[int, Line | None] = field(default_factory=dict[int, "Line | None"])  # By the conversation's environment.

    def begin(self, lines: Iterable[Line]) -> None:
        """Take the lines of a step, in the order of the file."""
        self._left, self._of = {}, {}
        for line in lines:
            key = (str(line.get("prompt_id")), cast(int, line.get("sample")))
            self._left.setdefault(key, deque()).append(line)

    def next(self, one: Trajectory[Any]) -> tuple[Sequence[int], Sequence[float] | None]:
        """Return the tokens of a conversation's next reply and their log-probabilities; None: it is not recorded."""
        if one.fork or one.depth:
            raise ConfigError(
                "replies that fork or spawn others cannot be taken from the record",
                field="--units",
                fix="audit whole steps: --steps 3",
            )
        if not one.turns:
            lines = self._left.get((one.item.prompt_id, one.sample))
            self._of[id(one.environment)] = lines.popleft() if lines else None
        line = self._of.get(id(one.environment))
        if line is None or "tokens" not in line:
            return (), None
        turns = cast(Sequence[Line], line.get("turns") or (line,))
        tokens = [cast(Sequence[int], turn["tokens"]) for turn in turns if "tokens" in turn]
        if len(one.turns) >= len(tokens):
            return (), None
        ends = [0, *accumulate(map(len, tokens))]
        place = len(one.turns)
        return tokens[place], cast(Sequence[float], line["logprobs"])[ends[place] : ends[place + 1]]


@dataclass(frozen=True, slots=True)
class RecordedPolicy(LocalSampler, RecordedSampler):
    """A policy whose replies are recorded, and whose log-probabilities are computed."""

    replies: Replies

    def recorded(
        self, ones: Sequence[Trajectory[Any]], prompt: types.ModelInput, *, observed: bool
    ) -> tinker.APIFuture[types.SampleResponse]:
        """Return the replies that the record has of these conversations."""
        sequences = [
            types.SampledSequence(
                stop_reason="stop",
                sequence_id="",
                tokens_np=np.array(tokens, np.int32),
                logprobs_np=None if logprobs is None else np.array(logprobs, np.float32),
            )
            for tokens, logprobs in map(self.replies.next, ones)
        ]
        read = np.array(self.compute_logprobs(prompt).value, np.float32) if observed else None
        return cast(Any, Known(types.SampleResponse(sequences=sequences, prompt_logprobs_np=read)))


@dataclass(slots=True)
class Alone(ComputeUnits):
    """Computes wanted units by themselves; of the others nothing."""

    wanted: Sequence[int]
    marks: dict[int, str] = field(default_factory=dict[int, str])  # SHA-256 of each unit's gradient, by its number.
    count: int = 0  # Units that there are.

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, asked: UnitRequest
    ) -> Iterator[Block]:
        """Yield a block for each unit; none has a gradient that would be applied."""
        objective = objective_of(asked.loss, asked.settings)
        for number, unit in enumerate(asked.units, asked.first):
            if asked.backward and number not in self.wanted:
                yield Block({at: _as_recorded(asked.datums[at], objective) for at in unit.datums}, None)
                continue
            alone = replace(asked, units=[unit], first=number, marked=True)
            for block in ComputeHere()(adapter, sums, micro_batches, alone):
                self.marks.update((number, mark) for mark in block.marks)
                yield Block(block.found, None, block.routes)
        if asked.backward:
            self.count = asked.first + len(asked.units)


def _as_recorded(datum: Datum, objective: Objective) -> tuple[DatumOutput, LossValue]:
    """Return what stands for a datum that is not computed: nothing depends on it."""
    zeros = np.zeros(datum.inputs["target_tokens"].shape, np.float32)
    logprobs = datum.inputs.get("logprobs", zeros).astype(np.float32)
    return DatumOutput(logprobs=logprobs), objective.value(logprobs, datum.inputs)


@dataclass(slots=True, kw_only=True)
class UnitTrainer(LocalTrainer):
    """A training client that computes single units."""

    wanted: Mapping[Substep, Sequence[int]]
    """Numbers of units, by their substep; after the last of these nothing is computed."""
    whole: dict[Substep, StepTrace] = field(default_factory=dict[Substep, StepTrace])
    """Trace of what was computed whole."""
    units: dict[Substep, Alone] = field(default_factory=dict[Substep, Alone])  # What was computed of other substeps.
    _at: Substep = (0, 0)

    def begin(self, step: int) -> None:
        """Go on to a step of the run."""
        self._at = (step, 0)
        self._prepare()

    def optim_step(self, params: types.AdamParams) -> Known[types.OptimStepResponse]:
        """Take a step, where its gradient is whole."""
        done = Known(types.OptimStepResponse(metrics={}))
        if self._is_whole:
            done = LocalTrainer.optim_step(self, params)
            assert self.session.trace is not None
            self.whole[self._at] = self.session.trace.steps[-1]
        self._at = (self._at[0], self._at[1] + 1)
        self._prepare()
        return done

    @property
    def _is_whole(self) -> bool:
        return self._at < max(self.wanted)

    def _prepare(self) -> None:
        self.session.optimizer.clear()
        if self._is_whole:
            self.session.compute = ComputeHere()
        else:
            self.session.compute = self.units[self._at] = Alone(self.wanted.get(self._at, ()))


@dataclass(slots=True, kw_only=True)
class UnitService(LocalService):
    """A service whose policies reply from the record, and whose training clients compute single units."""

    wanted: Mapping[Substep, Sequence[int]]
    replies: Replies = field(default_factory=Replies)

    def sampler(self, policy: Policy) -> LocalSampler:
        """Return who replies from the record."""
        return RecordedPolicy(self, policy, self.replies)

    def trainer(self, session: TrainingSession, model_id: str) -> LocalTrainer:
        """Return who computes single units."""
        return UnitTrainer(service=self, session=session, model_id=model_id, wanted=self.wanted)
