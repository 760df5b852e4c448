"""What `/metrics` tells: counts that are right, in the form that Prometheus reads, and nothing of anybody's."""

import re

import pytest
from tenants import NANO, Tenant, Tenants, sample, secret, with_tenants
from training_requests import forward_backward

from tinsmith.server.access.guard import Answered
from tinsmith.server.metrics import Answers
from tinsmith.server.prometheus import Metric, MetricKind, exposition

_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'
_LINE = re.compile(
    r"# (?:HELP [a-z_]+ [^\n]+|TYPE [a-z_]+ (?:counter|gauge))"
    rf"|[a-z_]+(?:\{{{_LABEL}(?:,{_LABEL})*\}})? [0-9.e+-]+"
)


async def values(tenant: Tenant) -> dict[str, float]:
    answer = await tenant.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert all(_LINE.fullmatch(line) for line in lines), answer.text
    assert len({*lines}) == len(lines)
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def asked(route: str, method: str, status: int) -> str:
    return f'tinsmith_http_requests_total{{route="{route}",method="{method}",status="{status}"}}'


@pytest.mark.whole
@with_tenants("alice", "bob")
async def test_what_happened_is_counted(tenants: Tenants) -> None:
    alice, bob = tenants["alice"], tenants["bob"]
    session = await alice.session()
    model, sampler = await alice.model(session), await alice.sampler(session)
    before = await values(bob)
    await alice.done("forward_backward", forward_backward(model, 1))
    for seq in (2, 3):
        step = {"model_id": model, "seq_id": seq, "adam_params": {"learning_rate": 0.0}}
        await alice.done("optim_step", step)
    await alice.done("asample", sample(sampler, 0, num_samples=3, stop=[]))
    said = {"model": NANO, "prompt": [1, 2], "max_tokens": 4}
    assert (await alice.post("/v1/completions", said)).status_code == 200
    waiting = await alice.ok("optim_step", {"model_id": model, "seq_id": 9, "adam_params": {}})
    wrong = await bob.post("/api/v1/asample", sample(sampler, 1))
    assert wrong.status_code == 400
    await bob.http.get("/api/v1/nowhere")
    await bob.http.get("/api/v1/sessions", headers={"x-api-key": "tml-no"})
    after = await values(bob)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert grown("tinsmith_trained_tokens_total") == 15
    assert grown("tinsmith_optimizer_steps_total") == 2
    assert 12 < grown("tinsmith_sampled_tokens_total") <= 16
    assert grown("tinsmith_requests_under_way") == 1
    assert after["tinsmith_models_in_memory"] == 1
    assert after[f'tinsmith_kv_pages_in_use{{model="{NANO}"}}'] == 0
    assert after[f'tinsmith_kv_pages_capacity{{model="{NANO}"}}'] > 0
    assert after[f'tinsmith_samples_running{{model="{NANO}"}}'] == 0
    assert grown(asked("/api/v1/asample", "POST", 200)) == 1
    assert grown(asked("/api/v1/asample", "POST", 400)) == 1
    assert grown(asked("/api/v1/optim_step", "POST", 200)) == 3
    assert grown(asked("/{path:path}", "GET", 404)) == 1
    assert grown(asked("refused", "GET", 401)) == 1
    assert grown(asked("/metrics", "GET", 200)) == 1
    assert after["process_resident_memory_bytes"] > 0
    text = (await bob.http.get("/metrics")).text
    for told in ("alice", "bob", model, sampler, waiting["request_id"], secret("bob")):
        assert told not in text
    assert (await alice.http.get("/metrics", headers={"x-api-key": ""})).status_code == 401


def test_a_label_of_any_text_is_one_line() -> None:
    for text in ('a"b', "a\\", "a\nb", "\\n", 'x="y",', "ä"):
        told = exposition([Metric("m", MetricKind.COUNTER, "One\ntwo.", [({"model": text}, 0.5)])])
        assert all(_LINE.fullmatch(line) for line in told.splitlines()), told
        assert len(told.splitlines()) == 3


def test_methods_that_clients_invent_are_one() -> None:
    answers = Answers()
    for i in range(5):
        answers(Answered(name="", method=f"M{i}", path="/", route="/", status=405, num_bytes=0, seconds=0.0))
    assert dict(answers.counts) == {("/", "other", 405): 5}
