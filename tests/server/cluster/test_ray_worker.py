"""What a worker's process makes of what reaches it, without Ray."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import Fresh, FreshWork, Outcome, Refused, WeightsId
from tinsmith.server.cluster import ray_worker
from tinsmith.server.cluster.ray_worker import RayWorker
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.adapters import AdapterSpec

NAME = "tinsmith/nano"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> RayWorker:
    """In this process, whose heaps are those of other tests too."""
    monkeypatch.setattr(ray_worker, "share_one_heap", bool)
    return RayWorker(WorkerSettings(models={NAME: NAME}, seed=0), (), 1)


def test_to_give_up_on_what_has_ended_leaves_nothing_behind(worker: RayWorker) -> None:
    work = FreshWork(id="fresh-1", name=NAME, spec=AdapterSpec(rank=2))

    async def asked() -> list[Outcome]:
        await worker.facts()
        first = await worker.carry_out(work, ())
        await worker.drop(work.id)
        return [first, await worker.carry_out(work, ())]

    assert [type(outcome) for outcome in asyncio.run(asked())] == [Fresh, Fresh]


def test_what_is_given_up_before_it_begins_is_not_computed(worker: RayWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()

    def once_told(*_: object) -> Outcome:
        told.wait()
        return Fresh(tensors={})

    monkeypatch.setattr(Host, "compute", once_told)
    works = [FreshWork(id=f"fresh-{i}", name=NAME, spec=AdapterSpec()) for i in range(2)]

    async def asked() -> list[Outcome]:
        await worker.facts()
        begun = [asyncio.ensure_future(worker.carry_out(work, ())) for work in works]
        await asyncio.sleep(0)  # both are asked for
        await worker.drop(works[1].id)
        told.set()
        return list(await asyncio.gather(*begun))

    assert [type(outcome) for outcome in asyncio.run(asked())] == [Fresh, Refused]


def test_words_about_weights_wait_for_the_works_before_them(worker: RayWorker) -> None:
    work = FreshWork(id="fresh-1", name=NAME, spec=AdapterSpec(rank=2))
    unknown = WeightsId(name=NAME, quantised=False, spec=work.spec, sha256="0")

    async def asked() -> Outcome:
        await worker.facts()
        await worker.forget(unknown)
        await worker.tidy()
        return await worker.carry_out(work, ())

    assert isinstance(asyncio.run(asked()), Fresh)
