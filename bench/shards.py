"""SmolLM2 spread over two and three worker processes: the bits of one process, and what each process holds.

`tinsmith base fetch smollm2` first. Each worker is a process that imports the same, then loads its stage; the last one
drives, trains a session two steps and samples. Then the same under a limit of the operating system on a worker's memory
(RLIMIT_DATA) that the whole base does not fit.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.cluster.freed_memory import (
    give_back_freed_memory,
    keep_giving_back,
    share_one_heap,
    take_small_pages,
)
from tinsmith.engine.cluster.sharded import ShardedDecoder, ShardedPool, sharded
from tinsmith.engine.cluster.stages import Stage
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import stored_base
from tinsmith.models.build import build_decoder
from tinsmith.models.slots import values
from tinsmith.models.stages import cut_layers, held_bytes
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SamplingParams

NAME = "tinsmith/smollm2"
SLACK, RANK = 1.15, 4
MICRO = MicroBatches(rows=32)
LIMITS = SamplerLimits(cache_pages=513, max_samples=8, prefill_tokens=32)
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Job:
    """Role of one worker."""

    index: int
    shards: int
    kind: AdapterKind
    limit: int | None
    """Bytes that a worker may have beside what an empty one has; None: as many as there are."""
    stages: tuple[Connection, ...] = ()
    """Of the driver: the earlier stages."""
    asked: Connection | None = None
    """Of an earlier stage: where its driver asks."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes above those of the process when it had only imported."""

    loaded: int
    """At the peak, once the stage was loaded."""
    after: int
    """At the end, with the adapter in training, its optimizer and the cache, but no activations."""
    peak: int
    """Of everything, with activations and what a product decodes."""
    cpu: float
    """Seconds for what was asked of the loaded stage."""

    @property
    def without_activations(self) -> int:
        """Bytes to be as few as a share's."""
        return max(self.loaded, self.after)


class Remote:
    """A stage in another process, asked over a pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self._connection.send((name, given))
            return self._connection.recv()

        return call


def status(key: str) -> int:
    """A figure of this process in bytes, as /proc tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) << 10


def worker(job: Job, told: Connection) -> None:
    """Load a stage; answer its driver, or be it. Tells what it came to, or that there was no memory."""
    configure(threads=1)
    share_one_heap()  # these three as a worker's processes do
    keep_giving_back()
    take_small_pages()
    warm_up()
    give_back_freed_memory()
    empty = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    if job.limit is not None:
        most = status("VmData") + job.limit
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        told.send(carried_out(job, empty))
    except MemoryError:
        told.send(None)
    except RuntimeError as error:  # what torch says in the place of MemoryError
        if "alloc" not in str(error):
            raise
        told.send(None)


def warm_up() -> None:
    """Compute a little on nano, so that what is imported or paged in at first use counts for an empty worker."""
    nano = stored_base("tinsmith/nano")
    for quantised in (False, True):
        whole = build_decoder(nano.config, nano.weights, NativeKernels(), quantised=quantised)
        decoder = sharded(whole, nano.config, (), (range(nano.config.num_layers),))
        driven(decoder, AdapterKind.QDORA if quantised else AdapterKind.LORA)
    stored_base(NAME)


def carried_out(job: Job, empty: int) -> tuple[Memory, list[str]]:
    """Return what the worker took, and of a driver its results' hashes."""
    base = stored_base(NAME)
    cut = cut_layers(base.config, job.shards, quantised=job.kind.quantised)
    decoder = build_decoder(
        base.config, base.weights, NativeKernels(), quantised=job.kind.quantised, layers=cut[job.index]
    )
    config = base.config
    del base
    loaded, begun = status("VmHWM") - empty, time.process_time()
    found: list[str] = []
    if job.asked is None:
        remote = [Remote(each) for each in job.stages]
        try:
            found = driven(sharded(decoder, config, remote, cut), job.kind)
        finally:
            for connection in job.stages:
                connection.send((ENDED, ()))
    else:
        stage = Stage(decoder)
        while (asked := job.asked.recv())[0] != ENDED:
            job.asked.send(getattr(stage, asked[0])(*asked[1]))
            del asked
    cpu = time.process_time() - begun
    give_back_freed_memory()
    return Memory(loaded, status("VmRSS") - empty, status("VmHWM") - empty, cpu), found


def driven(decoder: ShardedDecoder, kind: AdapterKind) -> list[str]:
    """Two steps and some samples: hashes of gradients, weights, tokens with their log-probabilities."""
    spec = AdapterSpec(kind=kind, rank=RANK, seed=1, train_unembed=False)
    session = TrainingSession(create_adapter(decoder, spec), micro_batches=MICRO)
    data = conversations(decoder.config.vocab_size)
    found: list[str] = []
    for _ in range(2):
        said = session.forward_backward(data, LossName.CROSS_ENTROPY)
        found.append(digest({str(i): each.logprobs for i, each in enumerate(said.outputs)}))
        found.append(digest({n: t.numpy() for n, t in session.optimizer.gradient().items()}))
        session.optim_step(AdamParams(learning_rate=1e-3))
    found.append(digest({n: t.numpy() for n, t in values(session.adapter.slots).items()}))
    sampler = Sampler(decoder.config, decoder.kernels, limits=LIMITS, pool=ShardedPool(decoder, LIMITS))
    params = SamplingParams(seed=7, max_tokens=8, stop=())
    requests = [SampleRequest(prompt=datum.tokens, params=params, num_samples=2) for datum in data[:3]]
    policies = [Policy(decoder, low) for low in (session.adapter.low, {}, session.adapter.low)]
    for result in sampler.sample(requests, policies):
        for sequence in result.sequences:
            found.append(digest({"t": sequence.tokens, "p": sequence.logprobs}))
    return found


