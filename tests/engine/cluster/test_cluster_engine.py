"""One answer, whoever computes it: an engine with workers has the bits of one process."""

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from course import NAME, course, datums_of
from in_process import Threads, cluster_of

from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import GradientWork, SampleWork, Work
from tinsmith.engine.engine import Engine
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import InputError, LostError
from tinsmith.types.fingerprints import tensors_sha256

Expected = Callable[..., list[object]]


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_two_workers_compute_what_one_process_does(
    kind: AdapterKind, expected: Expected, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:2])
    assert course(engine, kind) == expected(kind)
    assert {worker for worker, _ in transport.sent} == {"worker-0", "worker-1"}


def test_a_session_that_is_over_leaves_no_weights_behind(hosts: list[Host], transport: Threads) -> None:
    engine = cluster_of(transport, hosts[:1])
    session = engine.create_session(NAME, AdapterSpec(kind=AdapterKind.FULL))
    session.forward_backward(datums_of(1), LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams(learning_rate=1e-3))
    session.forward(datums_of(2), LossName.CROSS_ENTROPY)
    tensor = weakref.ref(session.adapter.weights()[0].value)
    del session
    gc.collect()
    assert tensor() is None


@pytest.mark.parametrize("count", [1, 4])
def test_any_number_of_workers_computes_the_same(
    count: int, expected: Expected, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:count])
    assert course(engine, AdapterKind.DORA) == expected(AdapterKind.DORA)


@pytest.mark.parametrize("kind", [SampleWork, GradientWork])
def test_a_lost_workers_work_is_done_again(kind: type[Work], expected: Expected, hosts: list[Host]) -> None:
    once = [True]

    def dies(worker: str, work: Work) -> bool:
        if worker == "worker-0" and isinstance(work, kind) and once:
            once.clear()
            return True
        return False

    transport = Threads(dies)
    try:
        engine = cluster_of(transport, hosts[:2])
        assert course(engine, AdapterKind.LORA) == expected(AdapterKind.LORA)
        assert not once
        assert transport.dispatcher.num_retries > 0
    finally:
        transport.close()


def test_a_worker_may_join_late(expected: Expected, hosts: list[Host], transport: Threads) -> None:
    engine = cluster_of(transport, hosts[:1])
    first = course(engine, AdapterKind.LORA)
    transport.add("late", hosts[1])
    assert first == expected(AdapterKind.LORA)
    assert course(engine, AdapterKind.LORA) == first
    assert "late" in {worker for worker, _ in transport.sent}


def test_what_takes_two_workers_down_is_given_up(hosts: list[Host]) -> None:
    transport = Threads(lambda _worker, work: isinstance(work, GradientWork) and _is_poison(work))
    try:
        engine = cluster_of(transport, hosts[:4])
        session = engine.create_session(NAME, AdapterSpec(rank=2))
        with pytest.raises(LostError):
            session.forward_backward([*datums_of(1), _poison()], LossName.CROSS_ENTROPY)
        session.forward_backward(datums_of(1), LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams())
        assert sum(worker.lost is not None for worker in transport.dispatcher.workers) == 2
    finally:
        transport.close()


def test_a_datum_that_cannot_be_computed_is_named_by_its_place(
    alone: Engine, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:2])
    datums = datums_of(4)
    bad = datums[7]
    datums[7] = Datum(tokens=bad.tokens, inputs={**bad.inputs, "weights": np.full(len(bad.tokens), 1e38, np.float32)})
    said: list[str] = []
    for each in (alone, engine):
        session = each.create_session(NAME, AdapterSpec(rank=4, seed=3))
        session.forward_backward(datums_of(5), LossName.CROSS_ENTROPY)
        with pytest.raises(InputError) as caught:
            session.forward_backward(datums, LossName.CROSS_ENTROPY)
        said.append(str(caught.value))
        session.optim_step(AdamParams())
        said.append(tensors_sha256({n: t.numpy() for n, t in values(session.adapter.slots).items()}))
    assert said[:2] == said[2:]


def _poison() -> Datum:
    tokens = np.full(77, 6, np.int32)
    weights = np.ones(77, np.float32)
    return Datum(tokens=tokens, inputs={"target_tokens": tokens, "weights": weights})


def _is_poison(work: GradientWork) -> bool:
    return any(len(datum) == 77 for datum in work.asked.datums)
