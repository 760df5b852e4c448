"""The study itself, tiny and on a random model: what it leaves, and that what was seen once is not looked at again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from label_runs import in_process
from small_slice import Made

from command_line import keys_in
from tinsmith.cli.registered import source_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import PAGE, TABLES
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import cells_of
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.microscope.study import study as microscope

pytestmark = pytest.mark.whole

SMALL = keys_in(
    "size=smallest steps=2 steps_on=2 groups_per_batch=2 group_size=2 items=6 held_out_items=4 eval_samples=1 "
    "max_tokens=6 lora_rank=4 learning_rate=0.05 samples=1"
)
DRAWS = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))


def study(given: Mapping[str, str], said: list[str] | None = None) -> Path:
    say = ([] if said is None else said).append
    return run_study(microscope, given, say, open_source=source_of, run=in_process, draws=DRAWS)


def rows(values: Mapping[str, Any], table: int) -> dict[str, list[float | None]]:
    return {
        name: [None if cell is None else cell["value"] for cell in cells]
        for name, cells in values["tables"][table]["rows"]
    }


def looks(values: Mapping[str, Any]) -> list[str]:
    return [one["file_sha256"] for one in values["hashes"].values() if "file_sha256" in one]


def found(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "study.json").read_text())


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "out"
    return study({**SMALL, "model_name": str(made.base), "out": str(out)})


def test_the_study_leaves_values_a_table_and_a_page(folder: Path) -> None:
    values = found(folder)
    assert values["num_items"] == 4
    assert (len(rows(values, 0)), len(rows(values, 1))) == (4, 6)
    assert "| the second writes (greedy) |" in (folder / TABLES).read_text()
    assert 'class="token' in (folder / PAGE).read_text()
    assert len(values["expectations"]) == 8
    assert values["expectations"][-1]["met"]  # the second against itself


def test_a_run_may_be_looked_at_again_from_its_folder(folder: Path, tmp_path: Path) -> None:
    (cell,) = (folder / "cells").iterdir()
    again = found(study({"second": f"{cell}@final", "samples": "1", "out": str(tmp_path / "again")}))
    assert looks(again) == looks(found(folder))
    assert rows(again, 0) == rows(found(folder), 0)


def test_a_checkpoint_against_itself_has_nothing_to_correct(folder: Path, tmp_path: Path) -> None:
    (cell,) = (folder / "cells").iterdir()
    same = {"first": f"{cell}@final", "second": f"{cell}@final", "samples": "1", "out": str(tmp_path / "same")}
    values = found(study(same))
    assert {row[1] for row in rows(values, 0).values()} == {1.0}
    taken = [row[2] for row in rows(values, 1).values()]
    assert (taken[:2], taken[3:5]) == ([0.0, 0.0], [0.0, 0.0])
    (file,) = (tmp_path / "same" / "looks").iterdir()
    written = file.stat().st_mtime_ns
    study(same)
    assert file.stat().st_mtime_ns == written


def test_another_task_has_none_of_what_stands_for_the_usual_one() -> None:
    def opened(**given: str) -> tuple[str, Mapping[str, str]]:
        arm = cells_of(microscope, given, source_of).arms[0]
        assert ("max_tokens" in arm.keys) is (given.get("task") is None)
        return arm.found_at, arm.task_keys

    assert opened(at="small", task="crossroads") == ("crossroads", {})
    assert opened(task="reasoning_gym", generator="basic_arithmetic")[1]["task"] == "basic_arithmetic"