def conversations(vocab: int) -> list[Datum]:
    """Two trees of three datums each, 24 rows or fewer."""
    rng = np.random.default_rng(0)
    made: list[Datum] = []
    for _ in range(2):
        stem = rng.integers(3, vocab, 10)
        for length in (3, 5, 7):
            tokens = np.concatenate([stem, rng.integers(3, vocab, length)]).astype(np.int32)
            made.append(Datum(tokens=tokens[:-1], inputs={"target_tokens": tokens[1:]}))
    return made


def digest(tensors: dict[str, Any]) -> str:
    return tensors_sha256(tensors)


def run(kind: AdapterKind, shards: int, limit: int | None = None) -> list[Any]:
    """Carry it out over so many processes; what each of them told, the driver last."""
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(shards - 1)]
    jobs = [Job(i, shards, kind, limit, asked=ours) for i, (_, ours) in enumerate(pipes)]
    jobs.append(Job(shards - 1, shards, kind, limit, stages=tuple(theirs for theirs, _ in pipes)))
    started = []
    for job in jobs:
        here, there = context.Pipe()
        process = context.Process(target=worker, args=(job, there))
        process.start()
        there.close()
        started.append((process, here))
    for theirs, ours in pipes:
        theirs.close()
        ours.close()
    told = [here.recv() for _, here in started]
    for process, _ in started:
        process.join()
    return told


def asked_of(kind: AdapterKind, shards: int, copies: int) -> int:
    """Most bytes of a worker: base / M + two layers + so many copies of the adapter, and 15 %.

    A base is its published tensors as fp32; as NF4, what a whole decoder holds, with the copy that a tied head is.
    """
    config = stored_base(NAME).config
    quantised = kind.quantised
    base = held_bytes(config, range(config.num_layers), quantised=quantised)
    if config.tied and not quantised:  # as fp32 a base is its own bytes, without its head's copy
        base -= 4 * config.vocab_size * config.hidden_size
    layer = held_bytes(config, range(1, 2), quantised=quantised)
    q, kv, hidden, inner = (config.q_size, config.kv_size, config.hidden_size, config.intermediate_size)
    weights = RANK * (6 * hidden + 2 * q + 2 * kv + 3 * inner)
    weights += (q + 2 * kv + 2 * hidden + 2 * inner) if kind.decomposed else 0
    adapter = copies * 4 * weights * config.num_layers
    return int(SLACK * (base / shards + 2 * layer + adapter))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-mb", type=int, default=480, help="beside an empty worker")
    limit = parser.parse_args().limit_mb << 20
    for kind in (AdapterKind.QDORA, AdapterKind.LORA):
        ((alone, expected),) = run(kind, 1)
        print(f"{kind}, one process: {told(alone)}", flush=True)
        for shards in (2, 3):
            results = run(kind, shards)
            same = results[-1][1] == expected
            print(f"{kind}, {shards} shards: bits {'equal' if same else 'DIFFER'} (goal equal)")
            trained, bare = asked_of(kind, shards, copies=4), asked_of(kind, shards, copies=1)
            for i, (memory, _) in enumerate(results):
                print(
                    f"  worker {i}: {told(memory)}\n"
                    f"    without activations {verdict(memory.without_activations, trained)}, "
                    f"with the adapter's gradient and moments in it\n"
                    f"    loading {verdict(memory.loaded, bare)}, with the adapter's weights alone\n"
                    f"    with activations {verdict(memory.peak, bare)}, with the same",
                    flush=True,
                )
    (whole,) = run(AdapterKind.LORA, 1, limit)
    over = run(AdapterKind.LORA, 3, limit)
    trains = None not in over and over[-1][1] == expected
    print(
        f"limit of {limit >> 20} MB (RLIMIT_DATA): one process "
        f"{'has no memory' if whole is None else 'trains'}, three shards "
        f"{'train, bits equal' if trains else 'do NOT train'} (goal: no memory; equal: "
        f"{'reached' if trains and whole is None else 'NOT reached'})"
    )


def verdict(found: int, most: int) -> str:
    reached = "reached" if found <= most else "NOT reached"
    return f"{found / 1e6:.0f} MB (goal <= {most / 1e6:.0f} MB: {reached})"


def told(memory: Memory) -> str:
    return (
        f"{memory.loaded / 1e6:.0f} MB at the peak of loading, {memory.after / 1e6:.0f} after training, "
        f"{memory.peak / 1e6:.0f} at the peak with activations, {memory.cpu:.1f} CPU-s"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
