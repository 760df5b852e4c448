"""How far a wait has come, and how long a run will take: told in time, seldom, and from what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tinsmith.lab.live.pace import outlook, worth_telling
from tinsmith.lab.live.progress import EVERY_SECONDS, Wait
from tinsmith.lab.live.watch import WITH_TOKENS, ExpertWatch, expert_metrics, route_metrics
from tinsmith.lab.settings import RlSettings, SftSettings

RL = RlSettings(steps=10, learning_rate=1e-3, eval_every=4, eval_items=20, test_items=40)
SFT = SftSettings(steps=10, learning_rate=1e-3, eval_every=0)


def told(seconds: float, asked: int) -> list[str]:
    """Return what is said of `asked` answers that come one every `seconds`."""
    said: list[str] = []
    times: Iterator[float] = (seconds * place for place in range(asked + 1))
    wait = Wait(said.append, clock=lambda: next(times))
    for answered in range(asked + 1):
        wait(answered, asked)
    return said


def test_a_short_wait_is_not_told_of() -> None:
    assert told(0.1, 100) == []


def test_a_long_wait_is_told_of_from_the_first_answer_on_and_then_now_and_then() -> None:
    said = told(1.0, 100)
    assert said[0].startswith("1 of 100 ")
    assert "99 s" in said[0] or "1.6 min" in said[0]
    assert len(said) == 1 + 99 // int(EVERY_SECONDS)
    assert not said[-1].startswith("100 of 100")


def test_a_run_is_what_its_first_step_and_first_look_took_times_what_is_left() -> None:
    left = outlook(RL, 0, {"step_s": 30.0, "eval_s": 10.0}, last_look=4.0)
    # Nine steps of 20 s; looks before steps 4 and 8 and at the end; a test of four looks.
    assert left.seconds == pytest.approx(9 * 20.0 + 3 * 10.0 + 4 * 10.0)
    assert "9 steps" in left.words


def test_a_step_without_a_look_says_that_looks_are_not_in_it() -> None:
    left = outlook(SFT, 0, {"step_s": 5.0}, last_look=2.0)
    assert left.seconds == pytest.approx(45.0)
    assert "not measured" in left.words


def test_supervised_steps_are_forecast_apart_from_those_of_rl() -> None:
    settings = replace(RL, sft_steps=4)
    assert [step for step in range(11) if worth_telling(settings, step, 0)] == [0, 4]
    assert [step for step in range(11) if worth_telling(settings, step, 6)] == [6]
    first = outlook(settings, 0, {"step_s": 12.0, "eval_s": 2.0}, last_look=4.0)
    assert first.seconds == pytest.approx(3 * 10.0)
    assert "6 steps of RL" in first.words


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
    assert [ExpertWatch().saw(step, {"optim/loss": 1.0}) for step in range(5)] == [[]] * 5


def test_a_resumed_run_raises_the_alarm_at_the_same_step() -> None:
    lines = [{"step": step, WITH_TOKENS: 0.5} for step in range(6)]
    whole = ExpertWatch()
    expected = [bool(whole.saw(int(line["step"]), line)) for line in lines]
    assert expected == [False, False, True, False, False, False]
    for kept in range(6):
        resumed = ExpertWatch()
        resumed.restore([{"step": -1, "eval/macro_f1": 0.1}, *lines[:kept]])
        found = [bool(resumed.saw(int(line["step"]), line)) for line in lines[kept:]]
        assert found == expected[kept:]
