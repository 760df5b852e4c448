"""Audit of single units of gradient: drawn over a whole run, recomputed alone, compared with the trace.

A run with `unit_hashes=true` keeps the SHA-256 of each unit (a prefix tree of a request, or a datum). A unit needs the
data of its step and the weights before it: replies are taken from the record, rewards and advantages computed again,
weights loaded from the newest checkpoint before the step. Where that is not right before it, the steps between are
trained again from the record, and compared whole.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
import tinker
from tinker import types

from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Policy
from tinsmith.engine.trace import StepTrace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import Block, ComputeHere, ComputeUnits, MicroBatches, UnitRequest
from tinsmith.engine.unit_sums import UnitSums
from tinsmith.lab.difference.rollouts import ABSENT, Line, Timeline, decode, timeline
from tinsmith.lab.difference.runs import Difference, Phase, UnitDifference, unequal_rollouts, unequal_training
from tinsmith.lab.experiment.audit import Audited, Suspect, begun, cpu_seconds, engine_of, first_step, needs_server
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.experiment.replay import PlanOf
from tinsmith.lab.rl import take_step
from tinsmith.lab.rollouts import RecordedSampler, Trajectory
from tinsmith.lab.runs.files import ROLLOUTS, STATE, TRACE
from tinsmith.lab.runs.folder import Mark
from tinsmith.lab.runs.records import Manifest
from tinsmith.lab.service.local import Known, LocalSampler, LocalService, LocalTrainer, trace_line
from tinsmith.lab.user_task.run_data import TaskData
from tinsmith.models.adapter import Adapter
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.ops.objectives.objective import Objective, objective_of
from tinsmith.types.datum import Datum, DatumOutput
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say, ticking

_WHOLE: Final = "audit whole steps: --steps 3"


@dataclass(frozen=True, slots=True, order=True)
class UnitPlace:
    """Position of a unit of gradient in a run."""

    step: int
    substep: int
    unit: int


def audit_units(
    folder: Path, plan_of: PlanOf, *, share: float, seed: int, say: Say, here: Mapping[str, str] | None = None
) -> Audited[UnitPlace]:
    """Check a run's folder, and recompute this share of its units (at least one); the folder is not changed."""
    suspect = Suspect(folder, or_served=True)
    trace = {step: [decode(line) for line in lines] for step, lines in timeline(folder / TRACE, suspect.done).items()}
    every = [
        UnitPlace(step, substep, unit)
        for step, lines in trace.items()
        for substep, line in enumerate(lines)
        for unit in range(len(_units(line)))
    ]
    if not every:
        fix = "audit whole steps (--steps 3), or run it again with unit_hashes=true"
        raise ConfigError("this run has no hashes of its units of gradient", field="--units", fix=fix)
    count = max(1, min(len(every), round(share * len(every))))
    drawn = sorted(sorted(every, key=lambda one: derive(seed, "audit", one.step, one.substep, one.unit))[:count])
    done = suspect.audited(seed, tuple(drawn), _without_units(trace))
    materials = suspect.remade(plan_of, say, here)
    _require_alone(materials, suspect.manifest, trace)
    spans = suspect.spans(drawn, lambda one: one.step)
    rollouts = timeline(folder / ROLLOUTS, drawn[-1].step + 1)
    differences: list[Difference] = []
    with ticking("loading the model", say):
        engine = engine_of(materials, suspect.manifest)
    for mark, places in spans:
        with ticking(f"computing units of steps {first_step(mark)} to {places[-1].step}", say):
            differences += _computed(folder / STATE, materials, engine, mark, places, trace, rollouts)
    return replace(
        done,
        of_units=len(every),
        differences=tuple(differences),
        whole_steps=sum(places[-1].step - first_step(mark) for mark, places in spans),
        cpu_s=cpu_seconds(),
    )


def _units(line: Line) -> Sequence[str]:
    return cast(Sequence[str], line.get("units") or ())


def _without_units(trace: Mapping[int, Sequence[Line]]) -> Iterator[str]:
    for step, lines in trace.items():
        if not all(map(_units, lines)):
            yield f"{TRACE}: step {step} has no hashes of its units, and others have"


def _require_alone(materials: Materials, manifest: Manifest, trace: Mapping[int, Sequence[Line]]) -> None:
    run_data = materials.run_data
    asks = isinstance(run_data, TaskData) and run_data.other_model is not None
    found = {
        "several agents": any("agent" in line for lines in trace.values() for line in lines),
        "more to ask of its server than to train": asks or needs_server(materials, manifest),
    }
    for what, there in found.items():
        if there:
            what = f"this run has {what}, and its units cannot be computed alone"
            raise ConfigError(what, field="--units", fix=_WHOLE)


