"""Audit of a run: consistency of its folder, and drawn steps recomputed from the nearest checkpoint.

Whoever doubts a run need not run all of it. Files are held against the hashes in the manifest, every checkpoint against
the trace; then steps that the auditor's seed draws are sampled, rewarded and trained once more, and compared bit for
bit. A step is reached from the newest checkpoint before it, so that the steps between are computed and compared too.
The evaluation and the test after the last step are computed where that is asked for.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgspec

from tinsmith.engine.checkpoint_files import ADAPTER, OPTIMIZER, is_checkpoint, read
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.engine.tinker_paths import SCHEME, TinkerPath
from tinsmith.lab.difference.rollouts import unequal_fields
from tinsmith.lab.difference.runs import Difference, recorded, unequal_step
from tinsmith.lab.experiment.audit_record import config_contradictions, contradictions, trained_steps
from tinsmith.lab.experiment.conduct import embedded_settings, open_run
from tinsmith.lab.experiment.key_text import Circumstances
from tinsmith.lab.experiment.manifest import require_same_models, seeds
from tinsmith.lab.experiment.materials import Materials, is_loaded_here
from tinsmith.lab.experiment.replay import PlanOf, remake, seconds_of
from tinsmith.lab.grouping import Line
from tinsmith.lab.judge.endpoint import OPENAI_URL
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.rl import take_step
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import CHECKPOINTS, MANIFEST, METRICS, SERVED_NAME, STATE, TRACE, Kind
from tinsmith.lab.runs.folder import Mark, RunFolder, best_of, damage, is_saved
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Manifest, Selected
from tinsmith.lab.service.connect import Connection, open_connection
from tinsmith.lab.service.local import LocalService, LocalTrainer
from tinsmith.lab.user_task.run_data import TaskData
from tinsmith.pages.measures import counted
from tinsmith.types.errors import ConfigError
from tinsmith.types.home import certificates_folder
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say, ticking

T = TypeVar("T")
SHARES = (0.01, 0.05, 0.2)  # Shares of forged steps of which it is said how probably they are found.


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Recomputed steps: from a checkpoint to the last drawn step that is nearest to it."""

    since: int
    until: int  # The last of its steps; the number of all, where the end of the run was computed, too.
    first: Difference | None  # The first difference; None: there is none.
    original_s: float  # Seconds of its steps in the original run.
    audit_s: float
    element: str | None = None
    """First unequal element of a checkpoint and its recomputation, with both values."""
    ends: bool = False  # True if the evaluation and the test after the last step were computed.

    @property
    def equal(self) -> bool:
        """True if every step and every checkpoint on the way is."""
        return self.first is None and self.element is None

    @property
    def steps(self) -> int:
        """Number of steps that were computed."""
        return self.until - self.since + (not self.ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited(Generic[T]):
    """Audit of steps or units of gradient, with its findings."""

    seed: int
    of_steps: int  # Steps of training that the run came to.
    faults: tuple[str, ...]  # Contradictions within the folder; found without computing a step.
    recorded_judge: str | None  # The judge whose verdicts were taken from the record; None: there is none.
    whole_s: float  # Seconds of the whole original run.
    cpu_s: float  # Processor time of this process until then, its libraries' start and a server's included.
    drawn: tuple[T, ...]
    segments: tuple[Segment, ...] = ()  # Of drawn steps.
    of_units: int | None = None  # Units that the run's trace has; None: steps were drawn.
    differences: tuple[Difference, ...] = ()
    """First difference after each checkpoint; later units of the same stretch were not computed."""
    whole_steps: int = 0  # Steps that were trained again whole, to reach a drawn unit.
    end_computed: bool | None = None
    """True if the evaluation and test after the last step were computed, the run's result; None: it has none."""

    @property
    def passed(self) -> bool:
        """True if no contradiction was found, and every recomputed step or unit was equal."""
        return not self.faults and not self.differences and all(each.equal for each in self.segments)

    def chance(self, share: float) -> float:
        """Return the probability that the draw contains a forged one, if this share of all (at least one) is forged."""
        return chance(self.of_steps if self.of_units is None else self.of_units, len(self.drawn), share)


class Suspect:
    """Run folder under audit; a `judge` is replaced by the run's recorded verdicts."""

    def __init__(self, folder: Path, *, or_served: bool = False) -> None:
        """Read the run's folder; `or_served` is passed to `judge_elsewhere`."""
        self.run, self.manifest = read_run(folder), RunFolder(folder).manifest()
        self.done = trained_steps(self.run)
        self.last = self.run.last_step or 0  # Step of the last line; the one of the run's end, where it has one.
        self.marks = [mark for mark in RunFolder(folder).marks() if mark.here]
        self.judge = judge_elsewhere(self.manifest, or_served=or_served)
        self.faults = tuple(note for note in self.run.notes if note.startswith(MANIFEST))
        try:
            for fault in contradictions(folder, self.manifest, self.marks, self.done):
                self.faults += () if fault in self.faults else (fault,)
        except (AttributeError, KeyError, TypeError, msgspec.ValidationError) as error:
            self.faults += (f"the record is not as a run writes it: {type(error).__name__}: {error}",)

    def remade(self, plan_of: PlanOf, say: Say, here: Mapping[str, str] | None) -> Materials:
        """Return the plan and its materials, on this machine's CPU unless `here` says otherwise."""
        # A judge that is not asked needs an address and no key.
        address = self.manifest.circumstances.get("judge_base_url") or OPENAI_URL
        judge = {} if self.judge is None else {"judge_base_url": str(address)}
        keys = {"device": "cpu", **judge, **(here or {})}
        materials = remake(self.run, self.manifest, plan_of, self.done, say, keys)
        self.faults += config_contradictions(self.run.folder, materials)
        if isinstance(materials.run_data, TaskData):
            return replace(materials, run_data=replace(materials.run_data, recorded=self.run.folder))
        return materials

    def spans(self, drawn: Sequence[T], step_of: Callable[[T], int]) -> list[tuple[Mark | None, list[T]]]:
        """Group the drawn ones by the newest undamaged checkpoint before them; None for the run's start.

        Both are in the order of their steps.
        """
        newest, nearest = sorted(self.marks, key=lambda one: -one.step), dict[int, Mark | None]()
        for step in sorted({step_of(one) for one in drawn}):
            nearest[step] = next((mark for mark in newest if mark.step <= step and self._is_whole(mark)), None)
        spans: dict[int, tuple[Mark | None, list[T]]] = {}
        for one in drawn:
            mark = nearest[step_of(one)]
            spans.setdefault(first_step(mark), (mark, []))[1].append(one)
        return [spans[since] for since in sorted(spans)]

    def _is_whole(self, mark: Mark) -> bool:
        return damage(self.run.folder / STATE, [mark.state_path, *best_of(mark)]) is None

    def audited(self, seed: int, drawn: tuple[T, ...], more: Iterable[str] = ()) -> Audited[T]:
        """Return the audit before any recomputation; `more` are further contradictions."""
        return Audited(
            seed=seed,
            of_steps=self.done,
            faults=(*self.faults, *more),
            recorded_judge=self.judge,
            whole_s=seconds_of(self.run, None),
            cpu_s=0.0,
            drawn=drawn,
            end_computed=False if self.last >= self.done else None,
        )


def first_step(mark: Mark | None) -> int:
    """Return the first step after a checkpoint; 0 for None, the start of the run."""
    return 0 if mark is None else mark.step


def audit(
    folder: Path,
    plan_of: PlanOf,
    *,
    steps: int,
    seed: int,
    say: Say,
    end: bool = False,
    here: Mapping[str, str] | None = None,
) -> Audited[int]:
    """Check a run's folder, and recompute `steps` drawn steps; the folder is not changed.

    `end` computes the evaluation and the test after the last step, too. `here` are keys that say where and how to
    compute; a run of a GPU is computed on this machine's CPU without them.
    """
    suspect = Suspect(folder)
    if end and suspect.last < suspect.done:
        raise ConfigError("this run did not come to its end", field="--end", fix="leave --end out")
    drawn = tuple(sorted(sorted(range(suspect.done), key=lambda step: derive(seed, "audit", step))[:steps]))
    places, segments = (*drawn, *([suspect.done] if end else [])), tuple[Segment, ...]()
    if places:
        segments = tuple(_computed(suspect, suspect.remade(plan_of, say, here), places, say))
    done = suspect.audited(seed, drawn)
    return replace(done, segments=segments, end_computed=end or done.end_computed, cpu_s=cpu_seconds())


def chance(of: int, drawn: int, share: float) -> float:
    """Return the probability that a draw contains a forged one, if this share of all (at least one) is forged.

    Hypergeometric, without replacement: 1 - C(n - f, k) / C(n, k) for k drawn of n with f forged.

    >>> round(chance(100, 3, 0.01), 9)
    0.03
    """
    forged = min(of, max(1, round(share * of)))
    return 1.0 - math.prod(max(0, of - forged - i) / (of - i) for i in range(drawn))


def _computed(suspect: Suspect, materials: Materials, places: Sequence[int], say: Say) -> Iterator[Segment]:
    """Compute the drawn steps; the number of all steps stands for the run's end."""
    run, manifest, plan = suspect.run, suspect.manifest, materials.plan
    before, state_folder = {mark.step: mark for mark in suspect.marks}, run.folder / STATE
    line_of = [*range(suspect.done), suspect.last]
    written = recorded(run.folder, line_of[places[-1]] + 1)
    with tempfile.TemporaryDirectory(prefix="tinsmith-audit-") as temporary, ExitStack() as stack:
        place, engine, connection = Path(temporary), None, None
        if needs_server(materials, manifest):
            (place / STATE).mkdir()
            settings = embedded_settings(plan, materials.models, place)
            connection = open_connection(plan.circumstances.base_url, settings, say)
            stack.callback(connection.close)
        else:
            with ticking("loading the model", say):
                engine = engine_of(materials, manifest)
        for mark, steps in suspect.spans(places, int):
            since, until = first_step(mark), steps[-1]
            fresh, began = place / f"from-{since}", time.perf_counter()
            fresh.mkdir()
            earlier = [line for step, lines in written[METRICS].items() if step < since for line in lines]
            (fresh / METRICS).write_bytes(b"".join(earlier))
            client: LocalService | Connection
            if connection is not None:
                (fresh / STATE).symlink_to(place / STATE, target_is_directory=True)
                mark = mark and lent(mark, state_folder, place / STATE)
                client = connection
            else:
                assert engine is not None
                client = LocalService(
                    engine=engine,
                    name=materials.model_name,
                    source=materials.models[materials.model_name],
                    loaded_from=state_folder,
                    saved=fresh / STATE,
                    unit_hashes=plan.circumstances.unit_hashes,
                )
            what = f"steps {since} to {until}" if since < suspect.done else "the evaluation and the test"
            with ticking(f"computing {what}", say), begun(materials, mark, fresh, client) as made:
                for step in range(since, min(until + 1, suspect.done)):
                    take_step(made, step)
                    made.folder.append(TRACE, _trace_lines(made, step))
                    if step + 1 in before:
                        made.checkpoint(step + 1)
                selected = made.finish() if until == suspect.done else None
            computed, traced = recorded(fresh, line_of[until] + 1), bool(written[TRACE])
            each = (unequal_step(line, written, computed, traced=traced) for line in line_of[since : until + 1])
            elements = chain(
                _unequal_elements(run.folder, before, fresh, fresh / STATE, since),
                () if selected is None else _unequal_ends(state_folder, manifest.selected, fresh / STATE, selected),
            )
            yield Segment(
                since=since,
                until=until,
                first=next((found for found in each if found is not None), None),
                original_s=seconds_of(run, line_of[until] + 1) - seconds_of(run, since),
                audit_s=time.perf_counter() - began,
                element=next(elements, None),
                ends=selected is not None,
            )


def _trace_lines(made: Run[Any, Any], step: int) -> list[Line]:
    """Return a step's lines of a local service's trace; empty with a server."""
    if made.connection is not None:
        return []
    lines: list[Line] = []
    for number, client in enumerate(made.agents.trainers):
        trainer = cast(LocalTrainer, cast(object, client))
        agent = {"agent": number} if made.agents.several else {}
        lines += [{**line, **agent} for line in trainer.new_trace(step)]
    return lines


def _unequal_elements(folder: Path, before: Mapping[int, Mark], fresh: Path, state: Path, since: int) -> Iterator[str]:
    """Compare each checkpoint after a step with its recomputation; return the first unequal elements."""
    for mark in RunFolder(fresh).marks():
        old = before.get(mark.step)
        if mark.step <= since or old is None or damage(folder / STATE, [old.state_path]) is not None:
            continue
        yield from _unequal_weights(folder / STATE, old.state_path, state, mark.state_path, (ADAPTER, OPTIMIZER))
        for each in unequal_fields(old.kept, mark.kept):
            if not all(str(one).startswith(SCHEME) for one in (each.first, each.second)):
                name, one, two = each.name, str(each.first), str(each.second)
                yield f"{CHECKPOINTS}: step {mark.step}: kept.{name} is {one:.40}, and {two:.40} computed again"


def _unequal_ends(recorded_state: Path, before: Selected | None, state: Path, now: Selected) -> Iterator[str]:
    for name in ("step", "score", "by"):
        if (one := getattr(before, name, None)) != (other := getattr(now, name)):
            yield f"{MANIFEST}: selected.{name} is {one}, and {other} computed again"
            return
    for name in ("final_path", "sampler_path"):
        path = getattr(before, name)
        if is_saved(recorded_state, path) and damage(recorded_state, [path]) is None:
            yield from _unequal_weights(recorded_state, path, state, getattr(now, name), (ADAPTER,))


def _unequal_weights(recorded_state: Path, paths: str, state: Path, again: str, files: Sequence[str]) -> Iterator[str]:
    """Compare saved weights, of several agents in turn, with those that were computed; return unequal elements."""
    if len(paths.split()) != len(again.split()):
        yield f"{paths}: it is of {counted(len(paths.split()), 'agent')}, and of {len(again.split())} computed again"
        return
    for path, other in zip(paths.split(), again.split(), strict=True):
        original = read(TinkerPath.parse(path).folder(recorded_state))
        places = (TinkerPath.parse(other).folder(each) for each in (state, recorded_state))
        made = read(next(place for place in places if is_checkpoint(place)))
        yield from (f"{path}: {what}" for what in original.unequal_facts(made.facts, "computed again"))
        yield from (f"{path}: {what}" for file in files for what in original.unequal_elements(made, file))


def judge_elsewhere(manifest: Manifest, *, or_served: bool = False) -> str | None:
    """Return the remote judge of a run, whose recorded verdicts are reused; None if it has none.

    With `or_served` also one that the run's own server had as the model that it trained.
    """
    named, around = manifest.judge, manifest.circumstances
    if named in (None, RULES):
        return None
    if named in (SERVED_NAME, around.get("model_name")):
        return str(named) if or_served else None
    own = not around.get("judge_base_url") and (around.get("base_url") or is_loaded_here(str(named), Circumstances()))
    return None if own else str(named)


def cpu_seconds() -> float:
    """Return the processor time of this process and its finished child processes."""
    return sum(os.times()[:4])


def needs_server(materials: Materials, manifest: Manifest) -> bool:
    """Return True if a run needs more of a server than sampling from and training its own model."""
    is_judged_here = manifest.judge not in (None, RULES) and judge_elsewhere(manifest) is None
    asks = len(materials.models) > 1 or is_judged_here or materials.plan.frame.kind is Kind.TASK_SPARSE
    return asks or materials.plan.circumstances.base_url is not None


def engine_of(materials: Materials, manifest: Manifest) -> Engine:
    """Return an engine with a run's base."""
    plan, name = materials.plan, materials.model_name
    engine = Engine(
        {name: materials.models[name]},
        arithmetic=plan.engine.arithmetic,
        device=plan.circumstances.device,
        seed=seeds(plan)["server"],
        deviation=plan.engine.deviation,
        gradient_unit=plan.engine.gradient_unit,
        hold=plan.circumstances.hold,
        certificate_store=CertificateStore(certificates_folder()),
    )
    found = {"fingerprint": engine.base(name).fingerprint, "certificate": engine.certificate_sha256(name)}
    now = {key: found.get(key, value) for key, value in manifest.model.items()}
    require_same_models(manifest, msgspec.structs.replace(manifest, identity={**manifest.identity, "model": now}))
    return engine


@contextmanager
def begun(
    materials: Materials, mark: Mark | None, folder: Path, client: LocalService | Connection
) -> Generator[Run[Any, Any], None, None]:
    """Yield a run restored from a checkpoint (None: from its start), continued in another folder."""
    here = isinstance(client, LocalService)
    connection = Connection(cast(Any, client), None, None) if here else client
    where = replace(materials.plan.circumstances, log_path=folder, quiet=True)
    again = replace(materials, plan=replace(materials.plan, circumstances=where))
    run = open_run(again, RunFolder(folder), mark, connection)
    if here:
        run.connection = None  # the training clients have the trace
    try:
        yield run
    finally:
        run.teller.close()
        run.course.subject.close()
        run.folder.close()


def lent(mark: Mark, recorded_state: Path, state: Path) -> Mark:
    """Copy a checkpoint into a server's state under an unused name; return its record there."""

    def copied(paths: str) -> str:
        old = [TinkerPath.parse(path) for path in paths.split()]
        new = [replace(one, session=f"recorded-{one.session}") for one in old]
        for before, after in zip(old, new, strict=True):
            shutil.copytree(before.folder(recorded_state), after.folder(state), dirs_exist_ok=True)
        return " ".join(map(str, new))

    mark = replace(mark, state_path=copied(mark.state_path))
    for path in best_of(mark):
        best = cast(Mapping[str, object], mark.kept["best"])
        mark = replace(mark, kept={**mark.kept, "best": {**best, "sampler_path": copied(path)}})
    return mark
