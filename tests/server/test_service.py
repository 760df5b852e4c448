"""The service beside its requests: what expires, who waits for the disk, and bases that are sampled by name."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest
from served import serve, served
from tenants import NANO, Tenants, with_tenants

from running import HANG_S
from tinsmith.engine.engine import Engine
from tinsmith.server import service as service_module
from tinsmith.server.database.records import CheckpointRecord
from tinsmith.server.direct import Direct
from tinsmith.server.service import Service


def test_an_error_in_one_round_does_not_end_the_search_for_what_has_expired(
    engine: Engine, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(service: Service) -> None:
        again, rounds = asyncio.Event(), list[float]()

        def unreadable(now: float) -> tuple[()]:
            rounds.append(now)
            if len(rounds) == 1:
                raise sqlite3.OperationalError("disk I/O error")
            again.set()
            return ()

        monkeypatch.setattr(service.store, "expired", unreadable)
        await again.wait()

    monkeypatch.setattr(service_module, "EXPIRY_SECONDS", 0.0)
    serve(script, engine, state)


@served
async def test_a_base_is_held_once_however_its_name_is_spelled(service: Service) -> None:
    direct = Direct(service)
    names = [NANO, *(f"{NANO}:alpha={alpha}" for alpha in (16, 128)), f"{NANO}:dora", f"{NANO}:qlora", f"{NANO}:qdora"]
    found = [await direct.find(name) for name in names]
    assert [(each.name, each.model) for each in found] == [(NANO, name) for name in names]
    assert len(direct.bases) == 2
    assert {each.loaded is found[0].loaded for each in found[:4]} == {True}
    assert found[4].loaded is found[5].loaded


@with_tenants("alice")
async def test_a_checkpoint_that_is_kept_while_others_expire_stays(
    tenants: Tenants, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, store = tenants["alice"], tenants.service.store
    model = await alice.model(await alice.session())
    for seq, name in ((1, "gone"), (2, "kept")):
        await alice.done("save_weights", {"model_id": model, "seq_id": seq, "path": name, "ttl_seconds": 3600})
    found = store.expired

    def stale(now: float) -> tuple[CheckpointRecord, ...]:
        records = found(now)
        store.set_ttl(records[1].path, None)
        return records

    monkeypatch.setattr(store, "expired", stale)
    await tenants.service.delete_expired(1e12)
    assert [record.path.name for record in store.checkpoints()] == ["kept"]
    (run,) = state.glob("*train*")
    assert [each.name for each in (run / "weights").iterdir()] == ["kept"]


@pytest.mark.parametrize("write", ["create_session", "finish_session"])
@with_tenants("alice", "bob")
async def test_others_are_served_while_a_session_waits_for_the_disk(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    alice, service = tenants["alice"], tenants.service
    session = await alice.session()
    locked, written, called = threading.Event(), threading.Event(), threading.Event()
    real = getattr(service.store, write)

    def slow() -> bool:
        with service.store.batch():
            locked.set()
            return written.wait(HANG_S)

    def noted(*arguments: object, **options: object) -> object:
        called.set()
        return real(*arguments, **options)

    monkeypatch.setattr(service.store, write, noted)
    held = service.worker.call(slow)
    assert await asyncio.to_thread(locked.wait, HANG_S)
    path = "create_session" if write == "create_session" else f"sessions/{session}/finish"
    answering = asyncio.ensure_future(alice.post(f"/api/v1/{path}", {}))
    assert await asyncio.to_thread(called.wait, HANG_S)
    assert (await tenants["bob"].http.get("/api/v1/sessions")).json() == {"sessions": []}
    assert not answering.done()
    written.set()
    assert await asyncio.wrap_future(held)
    assert (await answering).status_code == 200
