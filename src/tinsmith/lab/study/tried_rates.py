"""Learning rates that a study tried on one seed: which one validation chose, and from which it is told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.results.arms import gather
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Manifest, Selected, Split
from tinsmith.lab.study.record import Tried, as_measure
from tinsmith.lab.user_task.records import read_task_run
from tinsmith.pages.measures import BOOTSTRAP, Measure
from tinsmith.pages.wording import listed
from tinsmith.stats.estimates import difference
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

LIKE_IT: Final = "not told apart"
"""What stands below a rate that may be as good as the chosen one."""
CAPTION: Final = (
    f"{LIKE_IT[0].upper()}{LIKE_IT[1:]}: the 95 % interval of its difference from the chosen rate, on the same papers, "
    "holds 0."
)


def chosen(tried: Sequence[Tried]) -> Tried:
    """Return the rate whose checkpoint was best on validation; the smaller one of two that were equal."""
    return max(tried, key=lambda one: (one.validation, one.tie_break, -one.rate))


def tried_on_labels(folders: Mapping[float, Path]) -> tuple[Tried, ...]:
    """Return what finished runs on labels scored on validation, by rate, and what each is behind the chosen one."""
    return held_against_chosen(read_tried(folders), folders)


def read_tried(folders: Mapping[float, Path]) -> tuple[Tried, ...]:
    """Read what finished runs scored on validation, by rate."""
    return tuple(_tried(rate, folder) for rate, folder in folders.items())


def held_against_chosen(tried: Sequence[Tried], folders: Mapping[float, Path]) -> tuple[Tried, ...]:
    """Return the rates with what each is behind the chosen one, from their runs' answers on validation."""
    if not tried:
        return ()
    best = chosen(tried)
    first = _answers(folders[best.rate])
    return tuple(one if one is best else replace(one, behind=_behind(first, folders[one.rate])) for one in tried)


def tried_on_tasks(folders: Mapping[float, Path], score: str) -> tuple[Tried, ...]:
    """Return what finished runs earned on their validation part, by rate, and what each is behind the best."""
    found = {rate: _scored(folder, score) for rate, folder in folders.items()}
    best = max(found, key=lambda rate: (*(one.mean() for one in found[rate]), -rate))
    tried: list[Tried] = []
    for rate, (sampled, greedy) in found.items():
        behind = None if rate == best else as_measure(mean_difference(found[best][0], sampled, BOOTSTRAP))
        tried.append(Tried(rate=rate, validation=sampled.mean(), tie_break=greedy.mean(), behind=behind))
    return tuple(tried)


def _scored(folder: Path, score: str) -> tuple[MeanRuns, MeanRuns]:
    read = read_task_run(read_run(folder))
    found = [
        next((one for one in exams if one.step == read.sampled[-1].step), None) for exams in (read.sampled, read.greedy)
    ]
    values = [{} if one is None else one.by_item(score) for one in found]
    if not all(values):
        raise DataError("a run has no score to choose by", field="cells", value=str(folder))
    return MeanRuns.of(folder.name, values[:1], read.units), MeanRuns.of(folder.name, values[1:], read.units)


def chance_words(by_name: Mapping[str, Sequence[Tried]]) -> str | None:
    """Say for whom validation does not tell the chosen rate from others; None where it tells all of them apart."""
    found: list[str] = []
    for name, tried in by_name.items():
        alike = sum(one.like_the_chosen for one in tried)
        if alike:
            found.append(f"{alike} of {len(tried) - 1} others for {name}")
    if not found:
        return None
    of = listed(found)
    return f"On validation the chosen rate is not told apart from {of}: which of these was chosen may be chance."


def rate_words(tried: Tried, chosen_rate: float | None) -> str:
    """Return what stands below a rate's score."""
    if tried.rate == chosen_rate:
        return "chosen"
    return LIKE_IT if tried.like_the_chosen else ""


def _tried(rate: float, folder: Path) -> Tried:
    selected = _selected(folder)
    if selected is None or selected.score is None:
        raise DataError(f"{folder} chose no checkpoint", field="selected")
    score = selected.score
    return Tried(rate=rate, validation=score.value, tie_break=score.tie_break)


def _selected(folder: Path) -> Selected | None:
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest).selected


def _answers(folder: Path) -> tuple[Metric, Runs] | None:
    selected = _selected(folder)
    assert selected is not None, "it was read before"
    evaluation = gather(read_run(folder)).evaluations.get((Split.EVAL, selected.step))
    return None if evaluation is None else (Metric(selected.by), evaluation.runs(folder.name))


def _behind(first: tuple[Metric, Runs] | None, folder: Path) -> Measure | None:
    second = _answers(folder)
    if first is None or second is None:
        return None
    metric, runs = first
    return as_measure(difference(runs, second[1], metric, BOOTSTRAP))
