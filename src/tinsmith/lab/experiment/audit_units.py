"""Audit of single units of gradient: drawn over a whole run, computed alone, and held against the run's trace.

A run with `unit_hashes=true` keeps the SHA-256 of each unit (a prefix tree of a request, or a datum). A unit needs the
data of its step and the weights before it: replies are taken from the record, rewards and advantages computed again,
weights loaded from the newest checkpoint before the step. Where that is not right before it, the steps between are
trained again from the record, and compared whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import msgspec

from tinsmith.engine.engine import Engine
from tinsmith.lab.difference.rollouts import ABSENT, Line, Timeline, decode, timeline
from tinsmith.lab.difference.runs import Difference, Phase, UnitDifference, unequal_rollouts, unequal_training
from tinsmith.lab.experiment.again import (
    begun,
    contradictions,
    cpu_seconds,
    engine_of,
    judge_elsewhere,
    needs_server,
    trained_steps,
)
from tinsmith.lab.experiment.audit import AnyAudit, chance, made_again, nearest_mark
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.manifest import Json
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.experiment.replay import seconds_of
from tinsmith.lab.experiment.stand_ins import Substep, UnitService, UnitTrainer
from tinsmith.lab.rl import take_step
from tinsmith.lab.runs.files import MANIFEST, ROLLOUTS, STATE, TRACE, Kind
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run
from tinsmith.lab.service.local import trace_line
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.run_data import TaskData
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say, ticking


@dataclass(frozen=True, slots=True, order=True)
class UnitPlace:
    """The place of a unit of gradient in a run."""

    step: int
    substep: int
    unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitsAudited(AnyAudit):
    """An audit of units and what it found."""

    of_units: int
    """Units that the run's trace has."""
    drawn: tuple[UnitPlace, ...]
    differences: tuple[Difference, ...]
    """The first after each checkpoint; units that are drawn behind one in the same stretch were not computed."""
    whole_steps: int
    """Steps that were trained again whole, to reach a drawn unit."""

    @property
    def passed(self) -> bool:
        """True if nothing contradicts itself and every unit was equal."""
        return not self.faults and not self.differences

    def chance(self, share: float) -> float:
        """Return how probably a drawn unit is a forged one, where this share of all units (at least one) is forged."""
        return chance(self.of_units, len(self.drawn), share)


def audit_units(
    folder: Path,
    subjects: Mapping[Kind, UserTaskEntry],
    plan_of: Callable[[str, Mapping[str, str]], Plan],
    *,
    share: float,
    seed: int,
    say: Say,
    here: Mapping[str, str] | None = None,
) -> UnitsAudited:
    """Check a run's folder, and compute this share of its units (at least one) again; nothing in the folder changes."""
    run, manifest = read_run(folder), RunFolder(folder).read_json(MANIFEST)
    done, marks = trained_steps(run), [mark for mark in RunFolder(folder).marks() if mark.here]
    trace = {step: [decode(line) for line in lines] for step, lines in timeline(folder / TRACE, done).items()}
    every = [
        UnitPlace(step, substep, unit)
        for step, lines in trace.items()
        for substep, line in enumerate(lines)
        for unit in range(len(_units(line)))
    ]
    if not every:
        raise ConfigError(
            "this run kept no hashes of its units of gradient",
            field="--units",
            fix="audit whole steps (--steps 3), or run it again with unit_hashes=true",
        )
    faults = [*contradictions(folder, manifest, marks, done), *_without_units(trace)]
    count = max(1, min(len(every), round(share * len(every))))
    drawn = sorted(sorted(every, key=lambda one: derive(seed, "audit", one.step, one.substep, one.unit))[:count])
    judge = judge_elsewhere(manifest, or_served=True)
    plan, materials = made_again(run, manifest, subjects, plan_of, done, say, here or {}, judge)
    _require_alone(plan, materials, manifest, trace)
    nearest = {step: nearest_mark(folder, marks, step) for step in sorted({one.step for one in drawn})}
    spans: dict[int, tuple[Mark | None, list[UnitPlace]]] = {}
    for one in drawn:
        mark = nearest[one.step]
        spans.setdefault(0 if mark is None else mark.step, (mark, []))[1].append(one)
    rollouts = timeline(folder / ROLLOUTS, drawn[-1].step + 1)
    differences: list[Difference] = []
    with ticking("loading the model", say):
        engine = engine_of(plan, materials, manifest)
    for since, (mark, places) in sorted(spans.items()):
        with ticking(f"computing units of steps {since} to {places[-1].step}", say):
            differences += _computed(run, plan, materials, engine, mark, places, trace, rollouts)
    return UnitsAudited(
        seed=seed,
        of_units=len(every),
        of_steps=done,
        drawn=tuple(drawn),
        faults=tuple(faults),
        differences=tuple(differences),
        whole_steps=sum(places[-1].step - since for since, (_, places) in spans.items()),
        recorded_judge=judge,
        whole_s=seconds_of(run, None),
        cpu_s=cpu_seconds(),
    )


