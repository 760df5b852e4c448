"""A process of a sweep: for each cell completions of one prompt under its load, and a few steps of training.

It reads a job on standard input and answers a line for each cell. Threads and instruction set are chosen before
anything is computed. The base is what was named, with a random adapter that is not zero; both are drawn anew for every
cell. There is no engine around it and no certificate: what a cell shows is measured, not promised.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import torch

from tinsmith.engine.cache import pages_for
from tinsmith.engine.checkpoints import load_session, read, save
from tinsmith.engine.checks.deviations import merged, parts_of
from tinsmith.engine.parts import Parts
from tinsmith.engine.sampler import Sampler, SamplerLimits
from tinsmith.engine.sequences import Policy
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
from tinsmith.studies.bits.cells import AdapterUse, Cell, Dtype, changed
from tinsmith.studies.bits.load import Load, random_tokens, serve
from tinsmith.studies.bits.values import TEMPERATURES, Completion, Job, Marks, Outcome, Size
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.datum import AdamParams, Datum, DatumOutput, LossName
from tinsmith.types.errors import ConfigError, TinsmithError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampledSequence, SampleRequest, SamplingParams
from tinsmith.types.seeds import derive, uniform

_B_BOUND: Final = 0.02
"""Of the adapter's B, so that the adapter changes every log-probability."""

