"""Memory of a session, which ends with it, and snapshots in files, which are the same bits again."""

import asyncio
import errno
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import httpx
import pytest
import torch
from coroutines import coroutine_test
from hostile_graphs import graph

from running import HANG_S, KEY
from tinsmith.engine.engine import Engine
from tinsmith.models import adapter_cache
from tinsmith.server import snapshots
from tinsmith.server.app import build_app
from tinsmith.server.database.records import Failed, Finished
from tinsmith.server.presence import Presence
from tinsmith.server.service import Service
from tinsmith.types.errors import InputError

NANO = "tinsmith/nano"
SAMPLE: dict[str, object] = {
    "seq_id": 0,
    "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
    **{"sampling_params": {"max_tokens": 6, "seed": 5}, "num_samples": 2},
}
Script = Callable[[Service, "Client"], Awaitable[None]]


class Client:
    """Speaks to a service as the SDK does, without a socket."""

    def __init__(self, service: Service) -> None:
        transport = httpx.ASGITransport(build_app(service, key=KEY, max_body=1 << 20))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://test/api/v1/", headers={"x-api-key": KEY})
        self.service = service

    async def post(self, path: str, body: Mapping[str, object]) -> dict[str, str]:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json() or {}

    async def result(self, asked: dict[str, str]) -> bytes:
        outcome = await self.service.futures.wait(asked["request_id"], HANG_S)
        assert isinstance(outcome, Finished), outcome
        return outcome.body

    async def model(self, session: str, kind: str = "") -> str:
        body = {"session_id": session, "model_seq_id": 0, "base_model": NANO + kind}
        made = await self.post("create_model", {**body, "lora_config": {"rank": 2, "seed": 1}})
        await self.result(made)
        return made["model_id"]

    async def snapshot(self, model: str, seq: int) -> str:
        requests: dict[str, object] = {"model_id": model, "seq_id": seq}
        held = await self.post("save_weights_for_sampler", {**requests, "sampling_session_seq_id": seq})
        return str(json.loads(await self.result(held))["sampling_session_id"])

    async def sample(self, sampler: str, seq: int) -> bytes:
        question = SAMPLE | {"sampling_session_id": sampler, "seq_id": seq}
        return await self.result(await self.post("asample", question))

    async def move(self, model: str, seed: int) -> None:
        """Change a model's weights, as training does."""
        session = self.service.runs.live[model].session
        adapter, drawn = session.adapter, torch.Generator().manual_seed(seed)

        def change() -> None:
            for weight in adapter.weights():
                weight.value += 0.02 * torch.randn(weight.value.shape, generator=drawn)
            adapter.changed()

        await asyncio.wrap_future(self.service.worker.call(change))


def serve(script: Script, engine: Engine, state: Path, presence: Presence | None = None) -> None:
    async def live() -> None:
        service = Service(engine, state, seed=0, max_queue=16, presence=presence)
        try:
            await script(service, Client(service))
        finally:
            await service.close()

    asyncio.run(live())


served = coroutine_test(serve, "engine", "state", made=2)


@served
async def test_a_session_that_has_ended_holds_nothing(service: Service, client: Client) -> None:
    ended = (await client.post("create_session", {}))["session_id"]
    other = (await client.post("create_session", {}))["session_id"]
    model, kept = await client.model(ended), await client.model(other)
    sampler = await client.snapshot(model, 1)
    await client.sample(sampler, 0)
    answer = await client.http.post(f"sessions/{ended}/finish", json={"reason": {"type": "success"}})
    assert answer.status_code in (200, 204)
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert list(service.runs.live) == [kept]
    assert sampler not in service.samplers.live
    refused = await client.http.post(
        "asample",
        json={
            "sampling_session_id": sampler,
            "seq_id": 1,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1]}]},
            "sampling_params": {"max_tokens": 1},
            "num_samples": 1,
        },
    )
    assert refused.status_code == 400
    assert "its session has ended" in refused.text


