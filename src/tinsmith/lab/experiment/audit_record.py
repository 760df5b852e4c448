"""Contradictions within a run's record, which are found without computing a step.

Files are held against the hashes in the manifest, lines against the steps that they are of, checkpoints against the
trace, and the configuration against the identity that it was run by.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Final, cast

import msgspec
import numpy as np

from tinsmith.engine.checkpoint_files import ADAPTER, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.difference.rollouts import Timeline, decode, timeline
from tinsmith.lab.experiment.manifest import UNHASHED, config_of
from tinsmith.lab.experiment.materials import Materials
from tinsmith.lab.runs.files import CHECKPOINTS, CONFIG, MANIFEST, METRICS, ROLLOUTS, STATE, STOPPED_AT, TRACE, Status
from tinsmith.lab.runs.folder import Mark, RunFolder, best_of, damage, is_saved
from tinsmith.lab.runs.records import Manifest, Run, Selected
from tinsmith.lab.runs.saved import adapter_faults, final_faults
from tinsmith.pages.measures import counted
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sketches import digest

_GRADIENT: Final = "optim/grad_norm"
"""Metric of steps that changed the weights; a step whose rewards are all equal changes none."""
_STATED: Final = ("name", "version", "question", "kind", "at", "identity_sha256", "settings", "task", "reward", "data")
"""Fields of the configuration that follow from the plan; others say where the model lies, or how it was called."""


def trained_steps(run: Run) -> int:
    """Return the number of training steps of a run."""
    done = 0 if run.last_step is None else run.last_step + 1
    if run.config.steps is not None:
        done = min(done, run.config.steps)  # after them stands the test
    if run.last_step is not None and (stopped := run.metrics[run.last_step].get(STOPPED_AT)) is not None:
        done = int(max(0, min(done, stopped)))
    if done == 0:
        raise DataError(f"{run.folder} has no finished step: there is nothing to check")
    return min(done, len(run.metrics))  # of which each has a line, whatever number stands in one


def contradictions(folder: Path, manifest: Manifest, marks: Sequence[Mark], done: int) -> Iterator[str]:
    """Return contradictions within the folder: files, manifest and configuration, steps, checkpoints and trace."""
    stated = manifest.hashes
    for name, found in RunFolder(folder).hashes().items():
        if (stated or manifest.status == Status.FINISHED.value) and stated.get(name) != found:
            yield f"{name.removesuffix('_sha256')}.jsonl is not the file that the manifest names"
    if "trace_sha256" in stated and not (folder / TRACE).exists():
        yield f"{TRACE} is missing"
    links, now = list(manifest.trace_links), RunFolder(folder).links(TRACE)
    if links and links != now:
        line = 1 + next((at for at, pair in enumerate(zip(links, now, strict=False)) if pair[0] != pair[1]), len(now))
        yield f"{TRACE}: line {line} is the first that is not the one of the chain in the manifest"
    elif links and not str(stated.get("trace_sha256", "")).startswith(links[-1]):
        yield f"{MANIFEST}: the chain of {TRACE} does not end in its SHA-256"
    yield from _unlike_identity(RunFolder(folder).read_json(CONFIG), manifest)
    trace, metrics = timeline(folder / TRACE, None), timeline(folder / METRICS, None)
    yield from _misplaced(folder, manifest, metrics, done)
    if metrics and decode(metrics[max(metrics)][-1]).get(STOPPED_AT, done) != done:
        yield f"{METRICS}: {STOPPED_AT} is not the number of its steps"
    changed = [step for step in range(done) if step in metrics and _GRADIENT in decode(metrics[step][-1])]
    if not trace and changed and manifest.circumstances.get("base_url") is None:
        yield f"{TRACE} is missing: nothing ties the weights to the steps"
    yield from (f"{TRACE} has no line of step {step}" for step in changed if trace and step not in trace)
    if damaged := RunFolder(folder).damaged_marks():
        yield f"{CHECKPOINTS} has {counted(damaged, 'damaged line')}"
    paths = {path: step for mark in marks for path, step in _saved_of(mark)}
    yield from _unlike_end(manifest)
    if (selected := manifest.selected) is not None:
        paths[selected.final_path] = done
        if is_saved(folder / STATE, selected.sampler_path):  # a bundle of the last adapter is without it
            paths.setdefault(selected.sampler_path, selected.step)
        yield from final_faults(folder, manifest)
    traced = _traced(trace, {*paths.values()})
    for path, step in paths.items():
        yield from _unlike_trace(folder / STATE, path, traced[step] if trace else None, manifest)


def config_contradictions(folder: Path, materials: Materials) -> tuple[str, ...]:
    """Return the fields of the configuration that are not those of the plan that was made again."""
    before: Mapping[str, object] = RunFolder(folder).read_json(CONFIG)
    now: Mapping[str, object] = json.loads(json.dumps(config_of(materials)))
    return tuple(f"{CONFIG}: {what}" for name in _STATED for what in _unequal(name, before.get(name), now.get(name)))


def _unequal(name: str, one: object, two: object) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(two, dict):
        first, second = cast(dict[str, object], one), cast(dict[str, object], two)
        for key in sorted({*first, *second}):
            yield from _unequal(f"{name}.{key}", first.get(key), second.get(key))
    elif one != two:
        yield f"{name} is {one!s:.40}, and {two!s:.40} by what the run was asked"


def _unlike_identity(config: Mapping[str, object], manifest: Manifest) -> Iterator[str]:
    """Return the faults of the configuration and the manifest beside the identity that the manifest holds."""
    identity = {name: value for name, value in manifest.identity.items() if name not in UNHASHED}
    for file, stated in ((CONFIG, config.get("identity_sha256")), (MANIFEST, manifest.identity_sha256)):
        if identity and stated != sha256_of(identity):
            yield f"{file}: identity_sha256 is not that of the identity in {MANIFEST}"
    settings = cast(Mapping[str, object], config.get("settings") or {})
    for key, value in cast(Mapping[str, object], identity.get("settings") or {}).items():
        if settings.get(key) != value:
            yield f"{CONFIG}: settings.{key} is {settings.get(key)!s:.40}, and {value!s:.40} in {MANIFEST}"


def _unlike_end(manifest: Manifest) -> Iterator[str]:
    """Return what a finished run's manifest has not, or not as a run writes it."""
    is_finished = manifest.status == Status.FINISHED.value
    if is_finished and manifest.circumstances.get("base_url") is None and not manifest.model.get("fingerprint"):
        yield f"{MANIFEST}: the fingerprint of the base is missing"
    selected = Selected(step=0) if is_finished and manifest.selected is None else manifest.selected
    for name in () if selected is None else ("final_path", "sampler_path"):
        if not (path := getattr(selected, name)) or path != " ".join(path.split()):
            yield f"{MANIFEST}: selected.{name} is not as a run writes it"


