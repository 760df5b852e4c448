"""Limits of a key that meet each other, and those that every key has."""

import asyncio
import threading

import pytest
from tenants import NANO, Tenants, sample, with_tenants
from training_requests import forward_backward

from running import HANG_S
from tinsmith.server import samplers
from tinsmith.server.access.limits import MOST_BYTES, UNLIMITED, Limits, Usage
from tinsmith.types.errors import InputError


@with_tenants("alice", "bob", limits={"alice": Limits(max_bytes=100)})
async def test_datums_that_wait_to_be_computed_are_limited(tenants: Tenants) -> None:
    alice, bob = tenants["alice"], tenants["bob"]
    for tenant in (alice, bob):
        model = await tenant.model(await tenant.session())
        # The first number is missing, so that what follows waits for it.
        waiting = await tenant.ok("forward_backward", forward_backward(model, 2))  # alone it may be larger
        assert await tenant.ok("forward_backward", forward_backward(model, 2)) == waiting
        answer = await tenant.post("/api/v1/forward_backward", forward_backward(model, 3))
        if tenant is alice:
            assert answer.status_code == 400
            assert "max_bytes" in answer.json()["error"]
        else:
            assert answer.status_code == 200
        await tenant.done("optim_step", {"model_id": model, "adam_params": {}, "seq_id": 1})
        await tenant.result(waiting["request_id"])
        await tenant.done("forward_backward", forward_backward(model, 4))
    assert tenants.service.futures.usage.num_requests == 0


def test_a_key_without_limits_has_that_of_all_keys() -> None:
    usage = Usage()
    usage.begin("a", "alice", num_bytes=MOST_BYTES)
    usage.require_room("bob", UNLIMITED, num_bytes=2 * MOST_BYTES)
    usage.require_room("alice", UNLIMITED)
    with pytest.raises(InputError, match="max_bytes"):
        usage.require_room("alice", UNLIMITED, num_bytes=1, refusal=InputError)
    usage.end("a")
    usage.require_room("alice", UNLIMITED, num_bytes=MOST_BYTES)


@with_tenants("alice", limits={"alice": Limits(max_models=1, max_requests=1)})
async def test_a_model_that_is_refused_is_not_there_and_a_second_try_finds_the_same_limits(tenants: Tenants) -> None:
    alice, gate = tenants["alice"], threading.Event()
    session = await alice.session()
    sampler = await alice.sampler(session)
    held = tenants.service.worker.call(lambda: gate.wait(HANG_S))
    under_way = await alice.ok("asample", sample(sampler, 0))
    models = [{"session_id": session, "model_seq_id": seq, "base_model": NANO} for seq in range(3)]
    for requests in models:
        answer = await alice.post("/api/v1/create_model", requests | {"lora_config": {"rank": 4}})
        assert answer.status_code == 400
        assert "max_requests" in answer.json()["error"]
    assert (await alice.http.get("/api/v1/training_runs")).json()["training_runs"] == []
    gate.set()
    assert await asyncio.wrap_future(held)
    await alice.result(under_way["request_id"])
    await alice.model(session, 0)
    for requests in models[1:]:
        answer = await alice.post("/api/v1/create_model", requests | {"lora_config": {"rank": 4}})
        assert answer.status_code == 400
        assert "max_models" in answer.json()["error"]
    assert len(tenants.service.runs.live) == 1


@with_tenants("alice")
async def test_snapshots_are_sampling_sessions_too_and_so_many_at_once(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "MOST_OPEN", 2)
    alice = tenants["alice"]
    model = await alice.model(await alice.session())
    save = {"model_id": model, "sampling_session_seq_id": 0}
    for seq in (1, 2):
        await alice.done("save_weights_for_sampler", save | {"seq_id": seq, "sampling_session_seq_id": seq})
    third = await alice.ok("save_weights_for_sampler", save | {"seq_id": 3, "sampling_session_seq_id": 3})
    refused = (await alice.result(third["request_id"])).json()
    assert "too many sampling sessions" in refused["error"]
    assert refused["category"] == "user"
    assert len(tenants.service.samplers.live) == 2
