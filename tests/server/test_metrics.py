"""Content of `/metrics`: counts that are right, in the form that Prometheus reads, and nothing of anybody's."""

import asyncio
import re
from pathlib import Path

import pytest
from tenants import NANO, Tenant, Tenants, sample, secret, with_tenants
from training_requests import forward_backward

import loopback
from running import HANG_S, Running
from tinsmith.engine.engine import Engine
from tinsmith.engine.trace import MAX_STEPS, StepTrace, Trace
from tinsmith.server.access.guard import Answered
from tinsmith.server.database.records import Finished
from tinsmith.server.metrics import Answers
from tinsmith.server.prometheus import Metric, MetricKind, exposition
from tinsmith.server.service import Service
from tinsmith.server.wire.requests import CreateModel, LoadWeights, OptimStep, SaveWeights
from tinsmith.types.errors import TinsmithError

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
    words = {"model": NANO, "prompt": [1, 2], "max_tokens": 4}
    assert (await alice.post("/v1/completions", words)).status_code == 200
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
    for messages in ("alice", "bob", model, sampler, waiting["request_id"], secret("bob")):
        assert messages not in text
    assert (await alice.http.get("/metrics", headers={"x-api-key": ""})).status_code == 401


def test_a_label_of_any_text_is_one_line() -> None:
    for text in ('a"b', "a\\", "a\nb", "\\n", 'x="y",', "ä"):
        printed = exposition([Metric("m", MetricKind.COUNTER, "One\ntwo.", [({"model": text}, 0.5)])])
        assert all(_LINE.fullmatch(line) for line in printed.splitlines()), printed
        assert len(printed.splitlines()) == 3


def test_methods_that_clients_invent_are_one() -> None:
    answers = Answers()
    for i in range(5):
        answers(Answered(name="", method=f"M{i}", path="/", route="/", status=405, num_bytes=0, seconds=0.0))
    assert dict(answers.counts) == {("/", "other", 405): 5}


MADE = {"session_id": "s", "base_model": NANO, "lora_config": {"rank": 2, "seed": 1}}


async def done(service: Service, request_id: str) -> None:
    assert isinstance(await service.futures.wait(request_id, HANG_S), Finished)


def step(model_id: str, seq_id: int) -> OptimStep:
    requests = {"adam_params": {"learning_rate": 0.1}, "model_id": model_id, "seq_id": seq_id}
    return OptimStep.model_validate(requests)


@pytest.mark.whole
def test_a_loaded_model_goes_on_counting_and_tells_no_step_twice(tmp_path: Path) -> None:
    async def live() -> None:
        service = Service(
            Engine({NANO: NANO}, certificate_store=loopback.KEPT), tmp_path / "state", seed=0, max_queue=16
        )
        runs, session = (
            service.runs,
            service.store.create_session(tags=[], user_metadata=None, sdk_version="0", project_id=None).session_id,
        )
        made = {**MADE, "session_id": session}
        request_id, model_id = runs.create(CreateModel.model_validate({**made, "model_seq_id": 0}))
        await done(service, request_id)
        for seq_id in (1, 2):
            await done(service, runs.optim_step(step(model_id, seq_id)))
        saved = {"model_id": model_id, "seq_id": 3, "path": "two"}
        await done(service, runs.save(SaveWeights.model_validate(saved)))
        await done(service, runs.optim_step(step(model_id, 4)))
        assert [one.step for one in runs.trace(model_id, 0)] == [1, 2, 3]
        assert [one.step for one in runs.trace(model_id, 2)] == [3]

        path = f"tinker://{model_id}/weights/two"
        load = {"path": path, "optimizer": True, "session_id": session, "model_seq_id": 1}
        found = await runs.read_checkpoint(path)
        request_id, other = runs.create_from(LoadWeights.model_validate(load), found)
        await done(service, request_id)
        assert runs.trace(other, 0) == ()
        await done(service, runs.optim_step(step(other, 1)))
        assert runs.trace(other, 0) == runs.trace(model_id, 2)

        back = {"path": path, "optimizer": True, "model_id": model_id, "seq_id": 5}
        await done(service, runs.load_into(LoadWeights.model_validate(back)))
        await done(service, runs.optim_step(step(model_id, 6)))
        assert [one.step for one in runs.trace(model_id, 0)] == [1, 2, 3]
        with pytest.raises(TinsmithError, match="field: model_id = 'nobody:train:0'"):
            runs.trace("nobody:train:0", 0)
        await service.close()

    asyncio.run(live())


@pytest.mark.whole
def test_a_trace_forgets_its_oldest_steps() -> None:
    trace = Trace(Engine({}).kernels)
    for number in range(1, MAX_STEPS + 3):
        trace.add(StepTrace(step=number, gradient={}, weights={}))
    assert [one.step for one in trace.after(0)] == list(range(3, MAX_STEPS + 3))


@pytest.mark.whole
def test_a_server_that_deviates_says_so(tmp_path: Path) -> None:
    with Running(tmp_path / "state", "--deviation", "stock_silu", "--micro-batch", "1") as server:
        output = server.http.get("/api/v1/get_server_capabilities").json()["supported_models"]
        assert {model["identity"]["deviation"] for model in output} == {"stock_silu"}
        warned = [line for line in server.log.read_text().splitlines() if "deviation" in line]
        assert len(warned) == 1
        assert "stock_silu" in warned[0]
        model_id = server.model()
        answer = server.http.get(f"/api/v1/training_runs/{model_id}/trace?after=0")
        assert answer.json() == {"steps": []}
        assert server.http.get("/api/v1/training_runs/none/trace").status_code == 400