def _misplaced(folder: Path, manifest: Manifest, metrics: Timeline, done: int) -> Iterator[str]:
    """Return the first line of each file that does not stand where a run writes it.

    A step has one line of metrics, in order, and the run's end one more. Under an earlier step than those before them
    stand, at the end, answers of the chosen policy's test.
    """
    steps = [step for step, lines in metrics.items() for _ in lines]
    expected = [*range(done), *steps[done : done + 1]]
    if steps != expected:
        at = next((i for i, (one, two) in enumerate(zip(steps, expected, strict=False)) if one != two), len(expected))
        missing = f"has no line of step {at}" if at < done else f"has more than a run's lines after step {done - 1}"
        yield f"{METRICS} {missing}"
    last, selected = max(metrics, default=0), manifest.selected
    for name in (ROLLOUTS, TRACE):
        for step, lines in timeline(folder / name, None).items():
            for line in map(decode, lines):
                tested = name == ROLLOUTS and step == last and str(line.get("split")).startswith("test")
                if line["step"] != step and not (tested and selected is not None and line["step"] == selected.step):
                    yield f"{name}: a line of step {line['step']} stands among those of step {step}"
                    break


def _saved_of(mark: Mark) -> Iterator[tuple[str, int]]:
    """Return the saved weights that a checkpoint names, and the steps after which they were saved."""
    yield mark.state_path, mark.step
    for path in best_of(mark):
        step = cast(Mapping[str, object], mark.kept["best"]).get("step")
        yield path, step if isinstance(step, int) else 0


class _Substep(msgspec.Struct, frozen=True):
    """Line of the trace: an optimizer step of an agent, and the marks of the weights after it."""

    agent: int = 0
    weights: Mapping[str, dict[str, object]] = {}


_SUBSTEP: Final = msgspec.json.Decoder(_Substep)
_Traced = tuple[Mapping[int, _Substep], Counter[int]]  # By agent: its last optimizer step, and the number of all.


def _traced(trace: Timeline, steps: Set[int]) -> Mapping[int, _Traced]:
    """Return what the trace has before each of these steps."""
    found, last, count = dict[int, _Traced](), dict[int, _Substep](), Counter[int]()
    for step in sorted({*steps, *trace}):
        if step in steps:
            found[step] = dict(last), count.copy()
        for line in map(_SUBSTEP.decode, trace.get(step, ())):
            last[line.agent] = line
            count[line.agent] += 1
    return found


def _unlike_trace(state: Path, paths: str, traced: _Traced | None, manifest: Manifest) -> Iterator[str]:
    """Return the faults of a checkpoint: damage, another adapter than the run's, or what the trace does not lead to."""
    if (what := damage(state, [paths])) is not None:
        yield what
        return
    for agent, path in enumerate(paths.split()):
        found = read(TinkerPath.parse(path).folder(state))
        yield from (f"{path}: {what}" for what in adapter_faults(found, manifest))
        last, count = ({}, {agent: found.step_count}) if traced is None else traced
        yield from (f"{path}: {what}" for what in found.unequal_facts({"step_count": count[agent]}, f"by {TRACE}"))
        marks = last[agent].weights if agent in last else {}
        for name, tensor in sorted(found.tensors(ADAPTER).items() if marks else ()):
            flat = tensor.contiguous().numpy().ravel() + np.float32(0)
            if name in marks and marks[name].get("sha256") != digest(flat):
                yield f"{path}: {name} is not what the trace has after its optimizer step {count[agent]}"
                break
