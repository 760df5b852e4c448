"""Handling of what reaches a worker's process, without Ray."""

import asyncio
import threading

import numpy as np
import pytest

from running import HANG_S
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import Fresh, FreshWork, Outcome, Refused, Sampled, SampleWork, WeightsId
from tinsmith.engine.grammars import CompiledGrammar, Grammars
from tinsmith.server.cluster import ray_worker
from tinsmith.server.cluster.ray_worker import RayWorker
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.sampling import Adjustments, Grammar, GrammarKind, SampleRequest, SamplingParams

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
    lines = threading.Event()

    def once_told(*_: object) -> Outcome:
        lines.wait()
        return Fresh(tensors={})

    monkeypatch.setattr(Host, "compute", once_told)
    works = [FreshWork(id=f"fresh-{i}", name=NAME, spec=AdapterSpec()) for i in range(2)]

    async def asked() -> list[Outcome]:
        await worker.facts()
        begun = [asyncio.ensure_future(worker.carry_out(work, ())) for work in works]
        await asyncio.sleep(0)  # both are asked for
        await worker.drop(works[1].id)
        lines.set()
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


def _constrained(number: int, pattern: str) -> SampleWork:
    grammar = Grammar(kind=GrammarKind.REGEX, text=pattern)
    params = SamplingParams(seed=number, max_tokens=4, adjustments=Adjustments(grammar=grammar))
    weights = WeightsId(name=NAME, quantised=False, spec=None, sha256="")
    request = SampleRequest(prompt=np.array([1, 2], np.int32), params=params)
    return SampleWork(id=f"sample-{number}", weights=weights, request=request)


def test_a_grammar_is_compiled_while_others_are_sampled(worker: RayWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    messages, compile_it = threading.Event(), Grammars.compile
    compiling: list[threading.Thread] = []

    def once_told(self: Grammars, grammar: Grammar) -> CompiledGrammar:
        if grammar.text == "slow" and not messages.is_set():
            compiling.append(threading.current_thread())
            assert messages.wait(HANG_S)
        return compile_it(self, grammar)

    monkeypatch.setattr(Grammars, "compile", once_told)

    async def asked() -> list[Outcome]:
        await worker.facts()
        slow = asyncio.ensure_future(worker.carry_out(_constrained(1, "slow"), ()))
        dropped = asyncio.ensure_future(worker.carry_out(_constrained(2, "slow"), ()))
        await asyncio.sleep(0)  # both are asked for
        await worker.drop("sample-2")
        others = [await worker.carry_out(_constrained(i, text), ()) for i, text in ((3, "[ab]+"), (4, "["))]
        assert not slow.done()
        forgotten = asyncio.ensure_future(worker.forget(_constrained(1, "slow").weights))
        await asyncio.sleep(0)
        assert not forgotten.done()
        messages.set()
        done = [await slow, await dropped, *others]
        await forgotten
        return done

    outcomes = asyncio.run(asked())
    assert [type(outcome) for outcome in outcomes] == [Sampled, Refused, Sampled, Refused]
    assert threading.main_thread() not in compiling
    assert "tinsmith-compute" not in {thread.name for thread in compiling}
