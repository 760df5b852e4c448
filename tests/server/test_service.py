"""The service beside its requests: what expires, who waits for the disk, and bases that are sampled by name."""

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hostile_graphs import graph
from served import serve, served
from tenants import NANO, PROMPT, Tenant, Tenants, sample, with_tenants

from running import HANG_S
from tinsmith.engine.engine import Engine
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.server import service as service_module
from tinsmith.server.app import build_app
from tinsmith.server.database.database import Database, Durability
from tinsmith.server.database.records import CheckpointRecord
from tinsmith.server.database.store import Store
from tinsmith.server.direct import Direct
from tinsmith.server.service import Service
from tinsmith.server.wire.messages import CLASSES
from tinsmith.types.errors import ConfigError


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


@pytest.mark.parametrize(
    ("ending", "field"), [(":router", "train_router"), (":qlora:router", "train_router"), (":full:alpha=3", "alpha")]
)
@with_tenants("alice")
async def test_an_adapter_that_no_model_can_have_is_not_sampled_from(tenants: Tenants, ending: str, field: str) -> None:
    direct, alice = Direct(tenants.service), tenants["alice"]
    await direct.find(NANO)
    with pytest.raises(ConfigError) as refused:
        await direct.find(NANO + ending)
    assert refused.value.field == field
    opened = {"session_id": await alice.session(), "sampling_session_seq_id": 0, "base_model": NANO + ending}
    assert (await alice.post("/api/v1/create_sampling_session", opened)).status_code == 400


@with_tenants("alice")
async def test_a_checkpoint_is_sampled_from_with_no_other_base_model(tenants: Tenants) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    requests = {"model_id": await alice.model(session), "seq_id": 1, "path": "a"}
    path = (await alice.done("save_weights_for_sampler", requests)).json()["path"]
    await alice.sampler(session, model_path=path, base_model=NANO)
    opened = {"session_id": session, "sampling_session_seq_id": 1, "model_path": path, "base_model": f"{NANO}:dora"}
    answer = await alice.post("/api/v1/create_sampling_session", opened)
    assert answer.status_code == 400
    assert "base_model" in answer.text


@with_tenants("alice")
async def test_an_answer_counts_the_prompts_tokens_that_were_in_the_cache(tenants: Tenants) -> None:
    alice = tenants["alice"]
    sampler = await alice.sampler(await alice.session())
    counts = list[int]()
    for seq, length in enumerate((40, 40, 20)):
        prompt = {"chunks": [{"type": "encoded_text", "tokens": list(range(1, 1 + length))}]}
        answer = await alice.done("asample", {**sample(sampler, seq), "prompt": prompt})
        message: Any = CLASSES["SampleResponse"]()
        message.ParseFromString(answer.content)
        counts.append(message.prompt_cache_hit_tokens)
    assert counts == [0, 32, 16]


@with_tenants("alice")
async def test_a_request_is_repeated_after_its_checkpoint_was_deleted(tenants: Tenants) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    model = await alice.model(session)
    path = (await alice.done("save_weights", {"model_id": model, "seq_id": 1, "path": "a"})).json()["path"]
    request = {"session_id": session, "model_seq_id": 1, "path": path, "optimizer": True}
    loaded = await alice.ok("load_weights", request)
    await alice.result(loaded["request_id"])
    deleted = await alice.http.delete(f"/api/v1/training_runs/{model}/checkpoints/weights/a")
    assert deleted.status_code == 200
    assert await alice.ok("load_weights", request) == loaded
    other = await alice.post("/api/v1/load_weights", request | {"optimizer": False})
    assert other.status_code == 400