def _computed(
    loaded_from: Path,
    materials: Materials,
    engine: Engine,
    mark: Mark | None,
    places: Sequence[UnitPlace],
    trace: Mapping[int, Sequence[Line]],
    rollouts: Timeline,
) -> Iterator[Difference]:
    by_substep: dict[Substep, list[int]] = {}
    for one in places:
        by_substep.setdefault((one.step, one.substep), []).append(one.unit)
    with tempfile.TemporaryDirectory(prefix="tinsmith-audit-") as temporary:
        place = Path(temporary)
        service = UnitService(
            engine=engine,
            name=materials.model_name,
            source=materials.models[materials.model_name],
            loaded_from=loaded_from,
            saved=place / STATE,
            unit_hashes=True,
            drawn=by_substep,
        )
        # What evaluations ask is not in the record of a step, and no gradient depends on it.
        settings = replace(materials.plan.settings, eval_every=0)
        again = replace(materials, plan=replace(materials.plan, settings=settings))
        with begun(again, mark, place, service) as made:
            trainer = cast(UnitTrainer, cast(object, made.trainer))
            for step in range(first_step(mark), places[-1].step + 1):
                lines = [line for line in rollouts.get(step, []) if decode(line).get("split") == "train"]
                service.begin(map(decode, lines))
                trainer.begin(step)
                take_step(made, step)
                if (found := _unequal(step, lines, place, trainer, trace.get(step, ()))) is not None:
                    yield found
                    return


def _unequal(
    step: int, recorded: Sequence[bytes], computed: Path, trainer: UnitTrainer, trace: Sequence[Line]
) -> Difference | None:
    """Return the first difference of a recomputed step: rewards, fully trained substeps, drawn units."""
    # A reply on which something failed is not recorded, and nothing is trained on it.
    failed = {_who(line) for line in map(decode, recorded) if "failure" in line}
    sides = (
        [line for line in lines if _who(decode(line)) not in failed]
        for lines in (recorded, timeline(computed / ROLLOUTS, None).get(step, []))
    )
    whole = [
        msgspec.json.encode(trace_line(at, substep, made))
        for (at, substep), made in sorted(trainer.whole.items())
        if at == step
    ]
    ends = max(trainer.drawn)[0] == step
    expected = [msgspec.json.encode(line) for line in (trace[: len(whole)] if ends else trace)]
    found = unequal_rollouts(step, *sides) or unequal_training(step, expected, whole)
    return found or next(_unequal_units(step, trainer, trace), None)


def _who(line: Line) -> tuple[object, object]:
    return line.get("prompt_id"), line.get("sample")


def _unequal_units(step: int, trainer: UnitTrainer, trace: Sequence[Line]) -> Iterator[Difference]:
    for (at, substep), alone in sorted(trainer.units.items()):
        if at != step or (at, substep) not in trainer.drawn:
            continue
        hashes = _units(trace[substep])
        wrong = [unit for unit in alone.drawn if alone.marks.get(unit, ABSENT) != hashes[unit]]
        if alone.count != len(hashes):
            wrong.append(min(alone.count, len(hashes)))
        for unit in wrong[:1]:
            first = hashes[unit] if unit < len(hashes) else ABSENT
            of_units = max(alone.count, len(hashes))
            second = alone.marks.get(unit, ABSENT if unit >= alone.count else "not computed")
            different = UnitDifference(substep=substep, unit=unit, of_units=of_units, first=first, second=second)
            yield Difference(step=step, phase=Phase.GRADIENT, unit=different)


Substep = tuple[int, int]  # Step of a run, and number of an optimizer step in it.


@dataclass(frozen=True, slots=True)
class RecordedPolicy(LocalSampler, RecordedSampler):
    """Policy whose replies are recorded, and whose log-probabilities are computed."""

    service: UnitService

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
            for tokens, logprobs in map(self.service.reply, ones)
        ]
        read = np.array(self.compute_logprobs(prompt).value, np.float32) if observed else None
        return cast(Any, Known(types.SampleResponse(sequences=sequences, prompt_logprobs_np=read)))


