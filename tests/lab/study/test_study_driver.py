"""Runs of a study: which there are, in which order they come, what is said before, and on which cluster they run."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.conduct import Stage, forecast, tune
from tinsmith.lab.study.keys import cluster_of
from tinsmith.lab.study.sizes import Cell, StudyArm, StudyCells
from tinsmith.stats.rates import Metric
from tinsmith.studies.disruption.experiments import CONTROL_ZERO_SHOT, REMEDY_EXP6, SFT_LORA
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

SFT = StudyArm("sft", "SFT", SFT_LORA, (1e-3, 2e-3, 4e-3))
GIVEN = StudyArm("given", "RL", REMEDY_EXP6, (2e-3,), {"steps": "7"})
BASE = StudyArm("base", "the base", CONTROL_ZERO_SHOT)


@pytest.fixture
def study(tmp_path: Path) -> StudyCells:
    return StudyCells(
        name="study/made",
        question="Which?",
        arms=(SFT, GIVEN, BASE),
        shared={"lora_rank": "4", "steps": "3"},
        out=tmp_path / "out",
        seeds=(1, 2),
    )


def test_every_run_has_a_folder_and_keys_of_its_own(study: StudyCells) -> None:
    cells = [
        *(cell for arm in study.arms for cell in study.tuning(arm).values()),
        *study.reported(SFT, 2e-3),
        *study.reported(GIVEN, 2e-3),
        *study.reported(BASE, None),
    ]
    assert [cell.folder.name for cell in cells] == [
        "sft-rate=0.001-seed=0",
        "sft-rate=0.002-seed=0",
        "sft-rate=0.004-seed=0",
        "sft-rate=0.002-seed=1",
        "sft-rate=0.002-seed=2",
        "given-rate=0.002-seed=1",
        "given-rate=0.002-seed=2",
        "base-seed=1",
        "base-seed=2",
    ]
    assert cells[5].overrides == {"lora_rank": "4", "steps": "7", "learning_rate": "0.002", "seed": "1"}
    assert "learning_rate" not in cells[-1].overrides


def test_an_arm_with_one_rate_is_not_tuned_and_each_is_reported_with_every_seed(study: StudyCells) -> None:
    ran: list[list[str]] = []
    words: list[str] = []

    def run(cells: Sequence[Cell], say: Say) -> None:
        del say
        ran.append([cell.folder.name for cell in cells])

    tuned = tune(Stage(cells=study, tuned={}, run_cells=run, say=words.append), (GIVEN, BASE), Metric.MACRO_F1)
    assert ran == [[]]
    assert [(one.rate, one.tried) for one in tuned.values()] == [(2e-3, ()), (None, ())]
    reported = [cell.folder.name for one in tuned.values() for cell in one.cells]
    assert reported == ["given-rate=0.002-seed=1", "given-rate=0.002-seed=2", "base-seed=1", "base-seed=2"]
    assert words == []


def test_a_forecast_names_the_arms_and_builds_nothing(study: StudyCells) -> None:
    text = forecast(study, (StudyArm("later", "later", SFT_LORA, (1e-3, 2e-3)),), lambda _: None)
    assert [line.partition(":")[0] for line in text[:5]] == ["study/made", "SFT", "RL", "the base", "later"]
    assert text[1].endswith("0.001, 0.002, 0.004")
    assert text[5] == "all arms: " + " ".join(f"{key}={value}" for key, value in study.shared.items())
    assert text[6].startswith("5 runs to choose rates on seed 0, 8 ")
    assert text[7].startswith("13 runs in ")
    assert not study.out.exists()


def test_a_forecast_is_one_total_with_each_base_that_is_built_first_once(study: StudyCells) -> None:
    later = (StudyArm("later", "later", SFT_LORA, (1e-3,)),)
    total = forecast(study, later, lambda _: 0.1, lambda _: {Path("one"): 1000.0})[-1]
    assert total.startswith("a small base and ")
    assert "about 17 hours" in total
    assert "small base" not in forecast(study, later, lambda _: 0.1, lambda _: {})[-1]


@pytest.mark.parametrize("name", ["study/adapters", "study/sft_vs_rl", "study/reasoning"])
def test_every_study_of_runs_can_be_given_a_cluster_that_its_runs_do_not_know(name: str) -> None:
    given = {"generator": "chain_sum"} if name == "study/reasoning" else {}
    plain, there = (STUDIES[name].read({**given, **more}) for more in ({}, {"ray": "local", "cells_at_once": "2"}))
    assert (plain.cluster, there.cluster) == (None, ("local", 2))
    assert there.shared == plain.shared


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cells_at_once": "2"}, "cells_at_once"),
        ({"ray": "local", "cells_at_once": "-1"}, "cells_at_once"),
        ({"ray": "local", "cells_at_once": "many"}, "cells_at_once"),
        ({"ray": "local", "device": "cuda"}, "device"),
    ],
)
def test_a_cluster_that_cannot_be_had_is_refused_by_its_key(given: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cluster_of(given)
    assert caught.value.field == field
    with pytest.raises(ConfigError) as caught:
        STUDIES["rubric_quality"].read({"ray": "local"})
    assert caught.value.field == "ray"
