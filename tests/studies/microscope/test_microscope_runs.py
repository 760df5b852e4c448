"""The study itself, tiny and on a random model: what it leaves, and that what was seen once is not looked at again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_slice import Made

from tinsmith.cli.registered import plan_of, source_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell, Opened
from tinsmith.lab.study.files import PAGE, TABLES
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.microscope.looking import LookSettings, saved
from tinsmith.studies.microscope.settings import microscope_settings
from tinsmith.studies.microscope.study import LOOKS, run_microscope
from tinsmith.types.errors import ConfigError

# The SDK leaves sockets to the garbage collector.
pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SMALL = {
    "size": "smallest",
    "steps": "2",
    "steps_on": "2",
    "groups_per_batch": "2",
    "group_size": "2",
    "items": "6",
    "held_out_items": "4",
    "eval_samples": "1",
    "max_tokens": "6",
    "lora_rank": "4",
    "learning_rate": "0.05",
    "samples": "1",
}
DRAWS = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))


def in_process(cells: Sequence[Cell], say: Say) -> None:
    for cell in cells:
        assert cell.opened is not None
        given = {**cell.opened.keys, **cell.overrides, "log_path": str(cell.folder), "threads": "1"}
        conduct(plan_of(cell.opened.found_at, given), say=say)


def study(given: Mapping[str, str], said: list[str] | None = None) -> Path:
    return run_microscope(
        given,
        ([] if said is None else said).append,
        open_source=source_of,
        plan_of=plan_of,
        run=in_process,
        draws=DRAWS,
    )


def found(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "study.json").read_text())


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "out"
    return study({**SMALL, "model_name": str(made.base), "out": str(out)})


def test_the_study_leaves_values_a_table_and_a_page(folder: Path) -> None:
    values = found(folder)
    assert values["control_unshifted"] == 1.0
    assert values["num_items"] == 4
    assert len(values["agreements"]) == 4
    assert len(values["interventions"]) == 6
    assert "| the second writes (greedy) |" in (folder / TABLES).read_text()
    assert 'class="token' in (folder / PAGE).read_text()
    assert len(values["expectations"]) == 8


def test_a_run_may_be_looked_at_again_from_its_folder(folder: Path, tmp_path: Path) -> None:
    (cell,) = (folder / "cells").iterdir()
    asked = {"second": f"{cell}@final", "samples": "1", "out": str(tmp_path / "again")}
    again = found(study(asked))
    (seen,) = again["looks"].values()
    assert seen == next(iter(found(folder)["looks"].values()))
    assert again["agreements"] == found(folder)["agreements"]


def test_a_checkpoint_against_itself_has_nothing_to_correct(folder: Path, tmp_path: Path) -> None:
    (cell,) = (folder / "cells").iterdir()
    out = tmp_path / "same"
    same = {"first": f"{cell}@final", "second": f"{cell}@final", "samples": "1", "out": str(out)}
    values = found(study(same))
    assert {row["unshifted"]["value"] for row in values["agreements"]} == {1.0}
    taken = {row["rule"]: row["taken"] for row in values["interventions"]}
    assert (taken["oracle"], taken["random"]) == (0.0, 0.0)
    (file,) = (out / LOOKS).iterdir()
    kept_names, settings = _kept(file)
    assert saved(file, kept_names, settings) is not None
    assert saved(file, ("base", kept_names[1]), settings) is None
    assert saved(out / "none.json", kept_names, settings) is None


def _kept(file: Path) -> tuple[tuple[str, str], LookSettings]:
    values = json.loads(file.read_text())
    names = (values["looked"]["first"], values["looked"]["second"])
    return names, LookSettings(**values["settings"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "huge"}, "size"),
        ({"task": "nothing"}, "task"),
        ({"seed": "3"}, "sets this key"),
        ({"threshold": "-1"}, "threshold"),
        ({"samples": "0"}, "samples"),
        ({"stepz": "3"}, "stepz"),
        ({"first": "nowhere@final"}, "second"),
        ({"second": "final"}, "DIR@base"),
        ({"second": "nowhere@final"}, "no such folder"),
        ({"second": "nowhere@final", "steps": "3"}, "nothing is trained"),
    ],
)
def test_a_mistake_is_told_by_its_key(given: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        microscope_settings(given, source_of)


def test_sizes_stand_for_numbers_that_may_be_changed() -> None:
    nano = microscope_settings({}, source_of)
    assert (nano.study.seeds, nano.samples) == ((1, 2, 3, 4, 5), 4)
    smallest = microscope_settings({"size": "smallest", "steps": "7"}, source_of)
    assert smallest.study.seeds == (1,)
    assert smallest.study.shared["steps"] == "7"
    assert smallest.deciding()["held_out_items"] == "24"
    small = microscope_settings({"at": "small"}, source_of)
    assert small.study.shared["at"] == "small"
    assert small.deciding()["task"] == "reasoning_gym"
    assert small.deciding()["config.max_terms"] == "3"


def test_another_task_has_none_of_what_stands_for_the_usual_one() -> None:
    roads = microscope_settings({"at": "small", "task": "crossroads"}, source_of)
    assert (roads.study.seeds, roads.samples) == ((1,), 2)
    assert "max_tokens" not in roads.study.shared
    assert roads.study.arms[0].opened == Opened(found_at="crossroads", keys={})


def test_a_generator_is_one_of_the_tasks_of_reasoning_gym() -> None:
    told = microscope_settings({"task": "reasoning_gym", "generator": "basic_arithmetic"}, source_of)
    assert told.study.arms[0].opened is not None
    assert told.study.arms[0].opened.keys["task"] == "basic_arithmetic"
    small = microscope_settings({"at": "small", "generator": "gsm_symbolic"}, source_of)
    assert small.study.arms[0].opened is not None
    assert small.study.arms[0].opened.keys == {"task": "gsm_symbolic"}
    with pytest.raises(ConfigError, match="not one of several"):
        microscope_settings({"generator": "basic_arithmetic"}, source_of)