@dataclass(slots=True)
class Alone(ComputeUnits):
    """Computation of the drawn units alone; all others are skipped."""

    drawn: Sequence[int]
    marks: dict[int, str] = field(default_factory=dict[int, str])  # SHA-256 of each unit's gradient, by its number.
    count: int = 0  # Units that there are.

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, request: UnitRequest
    ) -> Iterator[Block]:
        """Yield a block for each unit; none has a gradient that would be applied."""
        objective = objective_of(request.loss, request.settings)
        for number, unit in enumerate(request.units, request.first):
            if request.backward and number not in self.drawn:
                yield Block({at: _as_recorded(request.datums[at], objective) for at in unit.datums}, None)
                continue
            alone = replace(request, units=[unit], first=number, marked=True)
            for block in ComputeHere()(adapter, sums, micro_batches, alone):
                self.marks.update((number, mark) for mark in block.marks)
                yield Block(block.found, None, block.routes)
        if request.backward:
            self.count = request.first + len(request.units)


def _as_recorded(datum: Datum, objective: Objective) -> tuple[DatumOutput, LossValue]:
    """Return a placeholder output for a datum that is not computed; no result depends on it."""
    zeros = np.zeros(datum.inputs["target_tokens"].shape, np.float32)
    logprobs = datum.inputs.get("logprobs", zeros).astype(np.float32)
    return DatumOutput(logprobs=logprobs), objective.value(logprobs, datum.inputs)


@dataclass(slots=True, kw_only=True)
class UnitTrainer(LocalTrainer):
    """A training client that computes single units."""

    drawn: Mapping[Substep, Sequence[int]]
    """Numbers of the drawn units by substep; nothing is computed after the last of these."""
    whole: dict[Substep, StepTrace] = field(default_factory=dict[Substep, StepTrace])
    """Trace of the fully computed substeps."""
    units: dict[Substep, Alone] = field(default_factory=dict[Substep, Alone])  # What was computed of other substeps.
    _at: Substep = (0, 0)

    def begin(self, step: int) -> None:
        """Set the current step of the run."""
        self._at = (step, 0)
        self._prepare()

    def optim_step(self, params: types.AdamParams) -> Known[types.OptimStepResponse]:
        """Take an optimizer step, if its gradient is complete."""
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
        return self._at < max(self.drawn)

    def _prepare(self) -> None:
        self.session.optimizer.clear()
        if self._is_whole:
            self.session.compute = ComputeHere()
        else:
            self.session.compute = self.units[self._at] = Alone(self.drawn.get(self._at, ()))


@dataclass(slots=True, kw_only=True)
class UnitService(LocalService):
    """Service with replies from the record, and training clients that compute single units.

    Each recorded reply of a step is given to the conversation that it was written in.
    """

    drawn: Mapping[Substep, Sequence[int]]
    _left: dict[tuple[str, int], deque[Line]] = field(default_factory=dict[tuple[str, int], "deque[Line]"])
    _of: dict[int, Line | None] = field(default_factory=dict[int, "Line | None"])  # By the conversation's environment.

    def begin(self, lines: Iterable[Line]) -> None:
        """Load the lines of a step, in the order of the file."""
        self._left, self._of = {}, {}
        for line in lines:
            key = (str(line.get("prompt_id")), cast(int, line.get("sample")))
            self._left.setdefault(key, deque()).append(line)

    def reply(self, trajectory: Trajectory[Any]) -> tuple[Sequence[int], Sequence[float] | None]:
        """Return the recorded tokens of a conversation's next reply and their log-probabilities; None if missing."""
        if trajectory.fork or trajectory.depth:
            what = "replies that fork or spawn others cannot be taken from the record"
            raise ConfigError(what, field="--units", fix=_WHOLE)
        if not trajectory.turns:
            lines = self._left.get((trajectory.item.prompt_id, trajectory.sample))
            self._of[id(trajectory.environment)] = lines.popleft() if lines else None
        line = self._of.get(id(trajectory.environment))
        if line is None or "tokens" not in line:
            return (), None
        turns = cast(Sequence[Line], line.get("turns") or (line,))
        tokens = [cast(Sequence[int], turn["tokens"]) for turn in turns if "tokens" in turn]
        if len(trajectory.turns) >= len(tokens):
            return (), None
        ends = [0, *accumulate(map(len, tokens))]
        place = len(trajectory.turns)
        return tokens[place], cast(Sequence[float], line["logprobs"])[ends[place] : ends[place + 1]]

    def sampler(self, policy: Policy) -> LocalSampler:
        """Return the policy that replies from the record."""
        return RecordedPolicy(self, policy)

    def trainer(self, session: TrainingSession, model_id: str) -> LocalTrainer:
        """Return the training client that computes single units."""
        return UnitTrainer(service=self, session=session, model_id=model_id, drawn=self.drawn)
