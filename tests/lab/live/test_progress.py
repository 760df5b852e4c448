"""Progress of a wait, and forecast of a run: told in time, seldom, and from what was measured."""

import math
import runpy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tinsmith.data.slices.splits import Split
from tinsmith.lab.course import Course
from tinsmith.lab.live import progress
from tinsmith.lab.live.progress import Pace, Wait, duration
from tinsmith.lab.live.watch import WITH_TOKENS, ExpertWatch, expert_metrics, route_metrics
from tinsmith.lab.settings import RlSettings, SftSettings

RL = RlSettings(steps=10, learning_rate=1e-3, eval_every=4, eval_items=20, test_items=40)
SFT = SftSettings(steps=10, learning_rate=1e-3, eval_every=0)


def told(seconds: float, asked: int) -> list[str]:
    """Return what is said of `asked` answers that come one every `seconds`."""
    words: list[str] = []
    times: Iterator[float] = (seconds * place for place in range(asked + 1))
    wait = Wait(words.append, clock=lambda: next(times))
    for answered in range(asked + 1):
        wait(answered, asked)
    return words


def test_a_short_wait_is_not_told_of() -> None:
    assert told(0.01, 100) == []


def test_a_long_wait_is_told_of_soon_then_ever_more_seldom_and_to_its_end() -> None:
    text = told(1.0, 200)
    counts = [int(line.split()[0]) for line in text]
    assert counts[:10] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert counts[-4:] == [158, 174, 192, 200]
    assert [line for line in text if line.endswith("left")][:1] == ["53 of 200 answers received, about 2.5 min left"], (
        "once a quarter has come"
    )
    assert text[-1] == "200 of 200 answers received"


def test_a_run_is_what_its_steps_and_looks_took_times_what_is_left() -> None:
    pace = Pace(settings=RL)
    # Nine steps of 20 s; looks before steps 4 and 8 and at the end; a test of four looks.
    assert pace.record(0, {"step_s": 30.0, "eval_s": 10.0}, 4.0).seconds_left == pytest.approx(
        9 * 20.0 + 3 * 10.0 + 4 * 10.0
    )
    pace.record(1, {"step_s": 5.0}, 4.0)
    left = pace.record(2, {"step_s": 6.0}, 4.0)
    assert left.seconds_left == pytest.approx(7 * 6.0 + 3 * 10.0 + 4 * 10.0)
    assert left.later == ""
    assert pace.record(10, {"step_s": 60.0, "eval_s": 12.0}, 4.0).left == "0 s left"


def test_a_test_is_what_its_answers_took() -> None:
    looked = {"step_s": 30.0, "eval_s": 10.0, "answers_s": 6.0}
    assert Pace(settings=SFT).record(9, looked, 4.0).seconds_left == pytest.approx(10.0 + 4.0 * 6.0)


def test_pages_to_come_count_once_one_was_drawn() -> None:
    pace, looked = Pace(settings=RL), {"step_s": 30.0, "eval_s": 10.0}
    bare = Pace(settings=RL)
    for step, timings, pages in ((0, looked, 0), (1, {"step_s": 20.0}, 3), (4, looked, 3), (9, {"step_s": 20.0}, 1)):
        # After the evaluations before steps 4 and 8, and at the end.
        added = pace.record(step, timings, 4.0).seconds_left - bare.record(step, timings, 4.0).seconds_left
        assert added == pytest.approx(5.0 * pages)
        pace.drew(5.0)
    assert pace.record(10, looked, 4.0).left == "5 s left"


class _Numbers:
    """A subject of 8 items to evaluate and 20 to test."""

    def items(self, split: Split) -> Sequence[int]:
        return range(20 if split is Split.TEST else 8)

    def unit(self, item: int) -> str:
        return str(item)


def test_a_test_asks_the_chosen_policy_perhaps_the_last_one_controls_and_more() -> None:
    subject: Any = _Numbers()
    course: Course[Any, Any] = Course(subject=subject, settings=RL, samples=3)
    # Four answers an item: 80 of the test, 32 of an evaluation.
    assert course.test_worth == (80 / 32, 0.0)
    both = replace(course, tests_last=True)
    assert both.test_worth == (80 / 32, 80 / 32)
    assert replace(both, controls={"test_other": course.subject}, other_requests=84).test_worth == (244 / 32, 80 / 32)


def test_a_test_of_the_last_policy_is_counted_by_half_in_the_one_figure() -> None:
    pace = Pace(settings=RL)
    counted = pace.record(0, {"step_s": 30.0, "eval_s": 10.0}, 4.0, 4.0)
    assert counted.seconds_left == pytest.approx(9 * 20.0 + 7 * 10.0 + 20.0)
    assert pace.record(9, {"step_s": 20.0}, 4.0, 4.0).left == "70 s left"
    assert pace.record(10, {"step_s": 60.0, "eval_s": 12.0}, 4.0, 4.0).left == "0 s left"


def test_a_forecast_counts_as_one_step_beside_those_that_were_measured() -> None:
    pace = Pace(settings=RL, forecast=100.0)
    measured = 9 * 20.0 + 7 * 10.0
    assert pace.record(0, {"step_s": 30.0, "eval_s": 10.0}, 4.0).seconds_left == pytest.approx(
        (measured * 90.0) ** (1 / 2)
    )
    assert pace.record(1, {"step_s": 20.0}, 4.0).seconds_left == pytest.approx(
        ((8 * 20.0 + 70.0) ** 2 * 80.0) ** (1 / 3)
    )
    assert pace.record(10, {"step_s": 60.0, "eval_s": 12.0}, 4.0).left == "0 s left"


