"""Weights that the server has let go of are told to the workers that were sent them, and no others are."""

import gc
import queue

import numpy as np
from course import NAME, course, datums_of
from in_process import Threads, cluster_of, hosts

from tinsmith.engine.cluster.held_weights import HeldWeights
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import Outcome, Refused, Sampled, SampleWork, Shipped, WeightsId
from tinsmith.engine.engine import freeze
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.sampling import SampleRequest, SamplingParams

__all__ = ["hosts"]

ONE = WeightsId(name=NAME, quantised=False, spec=AdapterSpec(), sha256="1")


def test_each_copy_is_noted_once_when_it_is_gone() -> None:
    noted: list[WeightsId] = []
    held = HeldWeights(noted.append)
    own, snapshot = Shipped(id=ONE, tensors={}), Shipped(id=ONE, tensors={})
    held.hold(own)
    held.hold(own)
    held.hold(snapshot)
    assert noted == []
    del own
    gc.collect()
    assert noted == [ONE]
    del snapshot
    gc.collect()
    assert noted == [ONE, ONE]


def test_only_the_last_copy_lets_workers_forget() -> None:
    noted: list[WeightsId] = []
    held = HeldWeights(noted.append)
    own, snapshot = Shipped(id=ONE, tensors={}), Shipped(id=ONE, tensors={})
    held.hold(own)
    held.hold(snapshot)
    for worker in ("worker-1", "worker-0", "worker-1"):
        held.sent(ONE, worker)
    assert held.let_go(ONE) == ()
    assert held.let_go(ONE) == ("worker-0", "worker-1")
    again = Shipped(id=ONE, tensors={})
    held.hold(again)
    assert held.let_go(ONE) == (), "they were sent to nobody since"
    assert noted == []


def _needs_weights(host: Host, weights: WeightsId) -> bool:
    """Whether a worker must be brought these weights to sample from them."""
    request = SampleRequest(prompt=np.array([5], np.int32), params=SamplingParams(seed=1, max_tokens=1))
    answers: list[Outcome] = []
    host.sample(SampleWork(id="sample-x", weights=weights, request=request), None, answers.append)
    sampler = host.engine.sampler(NAME)
    while sampler.busy:
        for group in sampler.step():
            host.finished(group)
    assert isinstance(answers[0], Refused | Sampled)
    return isinstance(answers[0], Refused)


class _Watched(Threads):
    """Tells which weights went out."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: queue.SimpleQueue[WeightsId] = queue.SimpleQueue()
        self.forgotten: queue.SimpleQueue[tuple[str, WeightsId]] = queue.SimpleQueue()

    def send(self, worker: str, work: object, weights: Shipped | None) -> None:
        super().send(worker, work, weights)  # type: ignore[arg-type]
        if weights is not None:
            self.weights.put(weights.id)

    def forget(self, worker: str, weights: WeightsId) -> None:
        super().forget(worker, weights)
        self.forgotten.put((worker, weights))


def test_a_worker_has_what_the_server_has(hosts: list[Host]) -> None:
    transport = _Watched()
    engine = cluster_of(transport, hosts[:1])
    session = engine.create_session(NAME, AdapterSpec(rank=2, seed=11))
    session.forward_backward(datums_of(1), LossName.CROSS_ENTROPY)
    first = transport.weights.get(timeout=60)
    policy = freeze(session, engine.parts.policy_of)
    params = SamplingParams(seed=1, max_tokens=2)
    request = SampleRequest(prompt=np.arange(5, 9, dtype=np.int32), params=params)
    group = engine.sampler(NAME).submit(request, policy)
    while not group.ended:
        engine.sampler(NAME).step()
    session.optim_step(AdamParams(learning_rate=1e-2))
    session.forward(datums_of(1), LossName.CROSS_ENTROPY)  # other weights
    assert transport.forgotten.empty(), "the snapshot has the first ones"
    del policy, group
    gc.collect()
    assert transport.forgotten.get(timeout=60) == ("worker-0", first)
    del session
    gc.collect()
    name, second = transport.forgotten.get(timeout=60)
    assert (name, second != first) == ("worker-0", True)
    engine.give_back()
    transport.close()
    assert transport.tidied == ["worker-0"]
    assert _needs_weights(hosts[0], first)
    assert _needs_weights(hosts[0], second)


def test_weights_that_come_again_are_sent_again(hosts: list[Host]) -> None:
    transport = _Watched()
    engine = cluster_of(transport, hosts[:2])
    shown = course(engine, AdapterKind.LORA)
    gc.collect()
    assert not transport.forgotten.empty()
    assert course(engine, AdapterKind.LORA) == shown
    transport.close()
