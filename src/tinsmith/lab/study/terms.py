"""Table of a reward's terms: how they differ within the groups of training, and how they go with being right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.runs.records import Split, TaskRollout
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Column, Shown
from tinsmith.lab.study.study import Listing
from tinsmith.pages.measures import over_all


class TermAudit(NamedTuple):
    """One term over groups of answers; None where nothing differs, or rightness was not measured."""

    variance: float
    """Within groups: mean squared deviation from the group's mean."""
    share: float | None
    """Of the reward's variance within groups: its covariance with the reward over that; shares add up to 1."""
    differs: float
    """Share of the groups in which it differs."""
    with_right: float | None
    """Pearson's correlation of deviations within groups from the means of the term and of being right."""


def audited(rollouts: Iterable[TaskRollout]) -> dict[str, TermAudit]:
    """Return an audit of every term that all rollouts have, none of which failed, over groups of two or more."""
    groups: list[list[TaskRollout]] = []
    terms: list[str] | None = None
    for one in rollouts:
        groups += [] if groups and one.continues(groups[-1][-1]) else [[]]
        groups[-1].append(one)
        terms = [name for name in (one.terms if terms is None else terms) if name in one.terms]
    compared, names = [group for group in groups if len(group) > 1], terms or ()
    rewards = [_centred([math.fsum(one.terms[name] for name in names) for one in group]) for group in compared]
    measured = [[one.metrics.get(_RIGHT, one.terms.get(_RIGHT)) for one in group] for group in compared]
    rights = [[] if None in some else _centred([one for one in some if one is not None]) for some in measured]
    count, reward = sum(map(len, compared)), _product(rewards, rewards)
    found: dict[str, TermAudit] = {}
    for name in names if compared else ():
        values = [_centred([one.terms[name] for one in group]) for group in compared]
        mine = [one if right else [] for one, right in zip(values, rights, strict=True)]
        scale = math.sqrt(_product(mine, mine) * _product(rights, rights))
        found[name] = TermAudit(
            variance=_product(values, values) / count,
            share=_product(values, rewards) / reward if reward > 0.0 else None,
            differs=sum(len({one.terms[name] for one in group}) > 1 for group in compared) / len(compared),
            with_right=_product(mine, rights) / scale if scale > 0.0 else None,
        )
    return found


def _centred(values: Sequence[float]) -> list[float]:
    if len(set(values)) < 2:
        return [0.0] * len(values)  # equal values deviate by nothing, whatever their mean rounds to
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _product(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    pairs = (pair for a, b in zip(first, second, strict=True) for pair in zip(a, b, strict=True))
    return math.fsum(a * b for a, b in pairs)


_RIGHT: Final = "right"  # Name of the metric or term that says whether an answer is right.
CAPTION: Final = (
    "Training answers, by group: variance around the group's mean, the term's share of the reward's, groups in which "
    f"it differs, and its correlation around the group's mean with being right (the metric or term {_RIGHT}). A term "
    "that does not differ within groups teaches nothing."
)
HEADS: Final = (
    Column(head="variance|within groups", form=".4f"),
    Column(head="share|of the reward's", form=".2f", missing="nothing differs"),
    Column(head="groups|in which it differs", form=".2f"),
    Column(head="correlation|with being right", form="+.2f", missing="none"),
)


def term_table(title: str = "Terms of the reward") -> Listing:
    """Return the table that shows, of every arm, the terms of its reward within groups of training answers."""

    def rows(results: Results) -> list[Sequence[Shown]]:
        runs = {arm.arm.label: [audited(run) for run in arm.trained_on()] for arm in results.reported_arms.values()}
        return [row for label, some in runs.items() for row in term_rows(some, f"{label}|")]

    caption = f"{CAPTION} Means over seeds, Student's 95 % intervals over seeds."
    return Listing(title, caption, HEADS, rows, names="Arm, term")


def term_rows(runs: Sequence[dict[str, TermAudit]], prefix: str = "") -> list[Sequence[Shown]]:
    """Return a row for each term that all runs have: means, and intervals where there are several runs."""
    rows: list[Sequence[Shown]] = []
    for name in runs[0] if runs else ():
        some = [one[name] for one in runs if name in one]
        rows += [(f"{prefix}{name}", *map(over_all, zip(*some, strict=True)))] if len(some) == len(runs) else []
    return rows


def audit_of_run(folder: Path) -> dict[str, TermAudit]:
    """Return an audit of the terms of a run's training rewards."""
    lines = json_lines(folder / ROLLOUTS, TaskRollout, [])
    return audited(one for one in lines if one.split == Split.TRAIN and one.failure is None)
