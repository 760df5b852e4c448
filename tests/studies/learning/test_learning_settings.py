"""What a study of learning is told: equal effort, which arm takes which rate, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import TASK

from tinsmith.cli.registered import STUDIES, source_of
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.user_task.run_data import TaskData
from tinsmith.studies.learning.keys import ArmName
from tinsmith.studies.learning.settings import Effort, LearningSettings, learning_settings, method_of
from tinsmith.studies.learning.study import run_learning
from tinsmith.types.errors import ConfigError


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)
    Path("bare.py").write_text(TASK.replace('        answer=lambda item: item["says"],\n', ""))


def told(**changes: str) -> LearningSettings:
    return learning_settings({}, {"task": "made.py", **changes}, source_of)


def every_cell(settings: LearningSettings) -> dict[ArmName, Cell]:
    arms = [*settings.first_arms(), *settings.later_arms(sft=1e-3, rl=2e-3)]
    return {ArmName(arm.name): settings.study.reported(arm, arm.rates[0])[0] for arm in arms}


ALL = ",".join(ArmName)


def test_every_arm_looks_at_as_many_items_by_hand_count() -> None:
    settings = told(arms=ALL, steps="6", groups_per_batch="8", batch_size="4")
    seen: dict[ArmName, int] = {}
    for name, cell in every_cell(settings).items():
        loop = make_plan(cell.experiment, cell.overrides).settings
        if isinstance(loop, SftSettings):
            assert (loop.steps, loop.batch_size) == (12, 4)
            seen[name] = loop.steps * loop.batch_size
        else:
            assert isinstance(loop, RlSettings)
            by_example = loop.sft_steps * loop.sft_batch_size
            by_reward = (loop.steps - loop.sft_steps) * loop.groups_per_batch
            if method_of(name) is ArmName.SFT_THEN_RL:
                assert (loop.sft_steps, by_example, by_reward) == (6, 24, 24)
            else:
                assert (loop.sft_steps, loop.steps) == (0, 6)
            seen[name] = by_example + by_reward
        assert settings.effort(name).items == seen[name]
        assert settings.effort(name).steps == loop.steps
    assert seen == dict.fromkeys(settings.trained, 48)
    assert len(seen) == 6


def test_items_are_counted_through_both_halves() -> None:
    effort = Effort(supervised=24, batch_size=4, rewarded=24, groups_per_batch=8)
    assert [effort.seen(step) for step in (0, 1, 6, 7, 9)] == [0, 4, 24, 32, 48]
    assert (effort.sft_steps, effort.steps, effort.items) == (6, 9, 48)


def test_a_control_is_trained_as_what_it_controls_but_for_its_answers() -> None:
    cells = every_cell(told(arms=ALL))
    for name in (ArmName.SFT, ArmName.RL, ArmName.SFT_THEN_RL):
        control = next(one for one in cells if one is not name and method_of(one) is name)
        mine, theirs = (dict(cells[one].overrides) for one in (name, control))
        assert theirs.pop("shuffle_labels") == "true"
        for one in (mine, theirs):
            for key in ("learning_rate", "sft_learning_rate"):
                one.pop(key, None)
        assert mine == theirs


def test_later_arms_take_the_rates_that_were_chosen() -> None:
    settings = told(arms=ALL, sft_rates="1e-3,4e-3", rl_rates="2e-3,8e-3")
    later = {arm.name: arm for arm in settings.later_arms(sft=4e-3, rl=8e-3)}
    assert later[ArmName.SFT_THEN_RL].rates == (8e-3,)
    assert later[ArmName.SFT_THEN_RL].keys["sft_learning_rate"] == "0.004"
    assert later[ArmName.SHUFFLED].rates == (8e-3,)
    assert later[ArmName.SHUFFLED_SFT].rates == (4e-3,)


def test_rates_are_tried_on_a_validation_part_and_no_held_out_item_is_seen() -> None:
    settings = told(arms="sft,rl", sft_rates="1e-3,4e-3")
    sft, rl = settings.study.arms
    assert settings.study.tuning(rl) == {}
    cells = settings.study.tuning(sft)
    assert list(cells) == [1e-3, 4e-3]
    reported = settings.study.reported(sft, 1e-3)[0]
    data = [
        cell.experiment.subject.run_data(make_plan(cell.experiment, cell.overrides), print)
        for cell in (cells[1e-3], reported)
    ]
    tuned, last = data
    assert isinstance(tuned, TaskData)
    assert isinstance(last, TaskData)
    held = {one.prompt_id for one in last.split.held_out}
    looked_at = {one.prompt_id for one in (*tuned.split.train, *tuned.split.held_out)}
    assert not held & looked_at
    assert len(looked_at) == 12
    assert cells[1e-3].overrides["seed"] == "0"
    assert cells[1e-3].folder != reported.folder


def test_the_tasks_own_keys_reach_its_runs_and_their_command() -> None:
    cell = next(iter(every_cell(told(level="3", eval_samples="2")).values()))
    assert cell.command[0].endswith("made.py")
    assert {"level=3", "eval_samples=2"} <= set(cell.command)
    assert "level" not in cell.overrides


def test_a_task_without_right_answers_has_the_arms_of_rl_alone() -> None:
    assert told(task="bare.py").arms == (ArmName.ZERO_SHOT, ArmName.RL, ArmName.SHUFFLED)
    with pytest.raises(ConfigError) as caught:
        told(task="bare.py", arms="rl,sft_then_rl")
    assert caught.value.field == "kind"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "none"),
        ("generator", "chain_sum"),
        ("arms", "zero_shot"),
        ("arms", "shuffled"),
        ("arms", "sft,ppo"),
        ("score", "wrong"),
        ("seeds", "1,1"),
        ("tuning_seed", "1"),
        ("steps", "7"),
        ("batch_size", "3"),
        ("batch_size", "0"),
        ("sizes", "4,4"),
        ("sizes", "0"),
        ("looks", "0"),
        ("sft_rates", "0"),
        ("learning_rate", "1"),
        ("train_items", "4"),
        ("examined", "validation"),
        ("shuffle_labels", "true"),
        ("sft_steps", "2"),
        ("levle", "2"),
    ],
)
def test_what_would_compare_unequal_efforts_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        told(**{key: value})
    assert caught.value.field == key
    assert len(str(caught.value).splitlines()) <= 5


def test_several_rates_need_the_arm_that_chooses() -> None:
    with pytest.raises(ConfigError) as caught:
        told(arms="sft_then_rl", sft_rates="1e-3,2e-3")
    assert caught.value.field == "sft_rates"


def test_a_dry_run_says_how_many_runs_and_writes_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    rates = {"rl_rates": "1e-3,2e-3", "sft_rates": "1e-3"}
    keys = {"task": "made.py", "dry_run": "true", "model_name": "x", "sizes": "4,8"}
    run_learning({}, {**keys, **rates}, lines.append, open_source=source_of)
    # RL, two rates, one seed; four trained arms on all items and on two numbers of them, three seeds.
    assert "2 runs" in lines[-2]
    assert "36 to report" in lines[-2]
    assert "38 runs" in lines[-1]
    assert not (tmp_path / "runs").exists()


def test_each_registered_study_names_a_task_that_is_kept() -> None:
    names = [name for name in STUDIES if name in ("study/instructions", "study/reasoning")]
    assert len(names) == 2
    for name in names:
        assert STUDIES[name].keys.default("task")
