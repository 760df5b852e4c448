"""A process of a sweep: for each cell completions of one prompt under its load, and a few steps of training.

It reads a job on standard input and answers a line for each cell. Threads and instruction set are chosen before
anything is computed. The base is what was named, with a random adapter that is not zero; both are drawn anew for every
cell. There is no engine around it and no certificate: what a cell shows is measured, not promised.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch

from tinsmith.engine.cache import SamplerLimits, pages_for
from tinsmith.engine.checkpoints import load_session, read, save
from tinsmith.engine.checks.deviations import merged, parts_of
from tinsmith.engine.parts import Parts
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Group, Policy
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import OpenedBase, open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.slots import load, values
from tinsmith.ops.extension import configure
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.select import select
from tinsmith.ops.stock import Bf16Products
from tinsmith.studies.bits.cells import TEMPERATURES, Cell, Completion, Job, Outcome, Size
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.datum import AdamParams, Datum, IntArray, LossName
from tinsmith.types.errors import ConfigError, TinsmithError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams
from tinsmith.types.seeds import derive, random_bits, uniform

_B_BOUND: Final = 0.02  # Of the adapter's B, so that the adapter changes every log-probability.
_ROLLOUT: Final = 16  # Tokens of a training rollout.
_TURN: Final = 1 / 16  # Chance at a step that other limits are drawn.
_NEIGHBOUR: Final = 24  # Most tokens of a neighbour's prompt, and of what is sampled for it.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    base: OpenedBase
    cell: Cell
    size: Size
    parts: Parts
    kernels: Kernels

    def decoder(self) -> Decoder:
        weights = self.base.weights
        if self.cell.dtype == "bf16_weights":
            weights = {name: tensor.bfloat16().float() for name, tensor in weights.items()}
        return build_decoder(self.base.config, weights, self.kernels)

    def session(self) -> TrainingSession:
        spec = AdapterSpec(rank=self.size.rank, seed=derive(0, "sweep", "adapter"))
        adapter = create_adapter(self.decoder(), spec)
        drawn = {
            slot.name: torch.from_numpy(uniform(derive(0, "sweep", slot.name), tuple(slot.value.shape), _B_BOUND))
            if ".lora_B" in slot.name
            else slot.value
            for slot in adapter.slots
        }
        load(adapter.slots, drawn, source="the sweep's adapter")
        adapter.changed()
        return self.traced(TrainingSession(adapter, order=self.parts.order))

    def traced(self, session: TrainingSession) -> TrainingSession:
        session.micro_batches = MicroBatches(units=self.cell.micro_batch or 1 << 30)
        session.trace = Trace(self.kernels)
        return session

    def served(self, adapter: Adapter, requests: Sequence[SampleRequest], *seed: str | int) -> list[SampleResult]:
        word = self.cell.cache
        pages = {"default": None, "least": pages_for(self.base.config.max_positions) + 1}
        cache_pages = pages[word] if word in pages else int(word)
        limits = SamplerLimits(cache_pages=cache_pages, prefill_tokens=self.cell.prefill)
        sampler = Sampler(self.base.config, self.parts.sampling(self.kernels), limits=limits)
        policy = merged(adapter) if self.cell.adapter == "merged" else self.parts.policy_of(adapter)
        return serve(sampler, policy, requests, self.cell, seed=derive(0, "sweep", "load", *seed))


def compute(number: int, cell: Cell, base: OpenedBase, size: Size, folder: Path) -> Outcome:
    """Compute one cell in this process, whose threads and instruction set are chosen already."""
    began = time.perf_counter()
    if cell.resume > size.steps:
        raise ConfigError("there is no such step", field="resume", value=cell.resume)
    kernels: Kernels = select(cell.arithmetic, cell.device)
    if cell.dtype == "bf16":
        kernels = Bf16Products(kernels.device)
    bench = _Bench(base=base, cell=cell, size=size, parts=parts_of(cell.deviation), kernels=kernels)
    session = bench.session()
    completions = tuple(_completions(bench, session, each) for each in TEMPERATURES)
    session, steps = _trained(bench, session, folder / f"checkpoint-{number}")
    weights = {name: tensor.detach().cpu().numpy() for name, tensor in values(session.adapter.slots).items()}
    file = folder / f"weights-{number}.npz"
    with file.open("wb") as out:
        np.savez(out, **weights)  # pyright: ignore[reportArgumentType]
    device = torch.cuda.get_device_name(kernels.device) if kernels.device.type == "cuda" else "cpu"
    return Outcome(
        number=number,
        completions=completions,
        steps=tuple((one.gradient, one.weights) for one in steps),
        weights_sha256=tensors_sha256(weights),
        weights_file=str(file),
        seconds=time.perf_counter() - began,
        machine={"torch": str(torch.__version__), "device": device},
    )


def _completions(bench: _Bench, session: TrainingSession, temperature: float) -> tuple[Completion, ...]:
    size, before = bench.size, bench.size.prompt - 1
    prompt = random_tokens(derive(0, "sweep", "prompt"), size.prompt, bench.base.config.vocab_size)
    params = SamplingParams(
        seed=derive(bench.cell.seed, "sweep", "completion"), max_tokens=size.tokens, temperature=temperature, stop=()
    )
    request = SampleRequest(prompt=prompt, params=params, topk_logprobs=1)
    results = bench.served(session.adapter, [request] * size.completions, int(temperature))
    sequences = [result.sequences[0] for result in results]
    texts = [np.concatenate([prompt, one.tokens]) for one in sequences]
    data = [Datum(tokens=text[:-1], inputs={"target_tokens": text[1:]}) for text in texts]
    completions: list[Completion] = []
    for one, output in zip(sequences, session.forward(data, LossName.CROSS_ENTROPY).outputs, strict=True):
        assert one.top is not None
        completions.append(
            Completion(
                tokens=tuple(one.tokens.tolist()),
                logprobs=tuple(one.logprobs.tolist()),
                scored=tuple(output.logprobs[before:].tolist()),
                top_tokens=tuple(one.top.tokens[:, 0].tolist()),
                top_logprobs=tuple(one.top.logprobs[:, 0].tolist()),
                routes=() if one.routes is None else tuple(one.routes[before:].tolist()),
                routed=() if output.routes is None else tuple(output.routes[before:].tolist()),
            )
        )
    return tuple(completions)


def _trained(bench: _Bench, session: TrainingSession, checkpoint: Path) -> tuple[TrainingSession, Sequence[StepTrace]]:
    """A few steps of RL: rollouts from the weights as they are, fixed rewards, importance sampling."""
    steps: list[StepTrace] = []
    for step in range(bench.size.steps):
        session.forward_backward(_rollouts(bench, session, step), LossName.IMPORTANCE_SAMPLING)
        session.optim_step(AdamParams(learning_rate=1e-3))
        assert session.trace is not None
        steps.append(session.trace.steps[-1])
        if step + 1 == bench.cell.resume:
            identity = bench.base.identity
            save(session, checkpoint, base=identity, with_optimizer=True, overwrite=True)
            loaded = load_session(bench.decoder(), read(checkpoint), base=identity, with_optimizer=True)
            session = bench.traced(loaded)
    return session, steps


def _rollouts(bench: _Bench, session: TrainingSession, step: int) -> list[Datum]:
    vocab, root = bench.base.config.vocab_size, derive(bench.cell.seed, "sweep", "rollout", step)
    requests = [
        SampleRequest(
            prompt=random_tokens(derive(0, "sweep", "training", step, i), 10 + 3 * i, vocab),
            params=SamplingParams(seed=derive(root, i), max_tokens=_ROLLOUT, stop=()),
            num_samples=2,
        )
        for i in range(bench.size.prompts)
    ]
    found: list[Datum] = []
    results = bench.served(session.adapter.snapshot(), requests, "training", step)
    for request, result in zip(requests, results, strict=True):
        for sample, one in enumerate(result.sequences):
            whole = np.concatenate([request.prompt, one.tokens])
            found.append(Datum.sampled(whole, one.logprobs, 1.0 - 2.0 * sample))
    return found


def serve(
    sampler: Sampler, policy: Policy, requests: Sequence[SampleRequest], load: Cell, *, seed: int
) -> list[SampleResult]:
    """Serve requests under a load that comes and goes, and return their results in the order given.

    Who arrives when is drawn from the seed, so that a load can be had again; none of it may change an answer. How many
    are let in rises and falls: now and then both limits are drawn anew, up to `batch` and `neighbours`, few as often as
    many. A place that is free is taken with probability one half at every step: by the next request that waits, or by a
    neighbour of random length.
    """
    rng = np.random.default_rng(seed)
    waiting = list(range(len(requests)))
    _reorder(waiting, load, rng)
    groups: dict[int, Group] = {}
    others: list[Group] = []
    drawn, most = 0, (0, 0)
    while waiting or any(not group.ended for group in groups.values()):
        others = [group for group in others if not group.ended]
        if most == (0, 0) or rng.random() < _TURN:
            most = (_few_or_many(rng, load.batch), _few_or_many(rng, load.neighbours + 1) - 1)
        places = most[0] - sum(not group.ended for group in groups.values())
        coming = [True] * min(int(rng.binomial(max(places, 0), 0.5)), len(waiting))
        coming += [False] * int(rng.binomial(max(most[1] - len(others), 0), 0.5))
        _reorder(coming, load, rng)
        for ours in coming:
            if ours:
                index = waiting.pop(0)
                groups[index] = sampler.submit(requests[index], policy)
            else:
                others.append(sampler.submit(_neighbour(rng, drawn, sampler.config.vocab_size), policy))
                drawn += 1
        sampler.step()
    for group in others:
        sampler.cancel(group)
    results: list[SampleResult] = []
    for _, group in sorted(groups.items()):
        if group.failure is not None:
            raise group.failure
        assert group.result is not None
        results.append(group.result)
    return results


def random_tokens(seed: int, count: int, vocab_size: int) -> IntArray:
    """Draw token ids, the same on every machine."""
    return (random_bits(seed, count) % np.uint64(vocab_size)).astype(np.int32)


def _few_or_many(rng: np.random.Generator, most: int) -> int:
    """Draw from 1 to `most`, each power of two as likely as another."""
    return min(most, int(2.0 ** (rng.random() * math.log2(most + 1))))


def _reorder(coming: list[int] | list[bool], load: Cell, rng: np.random.Generator) -> None:
    if load.order == "reversed":
        coming.reverse()
    if load.order == "shuffled":
        rng.shuffle(coming)


def _neighbour(rng: np.random.Generator, number: int, vocab_size: int) -> SampleRequest:
    prompt, tokens = (int(length) for length in rng.integers(1, _NEIGHBOUR + 1, 2))
    seed = derive(0, "sweep", "neighbour", number)
    params = SamplingParams(seed=seed, max_tokens=tokens, stop=())
    return SampleRequest(prompt=random_tokens(seed, prompt, vocab_size), params=params)


def main() -> None:
    """Serve one job."""
    model, size, cells, folder = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    base = open_base(model)
    for number, cell in cells:
        try:
            if cell.arithmetic is Arithmetic.FAST:
                torch.set_num_threads(cell.threads)
            else:
                configure(threads=cell.threads, isa=None if cell.isa == "best" else Isa(cell.isa))
                torch.set_num_threads(1)
                torch.set_flush_denormal(False)
            outcome = compute(number, cell, base, size, Path(folder))
        except TinsmithError as error:
            outcome = Outcome(number=number, unavailable=str(error).splitlines()[0])
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