def test_what_becomes_of_steps_counts_beside_what_was_measured() -> None:
    pace = Pace(settings=RL, later_steps=0.4)
    # Known of 10 steps: .4 of the first. What is waited for in evaluations becomes shorter by the root of that.
    later = (10 * 0.4 * 20.0 + 20.0) / 11
    first = pace.record(0, {"step_s": 30.0, "eval_s": 10.0}, 4.0).seconds_left
    assert first == pytest.approx(9 * later + 7 * 10.0 * math.sqrt(later / 20.0))
    # The later one of the two in the middle is 20.
    later = (10 * 0.4 * 20.0 + 2 * 20.0) / 12
    second = pace.record(1, {"step_s": 8.0}, 4.0).seconds_left
    assert second == pytest.approx(8 * later + 7 * 10.0 * math.sqrt(later / 20.0))
    resumed, plain = (Pace(settings=RL, later_steps=known) for known in (0.4, None))
    for step, took in ((3, {"step_s": 18.0, "eval_s": 10.0}), (4, {"step_s": 4.0}), (5, {"step_s": 4.0})):
        assert resumed.record(step, took, 4.0) == plain.record(step, took, 4.0), "its first step is not the run's"
    by_example = Pace(settings=SFT, later_steps=0.4).record(0, {"step_s": 5.0}, 4.0).seconds_left
    assert by_example == pytest.approx(45.0)


def test_a_step_without_a_look_says_that_looks_are_not_in_it() -> None:
    left = Pace(settings=SFT).record(0, {"step_s": 5.0}, 4.0)
    assert left.seconds_left == pytest.approx(45.0)
    assert left.left == "45 s left, plus the evaluations"


def test_supervised_steps_are_forecast_apart_from_those_of_rl() -> None:
    settings = replace(RL, sft_steps=4)
    pace = Pace(settings=settings)
    first = pace.record(0, {"step_s": 12.0, "eval_s": 2.0}, 4.0)
    assert (first.seconds_left, first.later) == (pytest.approx(3 * 10.0), ", then 6 steps of RL")
    # One look before step 8 and one at the end, and a test of four; the supervised step counts no more.
    assert pace.record(4, {"step_s": 30.0, "eval_s": 2.0}, 4.0).seconds_left == pytest.approx(
        5 * 28.0 + 2 * 2.0 + 4 * 2.0
    )


def test_an_evaluation_among_supervised_steps_follows_no_step_by_reward() -> None:
    pace = Pace(settings=replace(RL, sft_steps=4), later_steps=0.4)
    pace.record(0, {"step_s": 12.0, "eval_s": 2.0}, 4.0)
    later = (10 * 0.4 * 40.0 + 40.0) / 11
    assert pace.record(4, {"step_s": 40.0}, 4.0).seconds_left == pytest.approx(5 * later + 6 * 2.0)


TOLD = {
    "loss:sum": 3.0,
    "e_frac_with_tokens:mean": 0.5,
    "e_max_violation:mean": 1.5,
    "e_router_entropy:mean": 0.9,
    "e_tokens/1/7:sum": 12.0,
    "e_unequal_routes:sum": 0.0,
    "e_compared_routes:sum": 40.0,
}


def test_what_a_server_tells_of_experts_becomes_metrics() -> None:
    assert expert_metrics(TOLD) == {
        "moe/frac_with_tokens": 0.5,
        "moe/max_violation": 1.5,
        "moe/router_entropy": 0.9,
        "moe/tokens/1/7": 12.0,
    }
    assert route_metrics(TOLD) == {"optim/unequal_routes": 0.0, "optim/compared_routes": 40.0}


def test_a_dense_model_has_none() -> None:
    assert expert_metrics({"loss:sum": 3.0}) == {}
    assert route_metrics({"loss:sum": 3.0}) == {}
    assert [ExpertWatch().observe_metrics(step, {"optim/loss": 1.0}) for step in range(5)] == [[]] * 5


def test_a_resumed_run_raises_the_alarm_at_the_same_step() -> None:
    lines = [{"step": step, WITH_TOKENS: 0.5} for step in range(6)]
    whole = ExpertWatch()
    expected = [bool(whole.observe_metrics(int(line["step"]), line)) for line in lines]
    assert expected == [False, False, True, False, False, False]
    for kept in range(6):
        resumed = ExpertWatch()
        resumed.restore([{"step": -1, "eval/macro_f1": 0.1}, *lines[:kept]])
        found = [bool(resumed.observe_metrics(int(line["step"]), line)) for line in lines[kept:]]
        assert found == expected[kept:]


def test_other_work_slows_a_run_down_and_never_speeds_it_up() -> None:
    measured = runpy.run_path(progress.__file__)["slowdown"]  # all other tests are told that the machine is idle
    assert measured(1) >= 1.0


def test_seconds_are_said_in_minutes_and_long_ones_in_hours() -> None:
    assert [duration(seconds) for seconds in (89.0, 600.0, 259_200.0)] == ["89 s", "10.0 min", "72.0 h"]
