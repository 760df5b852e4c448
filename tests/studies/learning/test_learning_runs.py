"""A study's runs themselves, tiny and on a random model: they leave what the study reads, and none is run again."""

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import TASK
from small_slice import Made

from command_line import keys_in
from tinsmith.cli.registered import source_of
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.runs.files import MANIFEST, METRICS, ROLLOUTS, TRACE
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.study.cells import runner
from tinsmith.lab.study.measures import ArmRuns, parity_of, read_runs
from tinsmith.lab.study.sizes import Cell, first_cells, later_arms, planned
from tinsmith.lab.study.study import Arm, PerItem
from tinsmith.studies.effort import LABELS, general_texts
from tinsmith.studies.learning import study
from tinsmith.types.waits import unsaid

SMALL = keys_in(
    "steps=2 groups_per_batch=2 group_size=2 eval_samples=1 eval_items=4 lora_rank=4 looks=1 sft_rates=1e-3 "
    "rl_rates=1e-3 seeds=1"
)
THEN, SHUFFLED = "sft_then_rl", "shuffled_sft"


@pytest.fixture(scope="module")
def ran(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Cell]:
    """A run by example and then by reward, and one by example with others' answers."""
    folder = tmp_path_factory.mktemp("study")
    file = folder / "made.py"
    # What differs between any two answers, so that there is something to learn from.
    file.write_text(TASK.replace('0.1 * (text in ("a", "b"))', "len(text) / 100"))
    given = {"task": str(file), "out": str(folder / "out"), "arms": ",".join(LABELS), **SMALL}
    given["model_name"] = str(made.base)
    whole, requests = planned(study, given, source_of)
    arms = {arm.name: arm for arm in later_arms(whole, requests, {"sft": 1e-3, "rl": 1e-3}, {})}
    cells = {name: first_cells(whole, requests).reported(arms[name], 1e-3)[0] for name in (THEN, SHUFFLED)}
    for cell in cells.values():
        where = {"log_path": str(cell.folder), "threads": "1"}
        conduct(make_plan(cell.experiment, {**cell.overrides, **where}), say=unsaid)
    return cells


@pytest.fixture(scope="module")
def arms(ran: Mapping[str, Cell]) -> Mapping[str, ArmRuns]:
    return {name: ArmRuns(Arm(name, name), read_runs([cell.folder])) for name, cell in ran.items()}


def test_a_run_leaves_all_that_the_study_reads(arms: Mapping[str, ArmRuns]) -> None:
    arm = arms[THEN]
    assert arm.steps == (0, 2)
    for name in ("total", "right", "form", "metric/right"):
        for greedy in (False, True):
            found = arm.at_step(PerItem(name, name, name), 2, greedy=greedy)
            assert found.num_items == 4
            assert len(set(found.clusters.values())) in (2, 4)
    assert set(arm.reads[0].units.values()) <= {str(pair) for pair in range(6, 12)}
    baseline = arm.baseline("always a", PerItem("right", "right", "metric/right"))
    assert set(baseline.pooled().values()) <= {0, 1}
    general = general_texts(arm)
    before, after = general
    assert before.items == after.items
    assert before.mean() != after.mean()


def test_sampler_and_trainer_are_compared_where_anything_is_sampled(arms: Mapping[str, ArmRuns]) -> None:
    seen = parity_of(arms.values())
    assert (seen.steps, seen.unequal_bits) == (1, 0)
    assert parity_of([arms[SHUFFLED]]) is None


def test_all_arms_are_evaluated_on_the_same_items(arms: Mapping[str, ArmRuns]) -> None:
    items = [{one.id for one in arm.reads[0].task.items} for arm in arms.values()]
    assert items[0] == items[1]
    data = {arm.reads[0].run.config.data.fingerprint for arm in arms.values()}
    assert len(data) == 2  # the control's answers belong to other items


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_cells_that_ran_at_once_on_a_ray_equal_those_that_ran_one_after_another(
    ran: Mapping[str, Cell], tmp_path: Path
) -> None:
    there = {name: replace(cell, folder=tmp_path / name) for name, cell in ran.items()}
    words: list[str] = []
    with runner(("local", 2)) as run:
        run(list(there.values()), words.append)
    assert len([line for line in words if "to go" not in line]) == len(there)  # others only say that it goes on
    for name, cell in ran.items():
        for file in (METRICS, ROLLOUTS, TRACE):
            assert (there[name].folder / file).read_bytes() == (cell.folder / file).read_bytes()
        manifests = [RunFolder(each.folder).read_json(MANIFEST) for each in (cell, there[name])]
        for part in ("identity", "hashes", "status"):
            assert manifests[0][part] == manifests[1][part]
