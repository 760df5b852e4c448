"""Requests that never come, a model that is gone, a disk that is full, a sampler that fails: nobody waits for ever."""

import asyncio
import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
import pytest
from served import serve, served

from running import HANG_S, KEY
from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Group
from tinsmith.engine.training import TrainingSession
from tinsmith.server import samplers, sampling_requests
from tinsmith.server.app import build_app
from tinsmith.server.database.records import Failed, Finished, Outcome
from tinsmith.server.direct import Direct, Requests
from tinsmith.server.draws import Follower
from tinsmith.server.service import Service
from tinsmith.server.submissions import STARTED, WINDOW, Submissions
from tinsmith.server.weights import Loaded
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.places import Place
from tinsmith.server.wire.requests import CreateModel, CreateSamplingSession, OptimStep, Sample
from tinsmith.types.errors import CheckpointError, DiskFullError, InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams, StopReason

NANO = "tinsmith/nano"


async def outcome(service: Service, request_id: str) -> Outcome:
    return await service.futures.wait(request_id, HANG_S)


async def sampler(service: Service, session: str = "") -> str:
    question = {"session_id": session or service.store.create_session().session_id, "sampling_session_seq_id": 0}
    opened = CreateSamplingSession.model_validate({**question, "base_model": NANO})
    return await service.samplers.create(opened, service.runs, service.turns)


def ask(sampler_id: str, seq_id: int, **params: object) -> bytes:
    asked = {
        "sampling_session_id": sampler_id,
        "seq_id": seq_id,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": {"max_tokens": 4, **params},
        "num_samples": 2,
    }
    return json.dumps(asked).encode()


async def sample(service: Service, sampler_id: str, seq_id: int) -> str:
    return (await service.samplers.sample(parse_json(Sample, ask(sampler_id, seq_id)), service.turns))[0]


async def model(service: Service) -> str:
    session = service.store.create_session(tags=[], user_metadata=None, sdk_version="0", project_id=None).session_id
    asked = {"session_id": session, "model_seq_id": 0, "base_model": NANO, "lora_config": {"rank": 2}}
    request_id, model_id = service.runs.create(CreateModel.model_validate(asked))
    assert isinstance(await outcome(service, request_id), Finished)
    return model_id


def step(model_id: str, seq_id: int) -> OptimStep:
    asked = {"adam_params": {"learning_rate": 0.1}, "model_id": model_id, "seq_id": seq_id}
    return OptimStep.model_validate(asked)


@served
async def test_what_waits_for_a_number_that_never_comes_fails_and_the_next_goes_on(service: Service) -> None:
    service.runs.gap_seconds = 0.0
    model_id = await model(service)
    first = service.runs.optim_step(step(model_id, 1))
    waiting = [service.runs.optim_step(step(model_id, seq)) for seq in (3, 4)]
    assert isinstance(await outcome(service, first), Finished)
    for request_id in waiting:
        failed = await outcome(service, request_id)
        assert isinstance(failed, Failed)
        assert "request 2 " in failed.message
        assert failed.category == "user"
    late = await outcome(service, service.runs.optim_step(step(model_id, 2)))
    assert isinstance(late, Failed)
    assert "given up" in late.message
    assert isinstance(await outcome(service, service.runs.optim_step(step(model_id, 5))), Finished)
    steps = service.runs.live[model_id].session
    assert steps.optimizer.step_count == 2


@served
async def test_a_number_that_comes_late_but_in_time_is_carried_out_in_order(service: Service) -> None:
    model_id = await model(service)
    ids = [service.runs.optim_step(step(model_id, seq)) for seq in (3, 2, 1)]
    for request_id in ids:
        assert isinstance(await outcome(service, request_id), Finished)
    assert service.runs.live[model_id].waiting == {}


@served
async def test_a_refused_sampling_request_uses_its_number_up(service: Service) -> None:
    service.samplers.gap_seconds = 2 * HANG_S  # nothing is served because a number was given up
    app = build_app(service, key=KEY, max_body=10_000)
    sampler_id = await sampler(service)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://here", headers={"x-api-key": KEY}
    ) as http:
        for refused in (ask(sampler_id, 0, top_p="much"), ask(sampler_id, 1, max_tokens=10**6)):
            answer = await http.post("/api/v1/asample", content=refused)
            assert answer.status_code == 400
    assert isinstance(await outcome(service, await sample(service, sampler_id, 2)), Finished)


