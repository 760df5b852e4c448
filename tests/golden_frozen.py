"""Cells of every study, data of every task, and figures of made-up runs, as `tests/golden` freezes them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from made_studies import MADE, studied

from tinsmith.cli.registered import STUDIES, plan_of, source_of
from tinsmith.cli.tasks import TASKS
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.study.arms import Cell, Study
from tinsmith.lab.user_task.items import split_items
from tinsmith.types.errors import ConfigError

SIZES: Final[Sequence[Mapping[str, str]]] = ({"size": "smallest"}, {}, {"at": "small"})
GIVEN: Final[Mapping[str, Mapping[str, str]]] = {"reasoning_gym": {"task": "chain_sum"}}
"""Keys without which a task cannot be opened."""
NOT_FROZEN: Final = frozenset({"verifiers", "taste"})
"""Tasks that need an installed environment, or a corpus."""
_KNOWN: Final[dict[tuple[str, str], dict[str, object]]] = {}


def frozen_cells() -> dict[str, Any]:
    """Return every study's cells at every size: keys that all of them resolve to, and by folder those that differ."""
    found: dict[str, Any] = {}
    for name, size, study in _studies():
        cells = {
            cell.folder.name: _resolved(cell)
            for arm in study.arms
            for cell in (*study.tuning(arm).values(), *study.reported(arm, next(iter(arm.rates), None)))
        }
        first, *others = cells.values()
        shared = {key: value for key, value in first.items() if all(one.get(key, "") == value for one in others)}
        found.setdefault(name, {})[size] = {
            "shared": shared,
            "cells": {
                folder: {key: value for key, value in keys.items() if key not in shared}
                for folder, keys in cells.items()
            },
        }
    return _plain(found)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(value))


def _studies() -> Iterator[tuple[str, str, Study]]:
    for name in sorted(STUDIES):
        for given in SIZES:
            asked = {"task": "crossroads"} if name == "study/learning" else {}
            try:
                found: Any = STUDIES[name].read({**asked, **given})
            except ConfigError:  # no such size, or no cells without a corpus
                continue
            study = found if isinstance(found, Study) else getattr(found, "study", None)
            if isinstance(study, Study) and study.arms:
                yield name, " ".join(f"{key}={value}" for key, value in given.items()) or "nano", study


def _resolved(cell: Cell) -> dict[str, object]:
    """Return what a cell's keys resolve to; of cells that differ by seed alone, one is resolved."""
    seed = int(cell.overrides["seed"])
    same = (cell.experiment.name, json.dumps([{**cell.overrides, "seed": ""}, cell.opened and dict(cell.opened.keys)]))
    if same not in _KNOWN:
        _KNOWN[same] = _values(cell)
    return {**_KNOWN[same], "seed": seed}


def _values(cell: Cell) -> dict[str, object]:
    keys = dict(make_plan(cell.experiment, cell.overrides).resolved())
    if cell.opened is None:
        return {"experiment": cell.experiment.name, **keys}
    source = source_of(cell.opened.found_at, cell.opened.keys)
    assert source is not None
    own = {f"task.{key.name}": key.read(cell.opened.keys.get(key.name)) for key in source.keys}
    return {"experiment": cell.opened.found_at, **keys, **own}


def frozen_items() -> dict[str, str]:
    """Return the fingerprint of the items and prompts of every task at its defaults."""
    found: dict[str, str] = {}
    for name in sorted(TASKS.keys() - NOT_FROZEN):
        given = GIVEN.get(name, {})
        source = source_of(name, given)
        assert source is not None
        task = source.make({key.name: key.read(given.get(key.name)) for key in source.keys})
        seed = plan_of(name, given).settings.seed
        found[name] = split_items(task, source.folder, seed).sha256
    return found


def frozen_figures() -> dict[str, Any]:
    """Return the numbers of every study on made-up runs."""
    found: dict[str, Any] = {}
    for name in MADE:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = studied(name, Path(folder) / "out")
    return _plain(found)


FROZEN: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "cells": frozen_cells,
    "items": frozen_items,
    "figures": frozen_figures,
}
"""By the name of the file."""
