import math
from pathlib import Path

import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.estimate import correction, remember, remember_steps, slower_steps, start_seconds
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.user_task.run_data import task_data
from tinsmith.studies.environment_loss.shell import MOST_REPLIES


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    return plan_of("crossroads", {})


def test_a_forecast_is_corrected_by_what_the_last_run_took(plan: Plan) -> None:
    assert correction(plan) == 1.0
    remember(plan, start_seconds() + 100.0, start_seconds() + 300.0)
    assert correction(plan) == 3.0
    # The next forecast had that in it, and was twice too long.
    remember(plan, start_seconds() + 300.0, start_seconds() + 150.0)
    assert correction(plan) == 1.5


def test_a_run_on_one_thread_is_forecast_to_take_longer_until_one_was_measured(plan: Plan) -> None:
    alone = plan_of("crossroads", {"threads": "1"})
    assert correction(plan_of("rlvr", {"threads": "1", "at": "small"})) == 2.0
    assert correction(alone) == pytest.approx(math.sqrt(2.0))
    assert correction(plan_of("crossroads", {"threads": "4"})) == 1.0
    remember(alone, start_seconds() + 200.0, start_seconds() + 100.0)
    assert correction(alone) == pytest.approx(math.sqrt(0.5))
    assert correction(plan) == 1.0


def test_runs_of_a_nano_base_follow_its_steps_by_the_root_until_one_was_measured(plan: Plan) -> None:
    usual = start_seconds()
    remember_steps(4.0)
    assert start_seconds() == 2 * usual
    assert correction(plan) == 2.0
    assert correction(plan_of("rlvr", {"at": "small"})) == 1.0
    remember(plan, start_seconds() + 100.0, start_seconds() + 200.0)
    assert correction(plan) == 4.0


def test_a_missing_base_is_forecast_by_steps_that_were_taken_here(plan: Plan) -> None:
    data = task_data(plan.experiment.subject.check(plan))
    assert slower_steps() is None
    assert len(data.missing_base()) == 1
    assert slower_steps() is not None
    remember_steps(1.5)
    (minutes,) = data.missing_base().values()
    remember_steps(3.0)
    assert list(data.missing_base().values()) == [pytest.approx(2 * minutes)]


def test_each_reply_of_a_conversation_counts_however_its_turns_are_written(plan: Plan) -> None:
    shell = plan_of("shell", {})
    lengths = task_data(shell.experiment.subject.check(shell)).lengths()
    assert lengths.replies == MOST_REPLIES
    assert lengths.answer == MOST_REPLIES * shell.settings.max_tokens / 2
    assert task_data(plan.experiment.subject.check(plan)).lengths().replies == 1


def test_short_runs_and_unknown_forecasts_are_no_measure(plan: Plan) -> None:
    remember(plan, None, 500.0)
    remember(plan, 2 * start_seconds(), 500.0)
    remember(plan, 500.0, 2 * start_seconds())
    assert correction(plan) == 1.0


def test_a_task_is_forecast_by_its_own_last_run_before_that_of_another(plan: Plan) -> None:
    remember(plan, start_seconds() + 100.0, start_seconds() + 200.0)
    other = plan_of("shell", {})
    assert correction(other) == 2.0
    remember(other, start_seconds() + 100.0, start_seconds() + 400.0)
    assert correction(other) == 8.0
    assert correction(plan) == 2.0


def test_a_correction_has_bounds_and_a_damaged_file_is_none(plan: Plan, tmp_path: Path) -> None:
    remember(plan, start_seconds() + 100.0, start_seconds() + 1e6)
    assert correction(plan) == 8.0
    (tmp_path / "paces.json").write_text("[")
    assert correction(plan) == 1.0
