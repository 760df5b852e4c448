"""What a server remembers of optimizer steps and tells of deviations, beyond the protocol."""

import asyncio
from pathlib import Path

import pytest

import loopback
from running import HANG_S, NANO, Running
from tinsmith.engine.engine import Engine
from tinsmith.engine.trace import KEPT, StepTrace, Trace
from tinsmith.server.database.records import Finished
from tinsmith.server.service import Service
from tinsmith.server.wire.requests import CreateModel, LoadWeights, OptimStep, SaveWeights
from tinsmith.types.errors import TinsmithError

pytestmark = pytest.mark.whole

MADE = {"session_id": "s", "base_model": NANO, "lora_config": {"rank": 2, "seed": 1}}


async def done(service: Service, request_id: str) -> None:
    assert isinstance(await service.futures.wait(request_id, HANG_S), Finished)


def step(model_id: str, seq_id: int) -> OptimStep:
    asked = {"adam_params": {"learning_rate": 0.1}, "model_id": model_id, "seq_id": seq_id}
    return OptimStep.model_validate(asked)


def test_a_loaded_model_goes_on_counting_and_tells_no_step_twice(tmp_path: Path) -> None:
    async def live() -> None:
        service = Service(Engine({NANO: NANO}, kept=loopback.KEPT), tmp_path / "state", seed=0, max_queue=16)
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


def test_a_trace_forgets_its_oldest_steps() -> None:
    trace = Trace(Engine({}).kernels)
    for number in range(1, KEPT + 3):
        trace.add(StepTrace(step=number, gradient={}, weights={}))
    assert [one.step for one in trace.after(0)] == list(range(3, KEPT + 3))


def test_a_server_that_deviates_says_so(tmp_path: Path) -> None:
    with Running(tmp_path / "state", "--deviation", "stock_silu", "--micro-batch", "1") as server:
        told = server.http.get("/api/v1/get_server_capabilities").json()["supported_models"]
        assert {model["identity"]["deviation"] for model in told} == {"stock_silu"}
        warned = [line for line in server.log.read_text().splitlines() if "deviation" in line]
        assert len(warned) == 1
        assert "stock_silu" in warned[0]
        model_id = server.model()
        answer = server.http.get(f"/api/v1/training_runs/{model_id}/trace?after=0")
        assert answer.json() == {"steps": []}
        assert server.http.get("/api/v1/training_runs/none/trace").status_code == 400
