"""Bytes and seconds of a reinforcement-learning step on N workers and one server, in closed form.

No worker is lost or slow here; see `simulation.py` for those. A step samples all groups, computes their gradients,
steps the optimizer and hands the adapter to every worker, one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tinsmith.engine.cluster.scaling.token_costs import Times

ROW_BYTES = 16
"""Bytes of a datum's row on its way to a worker: token, target, log-probability, advantage."""
TOKEN_BYTES = 4
"""Bytes of a prompt token on its way to a worker."""
NEW_TOKEN_BYTES = 8
"""Bytes of a drawn token on its way back: id and log-probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Work of one step: groups of answers with log-normal lengths up to the longest."""

    groups: int
    samples: int
    """Answers per group."""
    prompt: int
    """Tokens of the prompt that a group shares."""
    median: int
    """Median length of an answer in tokens."""
    spread: float
    """Standard deviation of the logarithm of the length."""
    longest: int
    at_once: int
    """Groups that a worker decodes concurrently."""
    blocks: int = 16
    """Least gradient works per worker: fewer mean fewer bytes, more are shared out more evenly."""

    def block(self, workers: int) -> int:
        """Units (groups) per gradient work: a power of two, so that it is a node of the tree of sums."""
        return 1 << max(0, math.floor(math.log2(max(1, self.groups / (self.blocks * workers)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network of the server and its workers; each has one full-duplex line of this bandwidth."""

    bandwidth: float
    """Bytes per second."""
    latency: float = 0.0005
    """Seconds per message."""
    relayed: bool = True
    """True if workers relay an adapter, so that a broadcast takes log N transfers instead of N."""

    def broadcast(self, size: int, workers: int) -> float:
        """Seconds until every worker has received this many bytes from the server."""
        times = math.ceil(math.log2(workers + 1)) if self.relayed else workers
        return times * (size / self.bandwidth + (self.latency if self.relayed else 0.0))


class Limit(StrEnum):
    """Bottleneck of a step."""

    COMPUTE = "computing"
    ANSWER = "the longest answer"
    RETURN = "gradients to the server"
    JOIN = "joining gradients"
    OPTIMIZER = "the optimizer"
    BROADCAST = "the adapter to the workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """Costs of one step."""

    sampling: float
    """Seconds of sampling; the next fields are seconds too."""
    gradients: float
    optimizer: float
    broadcast: float
    ideal: float
    """Seconds that one worker needs for the whole step, divided by the number of workers."""
    waits: dict[Limit, float] = field(default_factory=dict[Limit, float])
    """Seconds of every part on its own; parts overlap."""
    adapter_bytes: int
    """Adapter bytes sent to all workers."""
    gradient_bytes: int
    """Gradient bytes received from all workers."""
    token_bytes: int
    """Token bytes in both directions."""

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.sampling + self.gradients + self.optimizer + self.broadcast

    @property
    def efficiency(self) -> float:
        """Throughput as a share of N times one worker's."""
        return self.ideal / self.seconds

    @property
    def limit(self) -> Limit:
        """Part with the longest wait: the first to speed up."""
        return max(self.waits, key=lambda each: self.waits[each])


def step_costs(times: Times, workload: Workload, network: Network, workers: int) -> StepCosts:
    """Return the costs of a step on this many equally fast workers."""
    mean, deviation = moments(workload, 1)
    answers = workload.groups * workload.samples
    rows = workload.groups * workload.prompt + answers * mean
    # Sampling: a worker's share, its decoding steps, and how far the unluckiest worker is behind the others.
    share = workload.groups / workers
    here = min(math.ceil(share), workload.at_once)
    groups = max(share, here)
    group = workload.prompt * times.prompt_token + workload.samples * mean * times.new_token
    unluckiest = deviation * math.sqrt(workload.samples * 2 * math.log(min(workers, workload.groups)))
    uneven = unluckiest * math.sqrt(here)
    computed = groups * group + uneven * times.new_token
    steps = (groups / here - 1) * moments(workload, workload.samples)[0]
    last = moments(workload, workload.samples * here * min(workers, workload.groups))[0]
    stepping = (steps + last) * times.decode_step
    # Gradients: the works of the worker that has one more than others; what comes back queues at the server.
    # Of several works the larger ones go first, so that they come to about the same for everybody.
    block = workload.block(workers)
    works = math.ceil(workload.groups / block)
    each = math.ceil(works / workers)
    most = each * rows / works + unluckiest * math.sqrt(block) / each**2
    computing = most * times.gradient_row
    way = times.adapter_bytes / network.bandwidth
    returning, joining = works * way, works * times.join
    gradients = max(computing, returning, joining) + way + times.join + 2 * network.latency
    alone = max(1.0, workload.groups / workload.at_once)
    single = alone * moments(workload, workload.samples)[0] * times.decode_step
    broadcast = network.broadcast(times.adapter_bytes, workers)
    return StepCosts(
        sampling=computed + stepping + 2 * network.latency,
        gradients=gradients,
        optimizer=times.optimizer,
        broadcast=broadcast,
        ideal=(workload.groups * group + single + rows * times.gradient_row) / workers,
        waits={
            Limit.COMPUTE: computed + steps * times.decode_step + computing,
            Limit.ANSWER: last * times.decode_step,
            Limit.RETURN: returning,
            Limit.JOIN: joining,
            Limit.OPTIMIZER: times.optimizer,
            Limit.BROADCAST: broadcast,
        },
        adapter_bytes=workers * times.adapter_bytes,
        gradient_bytes=works * times.adapter_bytes,
        token_bytes=round(
            workload.groups * workload.prompt * TOKEN_BYTES + answers * mean * NEW_TOKEN_BYTES + rows * ROW_BYTES
        ),
    )


def best_blocks(times: Times, workload: Workload, network: Network, workers: int) -> Workload:
    """Return the workload with the number of gradient works per worker that makes its step shortest."""
    return min(
        (replace(workload, blocks=blocks) for blocks in (16, 8, 4, 2, 1)),
        key=lambda each: step_costs(times, each, network, workers).seconds,
    )


def moments(workload: Workload, answers: int) -> tuple[float, float]:
    """Mean and standard deviation of the longest of `n` answers.

    Sums of P(length > t) and of (2 t + 1) P(length > t) over t.
    """
    mean = square = 0.0
    for t in range(workload.longest):
        z = math.log((t + 0.5) / workload.median) / (workload.spread * math.sqrt(2))
        above = 1 - (0.5 * (1 + math.erf(z))) ** answers
        mean += above
        square += (2 * t + 1) * above
    return mean, math.sqrt(max(0.0, square - mean**2))