_ROLLOUT: Final = 16
"""Tokens of a training rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """The parts of one cell."""

    base: OpenedBase
    cell: Cell
    size: Size
    parts: Parts
    kernels: Kernels

    def decoder(self) -> Decoder:
        weights = self.base.weights
        if self.cell.dtype is Dtype.BF16_WEIGHTS:
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

    def policy(self, adapter: Adapter) -> Policy:
        if self.cell.adapter is AdapterUse.MERGED:
            return merged(adapter)
        return self.parts.policy_of(adapter)

    def sampler(self) -> Sampler:
        least = pages_for(self.base.config.max_positions) + 1
        pages = {"default": None, "least": least}
        word = self.cell.cache
        limits = SamplerLimits(
            cache_pages=pages[word] if word in pages else int(word), prefill_tokens=self.cell.prefill
        )
        return Sampler(self.base.config, self.parts.sampling(self.kernels), limits=limits)

    @property
    def load(self) -> Load:
        return Load(batch=self.cell.batch, neighbours=self.cell.neighbours, order=self.cell.order)


def compute(number: int, cell: Cell, base: OpenedBase, size: Size, folder: Path) -> Outcome:
    """Compute one cell in this process, whose threads and instruction set are chosen already."""
    began = time.perf_counter()
    if cell.resume > size.steps:
        raise ConfigError("there is no such step", field="resume", value=cell.resume)
    kernels: Kernels = select(cell.arithmetic, cell.device)
    if cell.dtype is Dtype.BF16:
        kernels = Bf16Products(kernels.device)
    bench = _Bench(base=base, cell=cell, size=size, parts=parts_of(cell.deviation), kernels=kernels)
    session = bench.session()
    completions = tuple(_completions(bench, session, each) for each in TEMPERATURES)
    session, steps = _trained(bench, session, folder / f"checkpoint-{number}")
    weights = {name: tensor.detach().cpu().numpy() for name, tensor in values(session.adapter.slots).items()}
    file = folder / f"weights-{number}.npz"
    with file.open("wb") as out:
        np.savez(out, **weights)  # pyright: ignore[reportArgumentType]
    return Outcome(
        number=number,
        completions=completions,
        steps=tuple(Marks(gradient=one.gradient, weights=one.weights) for one in steps),
        weights_sha256=tensors_sha256(weights),
        weights_file=str(file),
        seconds=time.perf_counter() - began,
        machine={"torch": str(torch.__version__), "device": _device(kernels)},
    )


def _device(kernels: Kernels) -> str:
    cuda = kernels.device.type == "cuda"
    return torch.cuda.get_device_name(kernels.device) if cuda else "cpu"


def _completions(bench: _Bench, session: TrainingSession, temperature: float) -> tuple[Completion, ...]:
    """Many completions of one prompt with one seed, each a request of its own."""
    size, vocab = bench.size, bench.base.config.vocab_size
    prompt = random_tokens(derive(0, "sweep", "prompt"), size.prompt, vocab)
    params = SamplingParams(
        seed=derive(bench.cell.seed, "sweep", "completion"), max_tokens=size.tokens, temperature=temperature, stop=()
    )
    request = SampleRequest(prompt=prompt, params=params, topk_logprobs=1)
    seed = derive(0, "sweep", "load", int(temperature))
    results = serve(bench.sampler(), bench.policy(session.adapter), [request] * size.completions, bench.load, seed=seed)
    sequences = [result.sequences[0] for result in results]
    data = [_scored(np.concatenate([prompt, one.tokens])) for one in sequences]
    outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
    return tuple(_completion(one, output, size.prompt) for one, output in zip(sequences, outputs, strict=True))


def _scored(sequence: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Datum:
    return Datum(tokens=sequence[:-1], inputs={"target_tokens": sequence[1:]})


def _completion(one: SampledSequence, output: DatumOutput, prompt: int) -> Completion:
    assert one.top is not None
    before = prompt - 1
    return Completion(
        tokens=tuple(one.tokens.tolist()),
        logprobs=tuple(one.logprobs.tolist()),
        scored=tuple(output.logprobs[before:].tolist()),
        top_tokens=tuple(one.top.tokens[:, 0].tolist()),
        top_logprobs=tuple(one.top.logprobs[:, 0].tolist()),
        routes=() if one.routes is None else tuple(one.routes[before:].tolist()),
        routed=() if output.routes is None else tuple(output.routes[before:].tolist()),
    )


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
    prompts = [
        random_tokens(derive(0, "sweep", "training", step, i), 10 + 3 * i, vocab) for i in range(bench.size.prompts)
    ]
    requests = [
        SampleRequest(
            prompt=prompt, params=SamplingParams(seed=derive(root, i), max_tokens=_ROLLOUT, stop=()), num_samples=2
        )
        for i, prompt in enumerate(prompts)
    ]
    policy = bench.policy(session.adapter.snapshot())
    load = bench.load
    results = serve(bench.sampler(), policy, requests, load, seed=derive(0, "sweep", "load", "training", step))
    return [
        _rewarded(prompt, one, 1.0 - 2.0 * sample)
        for prompt, result in zip(prompts, results, strict=True)
        for sample, one in enumerate(result.sequences)
    ]


def _rewarded(prompt: np.ndarray[tuple[int, ...], np.dtype[np.int32]], one: SampledSequence, advantage: float) -> Datum:
    whole = np.concatenate([prompt, one.tokens])
    logprobs, advantages = (np.zeros(len(whole) - 1, np.float32) for _ in range(2))
    logprobs[len(prompt) - 1 :] = one.logprobs
    advantages[len(prompt) - 1 :] = advantage
    inputs = {"target_tokens": whole[1:], "logprobs": logprobs, "advantages": advantages}
    return Datum(tokens=whole[:-1], inputs=inputs)


def main() -> None:
    """Serve one job."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    cells = [(number, changed(Cell(), texts.items())) for number, texts in job.cells]
    base = open_base(job.model)
    for number, cell in cells:
        sys.stdout.buffer.write(msgspec.json.encode(_answer(number, cell, base, job)) + b"\n")
        sys.stdout.buffer.flush()


def _answer(number: int, cell: Cell, base: OpenedBase, job: Job) -> Outcome:
    try:
        _set_up(cell)
        return compute(number, cell, base, job.size, Path(job.folder))
    except TinsmithError as error:
        return Outcome(number=number, unavailable=str(error).splitlines()[0])


def _set_up(cell: Cell) -> None:
    if cell.arithmetic is Arithmetic.FAST:
        torch.set_num_threads(cell.threads)
        return
    configure(threads=cell.threads, isa=None if cell.isa == "best" else Isa(cell.isa))
    torch.set_num_threads(1)
    torch.set_flush_denormal(False)


if __name__ == "__main__":
    main()