@served
async def test_weights_that_could_not_be_loaded_are_loaded_when_the_request_is_repeated(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = service.store.create_session().session_id

    def unreadable(*_: object) -> Loaded:
        raise CheckpointError("a file could not be read")

    with monkeypatch.context() as patched:
        patched.setattr(samplers, "load_base", unreadable)
        with pytest.raises(CheckpointError):
            await sampler(service, session)
    opened = await sampler(service, session)
    assert isinstance(await outcome(service, await sample(service, opened, 0)), Finished)
    assert [*service.samplers.live] == [opened]


@served
async def test_a_number_that_comes_after_it_was_given_up_is_served(service: Service) -> None:
    service.samplers.gap_seconds = 0.0
    sampler_id = await sampler(service)
    for seq_id in (1, 0):
        served = await outcome(service, await sample(service, sampler_id, seq_id))
        assert isinstance(served, Finished)


@served
@pytest.mark.parametrize("first", ["never", "seeded", "refused"])
async def test_of_two_numbers_that_never_come_each_is_given_up(service: Service, first: str) -> None:
    service.samplers.gap_seconds = 0.0
    sampler_id = await sampler(service)
    waiting = [await sample(service, sampler_id, seq_id) for seq_id in (2, 4)]
    if first == "seeded":
        await service.samplers.sample(parse_json(Sample, ask(sampler_id, 0, seed=1)), service.turns)
    elif first == "refused":
        service.samplers.count_refused(Place(sampler_id, 0), InputError("no"))
    for request_id in waiting:
        assert isinstance(await outcome(service, request_id), Finished)


@served
async def test_what_waits_for_a_second_number_after_a_refused_one_fails(service: Service) -> None:
    service.runs.gap_seconds = 0.0
    model_id = await model(service)
    waiting = [service.runs.optim_step(step(model_id, seq)) for seq in (2, 4)]
    service.runs.count_refused(Place(model_id, 1), InputError("no"))
    first, second = [await outcome(service, request_id) for request_id in waiting]
    assert isinstance(first, Finished)
    assert isinstance(second, Failed)
    assert "request 3 " in second.message


@served
@pytest.mark.parametrize("refused", [{}, {"adam_params": None}], ids=["no room", "a mistake, and no room to count it"])
async def test_a_request_without_room_holds_nobody_up_and_succeeds_once_there_is_room(
    service: Service, monkeypatch: pytest.MonkeyPatch, refused: dict[str, object]
) -> None:
    service.runs.gap_seconds = 2 * HANG_S
    model_id = await model(service)

    def full(**_: object) -> bool:
        raise DiskFullError("could not write")

    app = build_app(service, key=KEY, max_body=10_000)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://here/api/v1/", headers={"x-api-key": KEY}
    ) as http:

        async def ask(seq_id: int, **other: object) -> httpx.Response:
            return await http.post("optim_step", json=step(model_id, seq_id).model_dump(mode="json") | other)

        with monkeypatch.context() as patched:
            patched.setattr(service.store, "open_request", full)
            patched.setattr(service.store, "refuse", full)
            for seq_id in (3, 1):
                assert (await ask(seq_id, **refused)).status_code == 507
        for asked in [await ask(seq_id) for seq_id in (3, 2, 1, 4, 3)]:
            assert isinstance(await outcome(service, asked.json()["request_id"]), Finished)
    run = service.runs.live[model_id]
    assert run.session is not None
    assert (run.session.optimizer.step_count, run.waiting, run.lane.excused) == (4, {}, set())


@served
async def test_a_number_gives_another_request_no_answer(service: Service) -> None:
    app = build_app(service, key=KEY, max_body=10_000)
    sampler_id, model_id = await sampler(service), await model(service)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://here/api/v1/", headers={"x-api-key": KEY}
    ) as http:
        saved = {"model_id": model_id, "seq_id": 1}
        for path, first, other in (
            ("asample", json.loads(ask(sampler_id, 0, seed=1)), json.loads(ask(sampler_id, 0, seed=2))),
            ("save_weights", {**saved, "path": "a"}, {**saved, "path": "b"}),
        ):
            accepted = await http.post(path, json=first)
            assert (await http.post(path, json=first)).json() == accepted.json()
            refused = await http.post(path, json=other)
            assert (refused.status_code, "field: seq_id" in refused.text) == (400, True)
            assert isinstance(await outcome(service, accepted.json()["request_id"]), Finished)


@served
async def test_unloading_waits_for_what_came_before_and_is_done_when_that_is_given_up(service: Service) -> None:
    service.runs.gap_seconds = 0.0
    model_id = await model(service)
    waiting = service.runs.optim_step(step(model_id, 2))
    unloaded = service.unload(model_id)
    assert isinstance(await outcome(service, waiting), Failed)
    assert isinstance(await outcome(service, unloaded), Finished)
    assert service.unload(model_id) == unloaded


