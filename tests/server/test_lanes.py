"""The order of one owner's requests, and how many of them the sampler has at once."""

import asyncio

import numpy as np
import pytest
from served import served

from tinsmith.engine.engine import Engine
from tinsmith.engine.sequences import Group
from tinsmith.server.lanes import Job, Lane
from tinsmith.server.service import Service
from tinsmith.server.submissions import STARTED, WINDOW, Submissions
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams


def _named(done: list[str], name: str) -> Job:
    return lambda: done.append(name)


def _run(jobs: list[Job]) -> None:
    for job in jobs:
        job()


def test_numbers_run_in_order_however_they_arrive() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (3, 2, 1, 5, 4):
        _run(lane.add(seq, _named(done, str(seq))))
    assert done == ["1", "2", "3", "4", "5"]


def test_a_repeated_number_runs_once() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (2, 2, 1, 1, 2):
        _run(lane.add(seq, _named(done, str(seq))))
    assert done == ["1", "2"]


def test_a_refused_number_is_counted() -> None:
    done: list[str] = []
    lane = Lane(1)
    _run(lane.add(2, _named(done, "2")))
    assert done == []
    _run(lane.skip(1))
    assert done == ["2"]


def test_a_closed_gap_goes_on_from_the_lowest_that_waits() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (5, 3):
        _run(lane.add(seq, _named(done, str(seq))))
    _run(lane.close_gap())
    assert (done, lane.next_seq) == (["3"], 4)


def test_giving_up_drops_what_waits_and_goes_on_after_it() -> None:
    done: list[str] = []
    lane = Lane(2)
    for seq in (5, 3):
        _run(lane.add(seq, _named(done, str(seq))))
    assert [seq for seq, _ in lane.give_up()] == [3, 5]
    _run(lane.add(2, _named(done, "2")))
    _run(lane.add(6, _named(done, "6")))
    assert done == ["6"]


def test_giving_up_with_nothing_waiting_changes_nothing() -> None:
    lane = Lane(7)
    assert lane.give_up() == []
    assert lane.next_seq == 7


NANO = "tinsmith/nano"


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
