"""Workers in threads of this process, which can be lost, made slow to answer, or told to die of a work."""

import pickle
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

from tinsmith.engine.cluster.cluster_engine import ClusterEngine
from tinsmith.engine.cluster.dispatch import Dispatcher
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.stage_calls import StageLostError
from tinsmith.engine.cluster.work import GradientWork, Lost, Outcome, SampleWork, Shipped, WeightsId, Work

MODELS = {"tinsmith/nano": "tinsmith/nano"}


class Threads:
    """A transport to hosts in threads; everything is pickled on its way, as between processes."""

    def __init__(self, dies: Callable[[str, Work], bool] = lambda _worker, _work: False) -> None:
        self.dispatcher = Dispatcher(self)
        self.sent: list[tuple[str, str]] = []
        self.tidied: list[str] = []
        self.gather = 1
        """Number of workers that must have been sent a gradient before any computes one, so that no pace decides it."""
        self._computing: set[str] = set()
        self._gathered = threading.Condition()
        self._dies = dies
        self._queues: dict[str, queue.SimpleQueue[tuple[Work | WeightsId, Shipped | None] | None]]
        self._queues = {}
        self._threads: list[threading.Thread] = []
        self._dead: set[str] = set()

    def add(self, name: str, host: Host) -> None:
        """Let a worker join."""
        self._queues[name] = queue.SimpleQueue()
        thread = threading.Thread(target=self._work, args=(name, host), daemon=True)
        thread.start()
        self._threads.append(thread)
        self.dispatcher.joined(name, host.facts())

    def kill(self, name: str) -> None:
        """Lose a worker, whatever it does."""
        self._dead.add(name)
        self.dispatcher.lost(name, "killed", blame=True)

    def send(self, worker: str, work: Work, weights: Shipped | None) -> None:
        """Queue it."""
        self.sent.append((worker, work.id))
        if isinstance(work, GradientWork):
            with self._gathered:
                self._computing.add(worker)
                self._gathered.notify_all()
        self._queues[worker].put(pickle.loads(pickle.dumps((work, weights))))

    def drop(self, worker: str, work_id: str) -> None:
        """Nothing: what is computed in vain harms nobody."""

    def forget(self, worker: str, weights: WeightsId) -> None:
        """Queue it, behind the works that were sent."""
        self._queues[worker].put((weights, None))

    def tidy(self, worker: str) -> None:
        """Note it."""
        self.tidied.append(worker)

    def close(self) -> None:
        """End all threads."""
        for each in self._queues.values():
            each.put(None)
        for thread in self._threads:
            thread.join()
        self.dispatcher.close()

    def _work(self, name: str, host: Host) -> None:
        while (item := self._queues[name].get()) is not None:
            work, weights = item
            if isinstance(work, GradientWork):
                with self._gathered:
                    self._gathered.wait_for(lambda: len(self._computing) >= self.gather)
            if name in self._dead:
                continue
            if isinstance(work, WeightsId):
                host.forget(work)
                continue
            if self._dies(name, work):
                self.kill(name)
                continue

            def fetch(weights: Shipped | None = weights) -> dict[str, object]:
                return dict(weights.tensors)

            answers: list[Outcome] = []
            if isinstance(work, SampleWork):
                host.sample(work, fetch, answers.append)
                while not answers:
                    try:
                        for sampler in host.engine.samplers_by_name.values():
                            for group in sampler.step():
                                host.finished(group)
                    except StageLostError as error:
                        host.abandon(error)
            else:
                answers.append(host.compute(work, fetch))
            if isinstance(answers[0], Lost):
                self.kill(name)
            if name not in self._dead:
                outcome = pickle.loads(pickle.dumps(answers[0]))
                self.dispatcher.answered(name, work.id, outcome)


def cluster_of(
    transport: Threads, hosts: Sequence[Host], shards: int = 1, *, models: Mapping[str, str] | None = None
) -> ClusterEngine:
    """A server's engine with these workers."""
    for i, host in enumerate(hosts):
        transport.add(f"worker-{i}", host)
    return ClusterEngine(models or MODELS, hosts[0].facts(), transport.dispatcher, shards=shards)