@served
async def test_a_model_that_could_not_be_made_is_not_held(
    service: Service, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> TrainingSession:
        raise MemoryError

    monkeypatch.setattr(engine, "create_session", broken)
    session = service.store.create_session().session_id
    asked = {"session_id": session, "model_seq_id": 0, "base_model": NANO, "lora_config": {"rank": 2}}
    request_id, model_id = service.runs.create(CreateModel.model_validate(asked))
    after = service.runs.optim_step(step(model_id, 1))
    for each in (request_id, after):
        assert isinstance(await outcome(service, each), Failed)
    await asyncio.wrap_future(service.worker.call(lambda: None))
    assert service.runs.live == {}
    assert isinstance(await outcome(service, service.unload(model_id)), Finished)


@served
async def test_a_session_whose_numbers_are_used_up_ends_and_frees_its_model(service: Service) -> None:
    model_id = await model(service)
    service.runs.optim_step(step(model_id, 2**63 - 1))
    service.free(model_id.partition(":")[0])
    assert service.runs.live == {}
    with pytest.raises(InputError, match="not in memory"):
        service.runs.optim_step(step(model_id, 1))


def test_a_repeated_request_of_a_lost_model_gets_its_first_answer(engine: Engine, state: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def before(service: Service) -> None:
        model_id = await model(service)
        request_id = service.runs.optim_step(step(model_id, 1))
        asked.append((model_id, request_id))
        assert isinstance(await outcome(service, request_id), Finished)

    async def after(service: Service) -> None:
        model_id, request_id = asked[0]
        assert service.runs.optim_step(step(model_id, 1)) == request_id
        assert isinstance(await outcome(service, request_id), Finished)

    serve(before, engine, state)
    serve(after, engine, state)


def test_a_request_that_is_refused_first_after_a_restart_uses_its_number_up(engine: Engine, state: Path) -> None:
    opened: list[str] = []

    async def before(service: Service) -> None:
        opened.append(await sampler(service))

    async def after(service: Service) -> None:
        service.samplers.gap_seconds = 2 * HANG_S
        service.samplers.count_refused(Place(opened[0], 0), InputError("no"))
        assert isinstance(await outcome(service, await sample(service, opened[0], 1)), Finished)

    serve(before, engine, state)
    serve(after, engine, state)


def test_a_disk_that_takes_nothing_more_is_told_to_who_waits(
    engine: Engine, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise sqlite3.OperationalError("database or disk is full")

    async def script(service: Service) -> None:
        model_id = await model(service)
        monkeypatch.setattr(service.store, "finish", full)
        monkeypatch.setattr(service.store, "fail", full)
        failed = await outcome(service, service.runs.optim_step(step(model_id, 1)))
        monkeypatch.undo()
        assert isinstance(failed, Failed)
        assert "database or disk is full" in failed.message
        assert failed.category == "server"
        assert isinstance(await outcome(service, service.runs.optim_step(step(model_id, 2))), Finished)
        assert service.store.result(f"{model_id}:1:optim_step") == failed  # the state has it once there is room

    serve(script, engine, state)


@served
async def test_a_step_whose_result_finds_no_room_says_that_it_was_taken(service: Service) -> None:
    model_id = await model(service)
    with patch.object(service.store, "finish", side_effect=DiskFullError("no space left", fix="do it again")):
        failed = await outcome(service, service.runs.optim_step(step(model_id, 1)))
    assert isinstance(failed, Failed)
    assert service.runs.num_steps == 1
    assert "it was carried out" in failed.message


@served
async def test_a_step_of_the_sampler_that_fails_ends_its_requests_and_the_next_is_served(
    service: Service, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler_id = await sampler(service)

    def broken() -> None:
        raise MemoryError

    monkeypatch.setattr(engine.sampler(NANO), "step", broken)
    failed = await outcome(service, await sample(service, sampler_id, 0))
    monkeypatch.undo()
    assert isinstance(failed, Failed)
    assert "MemoryError" in failed.message
    assert service.samplers.under_way == {}
    assert isinstance(await outcome(service, await sample(service, sampler_id, 1)), Finished)


async def drawn(service: Service) -> list[StopReason]:
    """The ends of two samples that are drawn without a session."""
    direct = Direct(service)
    found = await direct.find(NANO)
    requests = Requests(((1, 2, 3),), lambda _: parse_json(Sample, ask("none", 0)))
    drawing = direct.draw(found, requests, watch=False)
    return [each.stop_reason async for some in drawing for each in some if each.stop_reason is not None]


def ended_together(service: Service, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let as many groups end in one step, those without a future first."""
    sampler, ended = service.engine.sampler(NANO), list[Group]()
    real = sampler.step

    def step() -> list[Group]:
        ended.extend(real())
        futures = {id(group) for group in service.samplers.requested.values()}
        return sorted(ended, key=lambda group: id(group) in futures) if len(ended) == count else []

    monkeypatch.setattr(sampler, "step", step)


@served
async def test_a_commit_that_fails_fails_its_requests_and_nobody_else(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler_id = await sampler(service)
    real = service.store.batch

    @contextmanager
    def full() -> Generator[None]:
        with real():
            yield
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(service.store, "batch", full)
    ended_together(service, 3, monkeypatch)
    streamed = asyncio.ensure_future(drawn(service))
    ids = [await sample(service, sampler_id, seq_id) for seq_id in range(2)]
    for request_id in ids:
        failed = await outcome(service, request_id)
        assert isinstance(failed, Failed)
        assert "database or disk is full" in failed.message
        assert failed.category == "server"
    assert len(await streamed) == 2
    monkeypatch.undo()
    assert service.samplers.under_way == service.samplers.requested == {}


@served
async def test_a_result_that_cannot_be_encoded_fails_alone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler_id = await sampler(service)
    real, calls = sampling_requests.encode_sample, list[object]()

    def encode(*arguments: Any, **options: Any) -> bytes:
        calls.append(arguments)
        if len(calls) == 1:
            raise MemoryError
        return real(*arguments, **options)

    monkeypatch.setattr(sampling_requests, "encode_sample", encode)
    ended_together(service, 3, monkeypatch)
    ids = [await sample(service, sampler_id, seq_id) for seq_id in range(3)]
    outcomes = [await outcome(service, request_id) for request_id in ids]
    (failed,) = [each for each in outcomes if isinstance(each, Failed)]
    assert "MemoryError" in failed.message
    assert sum(isinstance(each, Finished) for each in outcomes) == 2


@served
async def test_a_client_that_cannot_be_handed_its_samples_fails_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler_id = await sampler(service)

    def broken(self: Follower, group: Group) -> None:
        del self, group
        raise MemoryError

    monkeypatch.setattr(Follower, "ended", broken)
    ended_together(service, 2, monkeypatch)
    streamed = asyncio.ensure_future(drawn(service))
    request_id = await sample(service, sampler_id, 0)
    assert isinstance(await outcome(service, request_id), Finished)
    with pytest.raises(MemoryError):
        await streamed


def _request(number: int) -> SampleRequest:
    return SampleRequest(prompt=np.array([1, 2], np.int32), params=SamplingParams(seed=number, max_tokens=1))


@served
async def test_a_window_of_them_is_in_the_sampler_and_all_are_answered(service: Service, engine: Engine) -> None:
    asked, ended, most = list[int](), list[int](), list[int]()
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    count = 2 * WINDOW + 5

    def request(number: int) -> SampleRequest:
        asked.append(number)
        return _request(number)

    def done(number: int, group: Group) -> None:
        assert group.failure is None
        ended.append(number)
        most.append(len(submissions.under_way))
        if len(ended) == count:
            loop.call_soon_threadsafe(over.set)

    submissions = Submissions(
        samplers=service.samplers,
        name=NANO,
        policy=engine.base_policy(NANO),
        owner="alice",
        count=count,
        request=request,
        ended=done,
        failed=lambda error: pytest.fail(str(error)),
    )
    service.worker.post(submissions.start)
    await over.wait()
    assert asked == list(range(count))
    assert sorted(ended) == asked
    assert max(most) < WINDOW
    assert not service.samplers.under_way


@served
async def test_one_that_cannot_be_asked_ends_what_follows_it(service: Service, engine: Engine) -> None:
    loop = asyncio.get_running_loop()
    reason: asyncio.Future[Exception] = loop.create_future()
    asked: list[int] = []

    def request(number: int) -> SampleRequest:
        asked.append(number)
        if number == STARTED + 1:
            raise InputError("no")
        return _request(number)

    def failed(error: Exception) -> None:
        loop.call_soon_threadsafe(reason.set_result, error)

    submissions = Submissions(
        samplers=service.samplers,
        name=NANO,
        policy=engine.base_policy(NANO),
        owner="alice",
        count=100,
        request=request,
        ended=lambda *_: None,
        failed=failed,
    )
    service.worker.post(submissions.start)
    assert isinstance(await reason, InputError)
    await asyncio.wrap_future(service.worker.call(submissions.drop))
    assert asked == list(range(STARTED + 2))
    assert not service.samplers.under_way