def _units(line: Line) -> Sequence[str]:
    return cast(Sequence[str], line.get("units") or ())


def _without_units(trace: Mapping[int, Sequence[Line]]) -> Iterator[str]:
    """Say which steps hide their units, where others show them."""
    for step, lines in trace.items():
        if not all(map(_units, lines)):
            yield f"{TRACE}: step {step} has no hashes of its units, and others have"


def _require_alone(plan: Plan, materials: Materials, manifest: Json, trace: Mapping[int, Sequence[Line]]) -> None:
    """Refuse a run whose units cannot be computed from its record alone."""
    run_data = materials.run_data
    asks = isinstance(run_data, TaskData) and run_data.asked is not None
    found = {
        "several agents": any("agent" in line for lines in trace.values() for line in lines),
        "more to ask of its server than to train": asks or needs_server(plan, materials, manifest),
    }
    for what, there in found.items():
        if there:
            raise ConfigError(
                f"this run has {what}, and its units cannot be computed alone",
                field="--units",
                fix="audit whole steps: --steps 3",
            )


def _computed(
    run: Run,
    plan: Plan,
    materials: Materials,
    engine: Engine,
    mark: Mark | None,
    places: Sequence[UnitPlace],
    trace: Mapping[int, Sequence[Line]],
    rollouts: Timeline,
) -> Iterator[Difference]:
    """Go from a checkpoint to the last of its units; yield the first difference on the way."""
    since = 0 if mark is None else mark.step
    wanted: dict[Substep, list[int]] = {}
    for one in places:
        wanted.setdefault((one.step, one.substep), []).append(one.unit)
    with tempfile.TemporaryDirectory(prefix="tinsmith-audit-") as temporary:
        place = Path(temporary)
        service = UnitService(
            engine=engine,
            name=materials.model_name,
            source=materials.models[materials.model_name],
            kept=run.folder / STATE,
            saved=place / STATE,
            unit_hashes=True,
            wanted=wanted,
        )
        # What evaluations ask is not in the record of a step, and no gradient depends on it.
        again = replace(plan, settings=replace(plan.settings, eval_every=0))
        with begun(again, materials, mark, place, service) as made:
            trainer = cast(UnitTrainer, cast(object, made.trainer))
            for step in range(since, places[-1].step + 1):
                lines = _trained_on(rollouts, step)
                service.replies.begin(map(decode, lines))
                trainer.begin(step)
                take_step(made, step)
                if (found := _unequal(step, lines, place, trainer, trace.get(step, ()))) is not None:
                    yield found
                    return


def _trained_on(recorded: Timeline, step: int) -> list[bytes]:
    """Return the lines of a step's training; those of its evaluations are left out."""
    return [line for line in recorded.get(step, []) if decode(line).get("split") == "train"]


def _unequal(
    step: int, recorded: Sequence[bytes], computed: Path, trainer: UnitTrainer, trace: Sequence[Line]
) -> Difference | None:
    """Return where a step that was computed differs from the record: rewards, what was trained whole, drawn units."""
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
    ends = max(trainer.wanted)[0] == step
    expected = [msgspec.json.encode(line) for line in (trace[: len(whole)] if ends else trace)]
    found = unequal_rollouts(step, *sides) or unequal_training(step, expected, whole)
    return found or next(_unequal_units(step, trainer, trace), None)


def _who(line: Line) -> tuple[object, object]:
    return line.get("prompt_id"), line.get("sample")


def _unequal_units(step: int, trainer: UnitTrainer, trace: Sequence[Line]) -> Iterator[Difference]:
    """Yield drawn units whose gradient has another hash than in the trace, and where there are more or fewer."""
    for (at, substep), alone in sorted(trainer.units.items()):
        if at != step or (at, substep) not in trainer.wanted:
            continue
        hashes = _units(trace[substep])
        wrong = [unit for unit in alone.wanted if alone.marks.get(unit, ABSENT) != hashes[unit]]
        if alone.count != len(hashes):
            wrong.append(min(alone.count, len(hashes)))
        for unit in wrong[:1]:
            first = hashes[unit] if unit < len(hashes) else ABSENT
            of_units = max(alone.count, len(hashes))
            second = alone.marks.get(unit, ABSENT if unit >= alone.count else "not computed")
            different = UnitDifference(substep=substep, unit=unit, of_units=of_units, first=first, second=second)
            yield Difference(step=step, phase=Phase.GRADIENT, unit=different)
