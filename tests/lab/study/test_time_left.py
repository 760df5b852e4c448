"""Time that runs still take, beside one another, from forecasts and from those that have ended."""

import os
from pathlib import Path

import pytest

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.runs.files import TIMINGS
from tinsmith.lab.study.cells import TimeLeft, left_of_run, seconds_of, side_by_side
from tinsmith.lab.study.sizes import Cell
from tinsmith.studies.disruption.experiments import SFT_LORA


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_runs_side_by_side_begin_in_turn_where_one_has_ended() -> None:
    assert side_by_side([], 2) == 0.0
    assert side_by_side([10.0, 10.0, 10.0, 10.0], 2) == 20.0
    assert side_by_side([30.0, 1.0, 1.0], 2) == 30.0
    assert side_by_side([10.0, 10.0, 10.0], 2) == 20.0  # the last has the machine for itself


def test_before_any_has_ended_the_forecast_holds_then_what_they_took(clock: Clock) -> None:
    left = TimeLeft("abcd", [10.0, 10.0, 20.0, 20.0], 2, clock)
    assert left.seconds() == 30.0
    left.begin("a")
    left.begin("b")
    clock.now = 5.0
    assert left.seconds() == 25.0
    assert str(left) == ", about 25 s left"
    clock.now = 20.0
    left.end("a")  # twice as long as forecast, beside which the forecast of a run of 15 counts still: 35 for 25
    assert left.seconds() == pytest.approx(1.4 * 20.0)
    left.end("b")
    left.begin("c")
    left.begin("d")
    clock.now = 60.0
    left.end("c")
    left.end("d")
    assert left.seconds() == 0.0


def test_what_running_runs_say_of_themselves_counts_before_any_has_ended(clock: Clock, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in "abc"}
    left = TimeLeft("abc", [100.0, 100.0, 100.0], 2, clock, lambda name, took: left_of_run(folders[name], took))
    left.begin("a")
    left.begin("b")
    clock.now = 10.0
    assert left.seconds() == 190.0
    for name, last in (("a", '{"step": 0, "left_s": 30.0}\n{"step": 1, "left_s": 20.0}\n'), ("b", '{"step": 0}\n')):
        folders[name].mkdir()
        (folders[name] / TIMINGS).write_text(last)
    # One takes 30 s where 100 were forecast, and the forecast counts as one more run: 130 for 200 of those to come.
    assert left.seconds() == pytest.approx(20.0 + 65.0, abs=1.0)
    (folders["a"] / TIMINGS).write_text('{"step": 1, "left_s": 20.0}\n{"step": 2, "lef')  # A line that is not whole.
    assert left.seconds() == pytest.approx(85.0, abs=1.0)
    (folders["b"] / TIMINGS).write_text("")
    assert left.seconds() == pytest.approx(85.0, abs=1.0)
    os.utime(folders["a"] / TIMINGS, (0, 0))
    assert left.seconds() == 190.0, "an earlier process said it"


def test_what_runs_took_beyond_their_own_word_is_expected_of_others(clock: Clock) -> None:
    stated = {"a": 40.0, "b": 30.0, "c": -1.0}
    left = TimeLeft("abc", [50.0, 50.0, 50.0], 3, clock, lambda name, _: stated[name])
    for name in "abc":
        left.begin(name)
    clock.now = 10.0
    assert left.seconds() == 40.0
    clock.now, stated["a"] = 55.0, -5.0
    left.end("a")  # its page took 5 s after what it said of itself
    stated["b"] = 20.0
    assert left.seconds() == 25.0
    clock.now, stated["b"] = 78.0, -3.0
    left.end("b")
    assert left.seconds() == 3.0, "the middle of 5 and 3, of which c has used 1"


def test_a_last_run_that_is_overdue_has_no_seconds_left_to_say(clock: Clock) -> None:
    left = TimeLeft("a", [10.0], 1, clock)
    left.begin("a")
    clock.now = 9.5
    assert str(left) == ", longer than forecast"


def test_without_forecasts_nothing_is_foretold_until_a_run_has_ended(clock: Clock) -> None:
    left = TimeLeft("abc", None, 1, clock)
    left.begin("a")
    clock.now = 7.0
    assert left.seconds() is None
    assert str(left) == ""
    left.end("a")
    assert left.seconds() == 14.0


def test_cells_that_differ_by_seed_and_rate_are_forecast_once_on_their_threads() -> None:
    plans: list[Plan] = []

    def minutes(plan: Plan) -> float:
        plans.append(plan)
        return 0.5

    keys = ({"seed": "1"}, {"seed": "2", "learning_rate": "0.1"}, {"seed": "2", "steps": "9"})
    cells = [Cell(experiment=SFT_LORA, overrides=one, folder=Path("cells", str(n))) for n, one in enumerate(keys)]
    assert seconds_of(cells, 1, minutes) == [30.0, 30.0, 30.0]
    assert [plan.circumstances.threads for plan in plans] == [1, 1]
    assert seconds_of(cells, 1, lambda _: None) is None