@with_tenants("alice")
async def test_an_overwritten_checkpoint_is_published_no_more_and_the_log_says_so(
    tenants: Tenants, caplog: pytest.LogCaptureFixture
) -> None:
    alice = tenants["alice"]
    saved = {"model_id": await alice.model(await alice.session()), "path": "a", "overwrite": True}
    path = (await alice.done("save_weights", saved | {"seq_id": 1})).json()["path"]
    published = f"/api/v1/training_runs/{saved['model_id']}/checkpoints/weights/a/publish"
    assert (await alice.http.post(published)).status_code == 200
    await alice.done("save_weights", saved | {"seq_id": 2})
    record = tenants.service.store.checkpoint(TinkerPath.parse(path))
    assert record is not None
    assert not record.public
    assert any(path in each.getMessage() for each in caplog.records)


@with_tenants("alice")
async def test_links_to_exports_begin_with_the_public_address(tenants: Tenants) -> None:
    alice = tenants["alice"]
    model = await alice.model(await alice.session())
    await alice.done("save_weights_external", {"model_id": model, "seq_id": 1, "path": "a"})
    app = build_app(tenants.service, key=tenants.keys, max_body=1 << 20, public_url="https://models.example.org/")
    behind = Tenant(app, "alice")
    for client, begin in ((alice, "http://here/api/"), (behind, "https://models.example.org/api/")):
        path = f"/api/v1/training_runs/{model}/checkpoints/external_weights/a/external_weights_urls"
        urls = (await client.http.get(path)).json()["urls"]
        assert all(url.startswith(begin) for url in urls.values())
    await behind.http.aclose()


@with_tenants("alice")
async def test_errors_name_a_checkpoint_by_its_path(tenants: Tenants, state: Path) -> None:
    alice = tenants["alice"]
    session = await alice.session()
    model = await alice.model(session)
    for seq, kind in ((1, "save_weights"), (2, "save_weights_for_sampler")):
        await alice.done(kind, {"model_id": model, "seq_id": seq, "path": "a"})
    sampled, other = f"tinker://{model}/sampler_weights/a", await alice.model(session, 1, rank=2)
    for body in (
        {"model_id": model, "seq_id": 3, "path": sampled, "optimizer": True},
        {"model_id": other, "seq_id": 1, "path": f"tinker://{model}/weights/a", "optimizer": False},
        {"session_id": session, "model_seq_id": 2, "path": sampled, "optimizer": True},
    ):
        answer = await alice.result((await alice.ok("load_weights", body))["request_id"])
        assert str(body["path"]) in answer.text
        assert str(state) not in answer.text
    (TinkerPath.parse(sampled).folder(state) / "adapter.safetensors").write_bytes(b"")
    opened = {"session_id": session, "sampling_session_seq_id": 0, "model_path": sampled}
    answer = await alice.post("/api/v1/create_sampling_session", opened)
    assert sampled in answer.text
    assert str(state) not in answer.text
    again = await alice.ok("save_weights_for_sampler", {"model_id": model, "seq_id": 4, "path": "a"})
    refused = await alice.result(again["request_id"])
    assert "exists already" in refused.text
    assert "overwrite" not in refused.text


@pytest.mark.parametrize("metadata", [{"n": 1}, {"n": "1"}])
@with_tenants("alice")
async def test_a_session_is_found_by_the_metadata_that_is_shown(tenants: Tenants, metadata: dict[str, object]) -> None:
    alice = tenants["alice"]
    await alice.ok("create_session", {"user_metadata": metadata})
    await alice.ok("create_session", {})
    for searched, number in (({"n": "1"}, 1), ({"m": "None"}, 0)):
        answer = await alice.ok("sessions/search", {"user_metadata": searched})
        assert [each["user_metadata"] for each in answer["sessions"]] == [{"n": "1"}] * number


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


