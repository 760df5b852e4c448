"""Runs that differ by their seed alone, and names that say what else runs differ in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tinsmith.lab.runs.reader import TaskRunRecords
from tinsmith.pages.tables import shown

R = TypeVar("R", bound=TaskRunRecords)


def seedless(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings but for the seed, in which runs of one arm differ."""
    return {key: value for key, value in settings.items() if key != "seed"}


def by_seed(
    reads: Iterable[R], identity: Callable[[R], object], rank: Callable[[R], tuple[int, ...]] = lambda _: ()
) -> tuple[tuple[R, ...], ...]:
    """Return runs of one `identity`, which differ by their seed alone, together; seeds ascending.

    Groups stand in the order in which they first occur. A seed again says nothing new, and is left out: all runs with
    it but the first of the highest `rank`.
    """
    groups: dict[str, dict[int | str, R]] = {}
    for one in reads:
        group = groups.setdefault(json.dumps(identity(one), sort_keys=True), {})
        seed = str(one.run.folder) if one.run.config.seed is None else one.run.config.seed
        if seed not in group or rank(one) > rank(group[seed]):
            group[seed] = one
    every = (group.values() for group in groups.values())
    return tuple(tuple(sorted(some, key=lambda one: (one.run.config.seed or 0, str(one.run.folder)))) for some in every)


def left_out(reads: Sequence[R], groups: Iterable[Sequence[R]]) -> list[R]:
    """Return the runs that are in none of the groups, as their seed is there already."""
    taken = {one.run.folder for some in groups for one in some}
    return [one for one in reads if one.run.folder not in taken]


def distinct(names: Sequence[str], settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return for each name the settings in which it differs from equal names; empty where it differs in none.

    >>> distinct(["a", "a", "b"], [{"steps": 1, "limit": None}, {"steps": 1}, {"steps": 2}])
    ['limit=none', '', '']
    """
    found: list[str] = []
    for name, own in zip(names, settings, strict=True):
        alike = [other for each, other in zip(names, settings, strict=True) if each == name]
        known = {key: shown(value) for key, value in own.items()}
        found.append(
            ", ".join(
                f"{key}={value}"
                for key, value in known.items()
                if any(key not in other or shown(other[key]) != value for other in alike)
            )
        )
    return found


def numbered(names: Sequence[str]) -> list[str]:
    """Return names of which equal ones have a number behind them.

    >>> numbered(["a", "b", "a"])
    ['a [1]', 'b', 'a [2]']
    """
    places = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [f"{name} [{place}]" if names.count(name) > 1 else name for name, place in zip(names, places, strict=True)]
