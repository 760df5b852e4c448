"""Memory of workers: weights that are let go of, results of their own, and what is freed between."""

import gc
import pickle
import queue
import subprocess
import sys

import numpy as np
import pytest
from course import NAME, course, datums_of, finish
from in_process import Threads, cluster_of
from numpy.typing import NDArray

from tinsmith.engine.cluster.held_weights import HeldWeights
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import (
    Computed,
    Fresh,
    Outcome,
    Refused,
    Sampled,
    SampleWork,
    Shipped,
    WeightsId,
    own_arrays,
)
from tinsmith.engine.engine import freeze
from tinsmith.models.routes import RouteSums
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, DatumOutput, LossName
from tinsmith.types.sampling import SampleRequest, SamplingParams

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
    """Return true if a worker must be brought these weights to sample."""
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
    finish(engine, NAME, [group])
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


def floats() -> NDArray[np.float32]:
    return np.ones(4, np.float32)


def counts(*shape: int) -> NDArray[np.int64]:
    return np.ones(shape, np.int64)


def found() -> dict[int, tuple[DatumOutput, LossValue]]:
    words = DatumOutput(logprobs=floats(), routes=counts(3))
    return {3: (words, LossValue(total=2.0, grad=floats(), metrics={"loss": 2.0}))}


@pytest.mark.parametrize(
    "outcome",
    [
        Computed(
            found=found(), grads=[floats(), floats()], routes=RouteSums(rows=2, loads=counts(2, 3), entropies=counts(2))
        ),
        Computed(found=found(), grads=None),
        Fresh(tensors={"lora_A": floats()}),
    ],
    ids=["gradients", "forward", "fresh"],
)
def test_nothing_is_lent(outcome: Outcome) -> None:
    lent: list[memoryview] = []

    def lend(buffer: pickle.PickleBuffer) -> bool:
        lent.append(memoryview(bytes(buffer.raw())))
        return False

    sent = pickle.dumps(outcome, protocol=5, buffer_callback=lend)
    received = pickle.loads(sent, buffers=lent)
    owned = own_arrays(received)
    again: list[pickle.PickleBuffer] = []
    assert pickle.dumps(owned, protocol=5, buffer_callback=again.append)
    places = [np.frombuffer(each.raw(), np.uint8) for each in again]
    of_sender = [np.frombuffer(each, np.uint8) for each in lent]
    assert len(places) == len(of_sender) > 0
    assert [one.tobytes() for one in places] == [other.tobytes() for other in of_sender]
    assert not any(np.shares_memory(one, other) for one in places for other in of_sender)


GROWTH = """
from pathlib import Path
from tinsmith.engine.cluster.freed_memory import give_back_freed_memory, keep_giving_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

can = keep_giving_back()
before = resident()
blocks = [b"1" * (100 << 10) for _ in range(400)]
del blocks[:-1]
give_back_freed_memory()
print(resident() - before if can else 0)
"""


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_freed_between_what_is_held_goes_back() -> None:
    lines = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(lines.stdout) < 10 << 20


HEAPS = """
import ctypes, os, tempfile, threading
from tinsmith.engine.cluster.freed_memory import share_one_heap

def heaps():
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as told:
        stream = ctypes.c_void_p(library.fopen(told.name.encode(), b"w"))
        library.malloc_info(0, stream)
        library.fclose(stream)
        return told.read().count(b"<heap nr=")

can, before, at_once = share_one_heap(), heaps(), threading.Barrier(8)

def allocate():
    blocks = [b"1" * 1000 for _ in range(100)]
    at_once.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(heaps() - before if can else 0)
"""


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_that_come_later_get_no_heap_of_their_own() -> None:
    messages = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True)
    assert int(messages.stdout) == 0


PAGES = """
from pathlib import Path
from tinsmith.engine.cluster.freed_memory import take_small_pages

can = take_small_pages()
told = Path("/proc/self/status").read_text().splitlines()
print([line.split()[1] for line in told if line.startswith("THP_enabled:")] if can else ["0"])
"""


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_shard_takes_no_large_pages() -> None:
    printed = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "['0']"