@served
async def test_a_request_that_waits_for_a_number_is_served_when_its_session_ends(
    service: Service, client: Client
) -> None:
    session = (await client.post("create_session", {}))["session_id"]
    sampler = await client.snapshot(await client.model(session), 1)
    calls: dict[str, object] = {
        "sampling_session_id": sampler,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": {"max_tokens": 3},
        "num_samples": 1,
    }
    waiting = [await client.post("asample", calls | {"seq_id": seq}) for seq in (1, 3)]
    answer = await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    assert answer.status_code in (200, 204)
    for request in waiting:
        await client.result(request)
    late = await client.http.post("asample", json=calls | {"seq_id": 0})
    assert late.status_code == 400
    assert await asyncio.wrap_future(service.worker.call(lambda: len(service.samplers.snapshots))) == 0


@served
async def test_a_session_that_ends_while_a_request_is_checked_refuses_it(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = (await client.post("create_session", {}))["session_id"]
    sampler = await client.snapshot(await client.model(session), 1)
    real = service.turns.run

    async def run(work: Callable[[], object], *, size: int) -> object:
        service.samplers.close_session(session)
        return await real(work, size=size)

    monkeypatch.setattr(service.turns, "run", run)
    asked = {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": {"max_tokens": 3},
        "num_samples": 1,
    }
    refused = await client.http.post("asample", json=asked)
    assert refused.status_code == 400
    assert "has ended" in refused.text
    assert service.store.pending() == ()


@pytest.mark.parametrize("kind", ["", ":dora", ":qlora", ":full"])
@served
async def test_a_snapshot_in_a_file_is_the_same_bits(
    service: Service, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(adapter_cache, "MAX_ADAPTERS", 1)
    state = tmp_path / "state"
    session = (await client.post("create_session", {}))["session_id"]
    body = {"session_id": session, "model_seq_id": 0, "base_model": NANO + kind}
    rank = 32 if kind == ":full" else 2
    made = await client.post("create_model", {**body, "lora_config": {"rank": rank, "seed": 1}})
    await client.result(made)
    model, held, first = made["model_id"], list[str](), list[bytes]()
    for i in range(3):
        await client.move(model, i)
        held.append(await client.snapshot(model, i + 1))
        first.append(await client.sample(held[-1], 0))
    assert len(set(first)) == 3  # of other weights, other log-probabilities
    assert len(list((state / "snapshots").iterdir())) == 2
    assert [await client.sample(each, 1) for each in held] == first
    await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert list((state / "snapshots").iterdir()) == []


@pytest.mark.parametrize("how", ["overwritten", "left alone"])
def test_after_a_restart_a_session_samples_from_the_weights_that_it_was_opened_on(
    engine: Engine, state: Path, how: str
) -> None:
    held: list[tuple[str, bytes]] = []

    async def before(service: Service, client: Client) -> None:
        del service
        model = await client.model((await client.post("create_session", {}))["session_id"])
        saved: dict[str, object] = {"model_id": model, "path": "x", "overwrite": True}
        path = json.loads(await client.result(await client.post("save_weights", saved | {"seq_id": 1})))["path"]
        asked = {"session_id": model.partition(":")[0], "sampling_session_seq_id": 0, "model_path": path}
        sampler = (await client.post("create_sampling_session", asked))["sampling_session_id"]
        held.append((sampler, await client.sample(sampler, 0)))
        await client.move(model, 1)
        if how == "overwritten":
            await client.result(await client.post("save_weights", saved | {"seq_id": 2}))
            assert await client.sample(sampler, 1) == held[0][1]
        assert (await client.post("create_sampling_session", asked))["sampling_session_id"] == sampler
        if how == "overwritten":
            deleted = await client.http.delete(f"training_runs/{model}/checkpoints/weights/x")
            assert deleted.status_code == 200
            assert (await client.post("create_sampling_session", asked))["sampling_session_id"] == sampler
            await client.result(await client.post("save_weights", saved | {"seq_id": 3}))

    async def after(service: Service, client: Client) -> None:
        sampler, drawn = held[0]
        asked = await client.post("asample", SAMPLE | {"sampling_session_id": sampler, "seq_id": 2})
        outcome = await service.futures.wait(asked["request_id"], HANG_S)
        if how == "overwritten":
            assert isinstance(outcome, Failed)
            assert "field: model_path" in outcome.message
        else:
            assert isinstance(outcome, Finished)
            assert outcome.body == drawn

    serve(before, engine, state)
    serve(after, engine, state)


@served
async def test_a_snapshot_for_which_there_is_no_room_is_not_held(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_cache, "MAX_ADAPTERS", 1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = await client.model((await client.post("create_session", {}))["session_id"])
    first = await client.snapshot(model, 1)
    drawn = await client.sample(first, 0)
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "write_tensors", full)
        for seq in (2, 3):
            await client.move(model, seq)
            asked = {"model_id": model, "seq_id": seq, "sampling_session_seq_id": seq}
            request = await client.post("save_weights_for_sampler", asked)
            failed = await service.futures.wait(request["request_id"], HANG_S)
            assert isinstance(failed, Failed)
            assert "no space left" in failed.message
    assert await asyncio.wrap_future(service.worker.call(lambda: len(service.samplers.snapshots))) == 1
    assert await client.sample(first, 1) == drawn
    await client.snapshot(model, 4)


@served
async def test_folders_without_a_checkpoint_go_with_their_session(
    service: Service, client: Client, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    session = (await client.post("create_session", {}))["session_id"]
    model = await client.model(session)
    for seq, name in ((1, "kept"), (2, "deleted")):
        saved = {"model_id": model, "seq_id": seq, "path": name}
        await client.result(await client.post("save_weights_for_sampler", saved))
    saved = {"model_id": model, "seq_id": 3, "path": "deleted"}
    await client.result(await client.post("save_weights", saved))
    for kind in ("weights", "sampler_weights"):
        gone = await client.http.delete(f"training_runs/{model}/checkpoints/{kind}/deleted")
        assert gone.status_code == 200, gone.text
    (run,) = state.glob("*train*")
    assert sorted(each.name for each in run.iterdir()) == ["sampler_weights", "weights"]
    await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert [each.name for each in run.iterdir()] == ["sampler_weights"]
    assert [each.name for each in (run / "sampler_weights").iterdir()] == ["kept"]


@served
async def test_losses_end_with_their_session(service: Service, client: Client) -> None:
    session = (await client.post("create_session", {}))["session_id"]
    losses = service.runs.losses
    folder = losses.folder / session
    folder.mkdir(parents=True)
    (folder / "abc.json").write_text("{}")
    await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert not folder.exists()
    with pytest.raises(InputError, match="no such custom loss"):
        losses.named(f"{session}:train:0", "custom", {"loss_id": f"{session}:loss:abc"})


def test_a_client_that_says_nothing_is_taken_for_gone(engine: Engine, tmp_path: Path) -> None:
    now = [0.0]

    async def script(service: Service, client: Client) -> None:
        sessions = [(await client.post("create_session", {}))["session_id"] for _ in range(2)]
        gone, there = [await client.model(session) for session in sessions]
        sampler = await client.snapshot(gone, 1)
        now[0] = 50.0
        await client.post("session_heartbeat", {"session_id": sessions[1]})
        now[0] = 99.0
        await service.end_silent()
        assert sorted(service.runs.live) == sorted([gone, there])
        now[0] = 100.0
        await service.end_silent()
        assert len(service.runs.live) == 2  # what they have said meanwhile is still to be read
        await service.end_silent()
        await asyncio.wrap_future(service.worker.call(lambda: None))
        assert list(service.runs.live) == [there]
        assert sampler not in service.samplers.live
        beat = await client.http.post("session_heartbeat", json={"session_id": sessions[0]})
        assert beat.status_code == 410
        body = {"model_id": gone, "seq_id": 2, "path": "late"}
        refused = await client.http.post("save_weights", json=body)
        assert refused.status_code == 400
        assert "its session has ended" in refused.text
        late = {"session_id": sessions[0], "model_seq_id": 1, "base_model": NANO}
        refused = await client.http.post("create_model", json=late)
        assert refused.status_code == 400
        assert "this session has ended (its client was silent for" in refused.text
        asked = {"statuses": [{"type": "cancelled"}], "owner": {"type": "own"}}
        found = (await client.http.post("sessions/search", json=asked)).json()["sessions"]
        (lines,) = [each["status"] for each in found]
        assert lines["type"] == "cancelled"
        assert "was silent for" in lines["detail"]
        now[0] = 1e9
        await service.end_silent()
        await client.snapshot(there, 1)  # whatever is asked is a sign of life
        await service.end_silent()
        await service.end_silent()
        assert list(service.runs.live) == [there]

    serve(script, engine, tmp_path / "state", Presence(silent_seconds=100.0, clock=lambda: now[0]))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "get_info", {"model_id": "MODEL"}),
        ("POST", "retrieve_future", {"request_id": "MODEL:0:create_model"}),
        ("POST", "join_sampling_session", {"sampling_session_id": "SAMPLER"}),
        ("GET", "samplers/SAMPLER", None),
        ("GET", "training_runs/MODEL", None),
        ("GET", "training_runs/MODEL/trace", None),
        ("GET", "sessions/SESSION", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whoever_asks_for_anything_of_a_session_is_there(
    engine: Engine, tmp_path: Path, method: str, path: str, body: dict[str, str] | None
) -> None:
    now = [0.0]
    presence = Presence(silent_seconds=100.0, clock=lambda: now[0])

    async def script(service: Service, client: Client) -> None:
        del service
        session = (await client.post("create_session", {}))["session_id"]
        model = await client.model(session)
        names = {"MODEL": model, "SAMPLER": await client.snapshot(model, 1), "SESSION": session}

        def named(text: str) -> str:
            for name, value in names.items():
                text = text.replace(name, value)
            return text

        now[0] = 150.0
        sent = None if body is None else {key: named(value) for key, value in body.items()}
        answer = await client.http.request(method, named(path), json=sent)
        assert answer.status_code == 200
        assert presence.silent() == presence.silent() == ()

    serve(script, engine, tmp_path / "state", presence)


def test_whoever_waits_for_an_answer_is_there(engine: Engine, tmp_path: Path) -> None:
    now = [0.0]
    presence = Presence(silent_seconds=100.0, clock=lambda: now[0])

    async def script(service: Service, client: Client) -> None:
        session = (await client.post("create_session", {}))["session_id"]
        now[0] = 90.0
        begun, messages = threading.Event(), threading.Event()

        def long() -> None:
            begun.set()
            messages.wait()

        under_way = service.worker.call(long)
        body: dict[str, object] = {"session_id": session, "model_seq_id": 0, "base_model": NANO}
        asked = await client.post("create_model", {**body, "lora_config": {"rank": 2}})
        now[0] = 180.0
        waiting = asyncio.ensure_future(client.result(asked))
        await asyncio.sleep(0)
        now[0] = 270.0
        assert presence.silent() == presence.silent() == ()
        messages.set()
        await asyncio.wrap_future(under_way)
        await waiting

    serve(script, engine, tmp_path / "state", presence)


@served
async def test_nothing_is_opened_or_stored_in_a_session_that_has_ended(service: Service, client: Client) -> None:
    session = (await client.post("create_session", {}))["session_id"]
    asked = {"session_id": session, "sampling_session_seq_id": 0, "base_model": NANO}
    sampler = (await client.post("create_sampling_session", asked))["sampling_session_id"]
    await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    body = {"name": "summed", "inputs": [{"name": "logprobs", "rank": 1}], "graph": {"nodes": graph()}}
    loss = {**body, "session_id": session, "custom_loss_seq_id": 0}
    for path, late in (("asample", SAMPLE | {"sampling_session_id": sampler}), ("create_custom_loss", loss)):
        refused = await client.http.post(path, json=late)
        assert refused.status_code == 400
        assert "this session has ended" in refused.text
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert service.samplers.live == {}
    assert not (service.runs.losses.folder / session).exists()


def test_a_session_of_a_client_that_died_before_the_server_ends_too(engine: Engine, tmp_path: Path) -> None:
    now, made = [0.0], list[str]()
    presence = partial(Presence, silent_seconds=100.0, clock=lambda: now[0])

    async def before(service: Service, client: Client) -> None:
        assert service.store.sessions() == ()
        made.extend([(await client.post("create_session", {}))["session_id"] for _ in range(2)])
        reason = {"reason": {"type": "success"}}
        await client.http.post(f"sessions/{made[1]}/finish", json=reason)

    async def after(service: Service, client: Client) -> None:
        now[0] = 200.0
        for _ in range(2):
            await service.end_silent()
        printed = [service.store.session(session) for session in made]
        assert [each.finished for each in printed if each is not None] == ["cancelled", "success"]
        beat = await client.http.post("session_heartbeat", json={"session_id": made[0]})
        assert beat.status_code == 410

    serve(before, engine, tmp_path / "state", presence())
    serve(after, engine, tmp_path / "state", presence())


def test_what_cannot_be_ended_is_tried_again(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    async def script(service: Service, client: Client) -> None:
        sessions = [(await client.post("create_session", {}))["session_id"] for _ in range(2)]
        now[0] = 200.0
        finish = service.store.finish_session

        def full(session_id: str, **said: str) -> None:
            if session_id == sessions[0]:
                raise sqlite3.OperationalError("database or disk is full")
            finish(session_id, **said)

        def finished() -> list[str | None]:
            found = [service.store.session(session) for session in sessions]
            return [each.finished for each in found if each is not None]

        with monkeypatch.context() as patched:
            patched.setattr(service.store, "finish_session", full)
            for _ in range(2):
                await service.end_silent()
        assert finished() == [None, "cancelled"]
        await service.end_silent()
        assert finished() == ["cancelled", "cancelled"]

    serve(script, engine, tmp_path / "state", Presence(silent_seconds=100.0, clock=lambda: now[0]))


@served
async def test_sampling_sessions_on_one_checkpoint_hold_its_weights_once(service: Service, client: Client) -> None:
    def held() -> int:
        return service.worker.call(lambda: len(service.samplers.snapshots)).result()

    session, other = [(await client.post("create_session", {}))["session_id"] for _ in range(2)]
    model = await client.model(session)
    asked = {"model_id": model, "seq_id": 1, "path": "x"}
    path = json.loads(await client.result(await client.post("save_weights_for_sampler", asked)))["path"]
    samplers = [
        (await client.post("create_sampling_session", of | {"sampling_session_seq_id": i, "model_path": path}))[
            "sampling_session_id"
        ]
        for i, of in enumerate([{"session_id": session}] * 3 + [{"session_id": other}])
    ]
    assert await asyncio.to_thread(held) == 1
    drawn = [await client.sample(each, 0) for each in samplers]
    assert len(set(drawn)) == 1
    await client.http.post(f"sessions/{session}/finish", json={"reason": {"type": "success"}})
    assert await asyncio.to_thread(held) == 1
    assert await client.sample(samplers[3], 1) == drawn[0]
    await client.http.post(f"sessions/{other}/finish", json={"reason": {"type": "success"}})
    assert await asyncio.to_thread(held) == 0