RUN = "training_runs/{model}"
STEP = {"adam_params": {"learning_rate": 0.1}, "model_id": "{model}", "seq_id": 2}
NEW = {"session_id": "{session}", "model_seq_id": 1}
OPENED = {"session_id": "{session}", "sampling_session_seq_id": 1}
SAMPLE = {"sampling_session_id": "{sampler}", "seq_id": 0, "prompt": PROMPT, "num_samples": 1}
LOSS = {"name": "summed", "inputs": [{"name": "logprobs", "rank": 1}], "graph": {"nodes": graph()}}
WRITES: Mapping[str, tuple[str, str, Mapping[str, object]]] = {
    "a session": ("POST", "create_session", {}),
    "its end": ("POST", "sessions/{session}/finish", {}),
    "a model": ("POST", "create_model", {**NEW, "base_model": NANO, "lora_config": {"rank": 2}}),
    "a model of a checkpoint": ("POST", "load_weights", {**NEW, "path": "{checkpoint}", "optimizer": False}),
    "its unloading": ("POST", "unload_model", {"model_id": "{model}"}),
    "a step": ("POST", "optim_step", STEP),
    "a refused step": ("POST", "optim_step", {**STEP, "adam_params": "none"}),
    "a sampling session": ("POST", "create_sampling_session", {**OPENED, "base_model": NANO}),
    "one on a checkpoint": ("POST", "create_sampling_session", {**OPENED, "model_path": "{checkpoint}"}),
    "a copy of it": ("POST", "join_sampling_session", {"sampling_session_id": "{sampler}"}),
    "samples": ("POST", "asample", {**SAMPLE, "sampling_params": {"max_tokens": 4}}),
    "refused samples": ("POST", "asample", {**SAMPLE, "sampling_params": {"max_tokens": 1 << 20}}),
    "a loss": ("POST", "create_custom_loss", {**LOSS, "session_id": "{session}", "custom_loss_seq_id": 0}),
    "an expiry": ("PUT", RUN + "/checkpoints/weights/a/ttl", {"ttl_seconds": 3600}),
    "a publication": ("POST", RUN + "/checkpoints/weights/a/publish", {}),
    "its withdrawal": ("DELETE", RUN + "/checkpoints/weights/a/publish", {}),
    "a deletion": ("DELETE", RUN + "/checkpoints/weights/a", {}),
}
"""Requests that change the state: method, path and body."""


@pytest.mark.parametrize("write", WRITES)
@with_tenants("alice", "bob")
async def test_others_are_served_while_a_request_waits_for_the_disk(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    alice, store = tenants["alice"], tenants.service.store
    session = await alice.session()
    model, sampler = await alice.model(session), await alice.sampler(session)
    saved = await alice.done("save_weights", {"model_id": model, "seq_id": 1, "path": "a"})
    ids = {"session": session, "model": model, "sampler": sampler, "checkpoint": saved.json()["path"]}
    locked, written, reached = threading.Event(), threading.Event(), threading.Event()
    on_loop: list[Durability] = []
    loop, transaction, entrance = threading.get_ident(), Database.transaction, Store.on_the_loop

    def disk() -> bool:
        with store.batch():
            locked.set()
            return written.wait(HANG_S)

    def noted(self: Database, durability: Durability = Durability.DISK) -> AbstractContextManager[None]:
        reached.set()
        if threading.get_ident() == loop:
            on_loop.append(durability)
        return transaction(self, durability)

    def entered(self: Store) -> AbstractAsyncContextManager[None]:
        reached.set()
        return entrance(self)

    held = asyncio.ensure_future(asyncio.to_thread(disk))
    assert await asyncio.to_thread(locked.wait, HANG_S)
    monkeypatch.setattr(Database, "transaction", noted)
    monkeypatch.setattr(Store, "on_the_loop", entered)
    method, path, body = WRITES[write]
    content = re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], json.dumps(body))
    answering = asyncio.ensure_future(alice.http.request(method, f"/api/v1/{path.format(**ids)}", content=content))
    try:
        assert await asyncio.to_thread(reached.wait, HANG_S)
        assert (await tenants["bob"].http.get("/api/v1/healthz")).json() == {"status": "ok"}
        assert not answering.done()
    finally:
        written.set()
    assert await held
    answer = await answering
    assert answer.status_code == (400 if "refused" in write else 200), answer.text
    assert Durability.DISK not in on_loop
