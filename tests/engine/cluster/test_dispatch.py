"""The dispatcher where something fails that nobody expects: nobody waits for ever."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from running import HANG_S
from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.work import FreshWork, Outcome, Refused, Shipped, WeightsId, Work, WorkerFacts
from tinsmith.server.cluster.ray_workers import STARTS, RayWorkers
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.errors import UnavailableError


class Losing:
    """A worker that has not joined; another is lost while that is looked at."""

    def __init__(self, started: dict[str, Any]) -> None:
        self._started = started

    @property
    def joined(self) -> bool:
        self._started.pop("worker-1", None)
        return False


FACTS = cast("WorkerFacts", None)
"""Facts that nobody reads."""


class Unsendable:
    """A transport that can carry none of the works."""

    def send(self, worker: str, work: Work, weights: Shipped | None) -> None:
        del worker, weights
        raise TypeError(f"cannot pickle {work.id}")

    def drop(self, worker: str, work_id: str) -> None:
        pass

    def forget(self, worker: str, weights: WeightsId) -> None:
        pass

    def tidy(self, worker: str) -> None:
        pass


def fresh(work_id: str) -> FreshWork:
    return FreshWork(id=work_id, name="tinsmith/nano", spec=AdapterSpec(rank=2))


def refusal(settled: Future[Outcome]) -> str:
    outcome = settled.result(HANG_S)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, UnavailableError)
    return str(outcome.error)


def test_works_are_refused_where_giving_them_out_fails_and_the_server_is_told() -> None:
    lines: Future[str] = Future()
    dispatcher = Dispatcher(Unsendable(), failed=lines.set_result)
    waiting = [dispatcher.future(fresh(f"{i}"), 1, None) for i in range(3)]
    dispatcher.joined("worker-0", FACTS)
    reason = lines.result(HANG_S)
    assert "TypeError" in reason
    for settled in (*waiting, dispatcher.future(fresh("late"), 1, None)):
        assert reason in refusal(settled)
    dispatcher.close()


def test_a_work_that_cannot_be_settled_harms_no_other() -> None:
    messages: Future[str] = Future()
    dispatcher = Dispatcher(Unsendable(), failed=messages.set_result)

    def broken(outcome: Outcome) -> None:
        del outcome
        raise MemoryError

    dispatcher.submit(fresh("a"), 1, None, broken)
    other = dispatcher.future(fresh("b"), 1, None)
    dispatcher.joined("worker-0", FACTS)
    assert messages.result(HANG_S) in refusal(other)
    dispatcher.close()


def test_workers_are_looked_over_while_others_are_lost() -> None:
    cluster: Any = SimpleNamespace(ended=lambda: None)
    workers = RayWorkers(cluster=cluster, settings=cast(Any, None), wanted=2, threads=1, gone=lambda _: None)
    started = cast("dict[str, Any]", workers._started)
    started.update({"worker-0": Losing(started), "worker-1": Losing(started)})
    workers._failed = STARTS
    workers._tell_if_none("they were lost")
    assert workers.over is not None
    assert "they were lost" in workers.over
    workers.dispatcher.close()
