"""A mixture's loads as metrics of a run, and its alarm, which a resumed run raises where the whole one does."""

from __future__ import annotations

from tinsmith.lab.live.watch import WITH_TOKENS, ExpertWatch, expert_metrics, route_metrics

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
