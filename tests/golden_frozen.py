"""Cells of every study, data of every task, figures of made-up runs and of measurements, as `tests/golden` has them."""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from made_searches import Maker, searched
from made_studies import MADE, studied
from taste_corpora import world, write

from tinsmith.cli import main
from tinsmith.cli.registered import STUDIES, TASKS, plan_of, source_of
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import Cell, StudyCells
from tinsmith.lab.user_task.items import split_items
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.prompt_search.study import study as prompt_search
from tinsmith.studies.prompt_search.study import with_arms
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

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


def _studies() -> Iterator[tuple[str, str, StudyCells]]:
    for name in sorted(STUDIES):
        for given in SIZES:
            requests = {"task": "crossroads"} if name == "study/learning" else {}
            try:
                found: Any = STUDIES[name].read({**requests, **given})
            except ConfigError:  # no such size, or no cells without a corpus
                continue
            if isinstance(found, StudyCells) and found.arms:
                yield name, " ".join(f"{key}={value}" for key, value in given.items()) or "nano", found


def _resolved(cell: Cell) -> dict[str, object]:
    """Return what a cell's keys resolve to; of cells that differ by seed alone, one is resolved."""
    seed = int(cell.overrides["seed"])
    same = (cell.experiment.name, json.dumps([{**cell.overrides, "seed": ""}, dict(cell.task_keys)]))
    if same not in _KNOWN:
        _KNOWN[same] = _values(cell)
    return {**_KNOWN[same], "seed": seed}


def _values(cell: Cell) -> dict[str, object]:
    keys = dict(make_plan(cell.experiment, cell.overrides).resolved())
    if not cell.found_at:
        return {"experiment": cell.experiment.name, **keys}
    source = source_of(cell.found_at, cell.task_keys)
    own = {f"task.{key.name}": key.read(cell.task_keys.get(key.name)) for key in source.keys}
    return {"experiment": cell.found_at, **keys, **own}


def frozen_items() -> dict[str, str]:
    """Return the fingerprint of the items and prompts of every task at its defaults."""
    found: dict[str, str] = {}
    for name in sorted(TASKS.keys() - NOT_FROZEN):
        given = GIVEN.get(name, {})
        source = source_of(name, given)
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


MEASURED: Final[Mapping[str, Mapping[str, str]]] = {
    "sweep": {},
    "moe/wander": {
        **{"prompts": "2", "samples": "2", "tokens": "5", "prompt_tokens": "12", "batches": "3", "base_steps": "2"},
        "sides": "canonical",
    },
    "rubric_quality": {"limit": "20", "seed": "3"},
    "taste/probe": {"model": "tinsmith/nano", "validation_pairs": "6"},
}
"""Keys of the smallest run of each measurement."""
_VALUES: Final = {"rubric_quality": "quality.json", "moe/wander": "wander.json", "taste/probe": "probe.json"}
_SEARCHED: Final = "prompt_search"
_NO_FIGURES: Final = ("machine", "seconds", "story", "cannot_be_claimed")
"""Keys of the machine and its pace, and of sentences."""


def measured(name: str, out: Path) -> Path:
    """Run a measurement at its smallest, into a folder."""
    given = {**MEASURED[name], "log_path" if name == "rubric_quality" else "out": str(out)}
    if name == "sweep":
        arguments = ["batch=1", "padding=left", "deviation=shared_rng", "--out", str(out), "--completions", "2"]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(["sweep", *arguments])
        return out
    if name == "taste/probe":
        given["data"] = str(write(out.with_name(f"{out.name}-corpus"), world()).folder)
    return STUDIES[name].run(given, unsaid)


def values_of(name: str, folder: Path) -> dict[str, Any]:
    """Return what a measurement wrote, without the machine, its pace, and sentences."""
    found: Any = figures(json.loads((folder / _VALUES.get(name, "sweep.json")).read_text(encoding="utf-8")))
    return found


def searched_values(out: Path) -> dict[str, Any]:
    """Return the values of `prompt_search` on made-up runs: claims, gains, hashes, and its searches by seed."""
    few = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))
    study = replace(prompt_search, complete=partial(with_arms, search=searched))
    made = Maker({"rl": 0.5, "rl_shuffled": 0.4})
    run_study(study, {"out": str(out)}, unsaid, open_source=source_of, run=made, draws=few)
    found = json.loads((out / STUDY_JSON).read_text(encoding="utf-8"))
    written, *rows = found["tables"][0]["rows"]
    heads = ("before", "after", "steps", "put", "accepted", "rejected", "again", "answered")
    searches = [
        {
            **{head: cell["value"] for head, cell in zip(heads, cells[:-1], strict=True)},
            "found": cells[-1].split(" / "),
            "arm": "prompt_shuffled" if "shuffled" in name else "prompt",
            "seed": int(name.rpartition(" ")[2]),
        }
        for name, cells in rows
    ]
    keys = ("data", "num_items", "seeds", "tuning_seed", "rates", "question", "score", "arms", "gains", "more_gains")
    same = {key: found[key] for key in (*keys, "beats")}
    hashes = found["hashes"]
    return {
        **same,
        "learned": found["learned"][:2],
        "controls": found["learned"][2:],
        "searches": searches,
        "written": written[1][-1].split(" / "),
        "hashes": {name: one for name, one in hashes.items() if "file_sha256" not in one},
        "files": {name: one["file_sha256"] for name, one in hashes.items() if "file_sha256" in one},
        "panels": [{**one, "title": f"{one['title']}, held out"} for one in found["panels"]],
        "same_before": found["expectations"][-1]["met"],
    }


def figures(value: Any) -> Any:
    """Return values without the machine, its pace, and sentences."""
    if isinstance(value, dict):
        return {key: figures(one) for key, one in value.items() if key not in _NO_FIGURES}
    return [figures(one) for one in value] if isinstance(value, list) else value


def frozen_measurements() -> dict[str, Any]:
    """Return the values of every measurement at its smallest, and of made-up searches."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: values_of(name, measured(name, Path(folder) / str(at))) for at, name in enumerate(MEASURED)}
        return {**found, _SEARCHED: searched_values(Path(folder) / _SEARCHED)}


FROZEN: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "cells": frozen_cells,
    "items": frozen_items,
    "figures": frozen_figures,
    "measurements": frozen_measurements,
}
"""By the name of the file."""
