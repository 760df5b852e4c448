"""Reads a run folder by its files' names, also one that is unfinished or was killed in the middle of a line.

A line that cannot be read is left out and counted; a file that is absent is named. Only a folder without a readable
`config.json` is refused: without it nothing says what was run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from tinsmith.data.baselines.answers import read_answers
from tinsmith.data.baselines.report import Baseline, BaselineReport, TargetReport, read_report
from tinsmith.lab.runs.files import BASELINES, CHECKPOINTS, CONFIG, MANIFEST, METRICS, REPORT, ROLLOUTS, TIMINGS
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import CheckpointRecord, Config, JointRollout, Manifest, RolloutRecord, Row, Run
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def read_run(folder: Path) -> Run:
    """Read everything of a run but its rollouts."""
    notes: list[str] = []
    config = _config(folder)
    baselines, answers = (None, {})
    if config.kind.has_baselines:
        baselines, answers = read_baselines(folder, config, notes)
    return Run(
        folder=folder,
        config=config,
        manifest=read_whole(folder / MANIFEST, Manifest, notes),
        metrics=_metrics(folder, notes),
        timings=tuple(map(_numbers, json_lines(folder / TIMINGS, dict[str, object], notes))),
        checkpoints=tuple(json_lines(folder / CHECKPOINTS, CheckpointRecord, notes)),
        baselines=baselines,
        baseline_answers=answers,
        notes=tuple(notes),
    )


def read_rollouts(folder: Path, notes: list[str], subject: str | None = None) -> Iterator[RolloutRecord]:
    """Yield the rollouts of a run in the order they were written; what is unreadable goes to `notes` at the end.

    With a `subject` they are about several labels, and what is said of this one is told.
    """
    if subject is None:
        yield from json_lines(folder / ROLLOUTS, RolloutRecord, notes)
    else:
        for rollout in json_lines(folder / ROLLOUTS, JointRollout, notes):
            yield rollout.alone(subject)


def _config(folder: Path) -> Config:
    file = folder / CONFIG
    if not file.is_file():
        raise DataError(
            f"{folder} holds no run",
            field="DIR",
            value=str(folder),
            allowed=f"a folder with a {CONFIG}, as `tinsmith run` leaves it",
        )
    try:
        config = msgspec.json.decode(file.read_bytes(), type=Config)
    except UNREADABLE as error:
        raise DataError(f"{file} is damaged: {error}") from None
    if config.kind is Kind.MEASUREMENT:
        raise DataError(
            f"{folder} holds no run: it is a measurement, and has its page already",
            field="DIR",
            value=str(folder),
            fix=f"open {folder / REPORT}",
        )
    return config


def read_whole(file: Path, kind: type[S], notes: list[str]) -> S | None:
    """Read a file that is one JSON object; None and a note where that cannot be."""
    if not file.is_file():
        notes.append(f"{file.name} is missing.")
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except UNREADABLE as error:
        notes.append(f"{file.name} cannot be read: {error}.")
        return None


def json_lines(file: Path, kind: type[T], notes: list[str]) -> Iterator[T]:
    """Yield the lines of a file, each an object of JSON; what is left out goes to `notes` at the end."""
    if not file.is_file():
        notes.append(f"{file.name} is missing.")
        return
    decoder = msgspec.json.Decoder(kind)
    bad = 0
    cut = False
    with file.open("rb") as stream:
        for line in stream:
            # A line without its end was being written when the run stopped, even where it can be read.
            cut = not line.endswith(b"\n")
            if cut or not line.strip():
                continue
            try:
                yield decoder.decode(line)
            except UNREADABLE:
                bad += 1
    if cut:
        notes.append(f"{file.name} stops in the middle of a line; that line is left out.")
    if bad:
        notes.append(f"{file.name}: {bad:,} unreadable line{'s' if bad > 1 else ''} left out.")


def _metrics(folder: Path, notes: list[str]) -> dict[int, Row]:
    """Read the metrics by step. A step that stands there twice counts as it was written last."""
    steps: dict[int, Row] = {}
    nameless = 0
    for line in json_lines(folder / METRICS, dict[str, object], notes):
        step = line.pop("step", None)
        if isinstance(step, int):
            steps[step] = _numbers(line)
        else:
            nameless += 1
    if nameless:
        notes.append(f"{METRICS}: {nameless:,} line{'s' if nameless > 1 else ''} without a step left out.")
    return dict(sorted(steps.items()))


def _numbers(line: Mapping[str, object]) -> Row:
    """Keep what is a number or null; whatever else a line may say is no metric."""
    return {
        key: None if value is None else float(value)
        for key, value in line.items()
        if value is None or isinstance(value, int | float)
    }


_Answers = Mapping[Baseline, Mapping[str, str]]


def read_baselines(folder: Path, config: Config, notes: list[str]) -> tuple[TargetReport | None, _Answers]:
    """Read the baselines for the run's own task, with their answers where these were kept."""
    try:
        report = read_report(folder)
    except DataError as error:
        notes.append(f"{error.what}.")
        return None, {}
    if report is None:
        notes.append(f"{BASELINES} is missing: the slice's baselines were not computed.")
        return None, {}
    for target in report.targets:
        if set(target.classes) == set(config.task.labels):
            return target, _answers(folder, report, target, notes)
    notes.append(f"{BASELINES} has nothing on the task {json.dumps(config.task.name)}.")
    return None, {}


def _answers(folder: Path, report: BaselineReport, target: TargetReport, notes: list[str]) -> _Answers:
    try:
        return read_answers(folder, report, target.target)
    except DataError as error:
        notes.append(f"{error.what}.")
        return {}
