"""Certificate check of a whole model: the trainer scores sampled tokens bit for bit, however they were batched.

It drives a shallow cut of the model, two of its layers between a part of its embedding and head: a further layer would
run the same code on the same shapes. Products over the whole vocabulary are `checked_ops.py`'s, with a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np

from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.checks.checked_ops import Check, bits_of, counted, each_thread_count
from tinsmith.engine.parts import Parts
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter, is_quantised
from tinsmith.models.cut import cut
from tinsmith.models.decoder import Decoder
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, IntArray, LossName
from tinsmith.types.deviation import Deviation
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.seeds import derive, uniform

_Patterns = Callable[[], Iterator[bytes]]
"""Function that computes one thing in several ways, on the current number of threads."""

_LAYERS = 2
_VOCAB = 2048
_STRIP = 64
"""Columns of the widest strip of a product: the cut's head ends within one where the whole one does."""
_PROMPTS = (3, 13, 17)
"""Tokens of each prompt: one page of keys filled up in decoding, one in prefill."""
_NEW = 5
"""Tokens sampled from each; scored four datums at once, by themselves, they make the 48 rows from which weights are
packed."""

_STEMS = 5
"""Number of trees whose gradients are added: three levels of sums."""


def sampler_and_trainer(decoder: Decoder, parts: Parts) -> Iterator[Check]:
    """Check a LoRA and a DoRA adapter, trained for one step, on the base in its stored form."""
    whole = decoder.config
    vocab = whole.vocab_size if whole.vocab_size <= _VOCAB else _VOCAB + whole.vocab_size % _STRIP
    shallow = cut(decoder, layers=_LAYERS, vocab=vocab, positions=max(_PROMPTS) + _NEW)
    kinds = [k for k in AdapterKind if k is not AdapterKind.FULL and k.quantised == is_quantised(decoder)]
    made = [make(shallow, kind, parts) for kind in kinds for make in (_patterns, _gradients)]
    patterns = iter(_at_each_thread_count(decoder.kernels, parts, made))
    for kind in kinds:
        layers = f"{shallow.config.num_layers} of {whole.num_layers} layers"
        yield counted(f"sampler and trainer, {kind}", layers, next(patterns))
        yield counted(f"gradient of prefix trees, {kind}", layers, next(patterns))


def _at_each_thread_count(kernels: Kernels, parts: Parts, made: Sequence[_Patterns]) -> list[list[bytes]]:
    """Return the patterns of each function over all thread counts, run concurrently on cores that would be idle."""
    configured, found = kernels.threads(), [list[bytes]() for _ in made]
    apart = isinstance(kernels, NativeKernels)  # Others launch on a device, which is one.
    for count in each_thread_count(kernels):
        at_once = configured // count if apart and parts.deviation is Deviation.NONE else 1
        with ThreadPoolExecutor(max(1, at_once)) as pool:
            for patterns, more in zip(found, pool.map(_all, made), strict=True):
                patterns += more
    return found


def _all(compute: _Patterns) -> list[bytes]:
    return list(compute())


def _patterns(decoder: Decoder, kind: AdapterKind, parts: Parts) -> _Patterns:
    """Tokens with log-probabilities as sampled, alone and batched, and as the trainer scores them."""
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1))
    session = TrainingSession(adapter, order=parts.order)
    longest = max(1, decoder.config.max_positions - _NEW)
    prompts = [_tokens(decoder, min(count, longest)) for count in _PROMPTS]
    data = [_scored(prompt) for prompt in prompts if len(prompt) > 1]
    session.forward_backward(data, LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams(learning_rate=1e-2))
    policy, kernels = parts.policy_of(adapter), parts.sampling(decoder.kernels)
    params = SamplingParams(seed=7, max_tokens=_NEW, stop=())
    requests = [SampleRequest(prompt=p, params=params, num_samples=2) for p in prompts]

    def compute() -> Iterator[bytes]:
        sampled: list[tuple[IntArray, IntArray]] = []
        for limits in (SamplerLimits(), SamplerLimits(max_samples=1, prefill_tokens=7)):
            sampler = Sampler(decoder.config, kernels, limits=limits)
            results = sampler.sample(requests, [policy] * len(requests))
            pairs = [(p, s) for p, r in zip(prompts, results, strict=True) for s in r.sequences]
            yield b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for _, s in pairs)
            sampled = [(p, s.tokens) for p, s in pairs]
        for size, unit in product((1, 4), GradientUnit):
            session.micro_batches, session.gradient_unit = MicroBatches(units=size), unit
            data = [_scored(np.concatenate(pair)) for pair in sampled]
            outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
            yield b"".join(
                tokens.tobytes() + output.logprobs[len(prompt) - 1 :].tobytes()
                for (prompt, tokens), output in zip(sampled, outputs, strict=True)
            )

    return compute


def _gradients(decoder: Decoder, kind: AdapterKind, parts: Parts) -> _Patterns:
    """Gradient of forked sequences on a trained adapter, in micro-batches of several sizes."""
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1))
    room = decoder.config.max_positions
    data = [
        _scored(np.concatenate([_tokens(decoder, 7 + stem), _tokens(decoder, 1 + fork)])[:room])
        for stem, fork in product(range(min(_STEMS, room)), (1, 2, 4))
    ]
    trained = TrainingSession(adapter, order=parts.order)
    trained.forward_backward(data, LossName.CROSS_ENTROPY)
    trained.optim_step(AdamParams(learning_rate=1e-2))

    def compute() -> Iterator[bytes]:
        for size in (1, 2, 1 << 30):
            session = TrainingSession(adapter, micro_batches=MicroBatches(units=size), order=parts.order)
            session.forward_backward(data, LossName.CROSS_ENTROPY)
            yield b"".join(bits_of(grad) for grad in session.optimizer.sums.total())

    return compute


def _scored(tokens: IntArray) -> Datum:
    return Datum(tokens=tokens[:-1], inputs={"target_tokens": tokens[1:]})


def _tokens(decoder: Decoder, count: int) -> IntArray:
    unit = uniform(derive(0, "certificate", "tokens", count), (count,), 0.5) + np.float32(0.5)
    vocab = decoder.config.vocab_size
    return np.minimum(unit * vocab, vocab - 1).astype(np.int32)
