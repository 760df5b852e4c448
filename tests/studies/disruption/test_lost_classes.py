from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import LADDER, NO_DISRUPTIVE, Story, write_run

from tinsmith.lab.results.arms import LabelArm, arms_of, gather
from tinsmith.lab.results.findings import lost_classes, sft_posteriors
from tinsmith.lab.runs.reader import read_run

pytestmark = pytest.mark.whole


def arms(folder: Path, *stories: Story) -> tuple[LabelArm, ...]:
    return arms_of(gather(read_run(write_run(folder / str(place), story))) for place, story in enumerate(stories))


def test_an_arm_that_keeps_all_its_classes_lost_none(tmp_path: Path) -> None:
    assert lost_classes(arms(tmp_path, LADDER["exp6"], LADDER["sft"])) == ()


def test_a_class_that_the_exact_gradient_keeps_was_lost_by_the_estimate(tmp_path: Path) -> None:
    (lost,) = lost_classes(arms(tmp_path, LADDER["exp4"], LADDER["exact"]))
    assert (lost.arm, lost.label) == ("RL (accuracy)", "disruptive")
    assert lost.recall.value < 0.05
    assert lost.exact.startswith("keeps it (recall 0.")
    assert lost.optimum == "missing: no SFT run on these papers"
    assert lost.conclusion.startswith("to the estimate from samples")
    assert lost.informative is not None


def test_a_class_that_the_exact_gradient_loses_too_was_lost_by_the_reward(tmp_path: Path) -> None:
    exact = replace(LADDER["exact"], end=NO_DISRUPTIVE)
    (lost,) = lost_classes(arms(tmp_path, LADDER["exp4"], exact))
    assert lost.conclusion == "to the reward: its exact gradient loses it too"


def test_a_control_with_another_reward_is_no_witness(tmp_path: Path) -> None:
    exact = replace(LADDER["exact"], reward="soft")
    (lost,) = lost_classes(arms(tmp_path, LADDER["exp4"], exact))
    assert lost.exact == "missing"
    assert lost.conclusion.startswith("to a cause not known")


def test_without_the_control_the_analyser_tells_what_the_reward_makes_optimal(tmp_path: Path) -> None:
    found = lost_classes(arms(tmp_path, LADDER["exp4"], LADDER["exp5"], LADDER["sft"]))
    of_exp4 = [one for one in found if one.arm == "RL (accuracy)"]
    assert [one.label for one in of_exp4] == ["disruptive"]
    assert of_exp4[0].conclusion.startswith("probably to the estimate")
    of_exp5 = [one for one in found if one.arm == "RL (weighted)"]
    assert {one.label for one in of_exp5} == {"consolidating", "neutral"}
    assert all(one.optimum.startswith("gives it ") for one in of_exp5)


def test_posteriors_are_the_columns_of_the_sft_models_greedy_confusion(tmp_path: Path) -> None:
    rl, sft = arms(tmp_path, LADDER["exp4"], LADDER["sft"])
    found = sft_posteriors(sft, rl)
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.prior.tolist() == pytest.approx([1 / 3] * 3)
    assert sft_posteriors(rl, rl) is None
