"""A study's value and its driver: which runs it is made of, in which order they come, and what is said before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.driver import Outcome, Stages, Study, StudyArm, conduct_study
from tinsmith.studies.disruption.experiments import CONTROL_ZERO_SHOT, REMEDY_EXP6, SFT_LORA

SFT = StudyArm("sft", "SFT", SFT_LORA, (1e-3, 2e-3, 4e-3))
GIVEN = StudyArm("given", "RL", REMEDY_EXP6, (2e-3,), {"steps": "7"})
BASE = StudyArm("base", "the base", CONTROL_ZERO_SHOT)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(
        name="study/made",
        question="Which?",
        arms=(SFT, GIVEN, BASE),
        shared={"lora_rank": "4", "steps": "3"},
        out=tmp_path / "out",
        seeds=(1, 2),
    )


def test_every_run_has_a_folder_and_keys_of_its_own(study: Study) -> None:
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


def test_an_arm_with_one_rate_is_not_tuned_and_each_is_reported_with_every_seed(study: Study) -> None:
    ran: list[list[str]] = []
    said: list[str] = []

    def run(cells: Sequence[Cell], say: Say) -> None:
        del say
        ran.append([cell.folder.name for cell in cells])

    stages = Stages(run, said.append)
    tuned = stages.tune(study, (GIVEN, BASE))
    assert ran == [[]]
    assert [(one.rate, one.tried) for one in tuned.values()] == [(2e-3, ()), (None, ())]
    stages.report(tuned)
    assert ran[1] == ["given-rate=0.002-seed=1", "given-rate=0.002-seed=2", "base-seed=1", "base-seed=2"]
    assert said == []


def test_a_forecast_names_the_arms_and_builds_nothing(study: Study) -> None:
    said: list[str] = []

    def conduct(stages: Stages) -> Outcome:
        raise AssertionError(stages)

    later = StudyArm("later", "later", SFT_LORA, (1e-3, 2e-3))
    conduct_study(replace(study, dry_run=True), said.append, conduct, later=(later,), pace=lambda _: None)
    assert [line.partition(":")[0] for line in said[:5]] == ["study/made", "SFT", "RL", "the base", "later"]
    assert said[1].endswith("0.001, 0.002, 0.004")
    assert said[5].startswith("5 runs to choose rates on seed 0, 8 ")
    assert said[6].startswith("13 runs in ")
    assert not study.out.exists()
