"""The study of sparse selection: what its arms may draw, and a tiny run of it on a random model."""

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
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.files import PAGE, STUDY_JSON, TABLES
from tinsmith.lab.study.results import Draws
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.sparse_select.outcome import Behind
from tinsmith.studies.sparse_select.settings import ArmName, sparse_study
from tinsmith.studies.sparse_select.study import run_sparse_select
from tinsmith.types.errors import ConfigError

# The SDK leaves sockets to the garbage collector.
pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]

DRAWS = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))
TASK = """
from tinsmith import Task

task = Task(
    items=[{"id": str(i)} for i in range(8)],
    held_out=[{"id": f"h{i}"} for i in range(4)],
    prompt="Say something about {id}.",
    reward=lambda item, text: len(text) / 100,
)
"""
TINY = {
    "seeds": "1",
    "steps": "2",
    "sparse_steps": "2",
    "sparse_rates": "1e-3",
    "groups_per_batch": "2",
    "group_size": "10",
    "batch_size": "4",
    "kept_items": "2",
    "entropy_threshold": "5.5",
    "learning_rate": "1e-3",
    "eval_samples": "1",
    "max_tokens": "5",
    "lora_rank": "4",
}


def test_arms_draw_as_many_rollouts_as_grpo_or_a_tenth() -> None:
    asked = sparse_study({}, source_of)
    keys = {arm.name: arm.keys for arm in asked.study.arms}
    drawn = {
        name: int(keys[name]["asked_items"]) * int(keys[name]["base_rollouts"])
        for name in (ArmName.EQUAL, ArmName.TENTH, ArmName.GOOD)
    }
    total = 120 * 16 * 8
    assert asked.budget[ArmName.GRPO] == total
    assert 0.95 * total < drawn[ArmName.EQUAL] == drawn[ArmName.GOOD] <= total
    assert 0.95 * total / 10 < drawn[ArmName.TENTH] <= total / 10
    assert keys[ArmName.GOOD]["pushed"] == "good"
    assert keys[ArmName.TENTH]["base_rollouts"] == "20"


def test_a_pretrained_model_is_asked_for_sums_and_the_same_numbers_stand_for_no_other_task() -> None:
    sums = sparse_study({"at": "small"}, source_of)
    assert sums.deciding()["config.max_terms"] == "3"
    assert sums.study.arms[0].opened is not None
    assert sums.study.arms[0].opened.found_at == "reasoning_gym"
    roads = sparse_study({"at": "small", "task": "crossroads"}, source_of)
    assert not roads.own
    assert "max_tokens" not in roads.study.shared


def test_rates_and_steps_of_both_methods_are_apart() -> None:
    asked = sparse_study({"learning_rate": "2e-3", "steps": "30", "sparse_rates": "5e-4"}, source_of)
    rates = {arm.name: arm.rates for arm in asked.study.arms}
    assert rates[ArmName.GRPO] == (2e-3,)
    assert rates[ArmName.EQUAL] == (5e-4,)
    several = sparse_study({}, source_of)
    tried = {arm.name: len(several.study.tuning(arm)) for arm in several.study.arms}
    assert tried == {"grpo": 0, "sparse": 4, "sparse_tenth": 4, "sparse_good": 4}
    (cell, *_) = several.study.tuning(several.study.arms[1]).values()
    assert (cell.overrides["examined"], cell.overrides["seed"]) == ("validation", "0")
    steps = {arm.name: arm.keys["steps"] for arm in asked.study.arms}
    assert steps[ArmName.GRPO] == "30"
    assert steps[ArmName.TENTH] != "30"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "huge"}, "size"),
        ({"task": "nothing"}, "task"),
        ({"asked_items": "3"}, "sets this key"),
        ({"sparse_rates": "0"}, "sparse_rates"),
        ({"sparse_steps": "0"}, "sparse_steps"),
        ({"stepz": "3"}, "stepz"),
    ],
)
def test_a_mistake_is_told_by_its_key(given: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        sparse_study(given, source_of)


def test_within_one_standard_error_is_within_it() -> None:
    def behind(gap: float) -> Behind:
        return Behind(name=ArmName.TENTH, gap=Measure(gap), standard_error=0.02, tokens=0.1)

    assert [behind(gap).came_out for gap in (0.1, -0.02, -0.03)] == [True, True, False]


def in_process(cells: Sequence[Cell], say: Say) -> None:
    for cell in cells:
        assert cell.opened is not None
        given = {**cell.opened.keys, **cell.overrides, "log_path": str(cell.folder), "threads": "1"}
        conduct(plan_of(cell.opened.found_at, given), say=say)


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sparse")
    (place / "odd.py").write_text(TASK)
    asked = {"task": str(place / "odd.py"), "out": str(place / "out"), **TINY}
    return run_sparse_select(
        {**asked, "model_name": str(made.base)}, print, open_source=source_of, run=in_process, draws=DRAWS
    )


def test_the_study_leaves_values_a_table_and_a_page(folder: Path) -> None:
    values: dict[str, Any] = json.loads((folder / STUDY_JSON).read_text())
    arms = {one["name"]: one for one in values["arms"]}
    assert list(arms) == [one.value for one in ArmName]
    assert arms["grpo"]["rollouts"] == 40
    assert arms["sparse"]["rollouts"] == arms["sparse_good"]["rollouts"] == 40
    assert arms["sparse_tenth"]["rollouts"] == 4
    assert arms["grpo"]["gated"] is None
    assert 0.0 < arms["sparse"]["gated"] < 1.0
    assert values["sentences"][0].startswith(("It came out", "It did not come out"))
    assert "| sparse selection " in (folder / TABLES).read_text()
    assert "standard error" in (folder / PAGE).read_text()


def test_a_run_goes_on_where_it_was_stopped_with_the_same_bits(folder: Path, made: Made, tmp_path: Path) -> None:
    (cell,) = folder.glob("cells/sparse-*")
    config = json.loads((cell / "config.json").read_text())
    given = {key: str(value) for key, value in config["overrides"].items()}
    given |= {"model_name": str(made.base), "threads": "1", "log_path": str(tmp_path / "run")}
    given |= {"behavior_if_log_dir_exists": "resume", "save_every": "1", "quiet": "true"}
    task = str(folder.parent / "odd.py")
    for stop in ("1", "0"):
        conduct(plan_of(task, {**given, "stop_after": stop}), say=print)
    ends = [json.loads((place / "manifest.json").read_text())["hashes"] for place in (cell, tmp_path / "run")]
    assert ends[0]["weights_sha256"] == ends[1]["weights_sha256"]
    assert ends[0]["rollouts_sha256"] == ends[1]["rollouts_sha256"]
