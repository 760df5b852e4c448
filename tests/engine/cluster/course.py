"""A short training on nano, and everything that it shows."""

import threading
from collections.abc import Sequence

import numpy as np

from tinsmith.engine.bases import Bases
from tinsmith.engine.engine import freeze
from tinsmith.engine.sequences import Group
from tinsmith.engine.training import TrainingSession
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SamplingParams

NAME = "tinsmith/nano"


def datums_of(seed: int, count: int = 9) -> list[Datum]:
    """Groups that share beginnings, and some that share nothing."""
    numbers = np.random.default_rng(seed)
    stem = numbers.integers(5, 90, 12)
    datums: list[Datum] = []
    for i in range(count):
        tail = numbers.integers(5, 90, 4 + i % 5)
        tokens = (np.concatenate([stem, tail]) if i % 3 else tail).astype(np.int32)
        targets = np.roll(tokens, -1)
        weights = numbers.normal(size=len(tokens)).astype(np.float32)
        datums.append(Datum(tokens=tokens, inputs={"target_tokens": targets, "weights": weights}))
    return datums


def finish(engine: Bases, name: str, groups: Sequence[Group]) -> None:
    """Have requests of a base computed to their ends."""
    sampler, arrived = engine.sampler(name), threading.Event()
    engine.attend(arrived.set, lambda: None)
    while not all(group.ended for group in groups):
        arrived.clear()
        if not sampler.busy:  # a worker's thread computes, which a loop would keep waiting for the interpreter
            arrived.wait()
        sampler.step()


def _sampled(engine: Bases, session: TrainingSession, seed: int, name: str) -> list[tuple[bytes, bytes]]:
    """Return two requests' answers on the session's weights."""
    policy = freeze(session, engine.parts.policy_of)
    sampler = engine.sampler(name)
    groups: list[Group] = []
    for i in range(2):
        params = SamplingParams(seed=seed + i, max_tokens=6)
        prompt = np.arange(5, 12 + i, dtype=np.int32)
        groups.append(
            sampler.submit(SampleRequest(prompt=prompt, params=params, num_samples=3, prompt_logprobs=True), policy)
        )
    finish(engine, name, groups)
    answers: list[tuple[bytes, bytes]] = []
    for group in groups:
        assert group.result is not None, group.failure
        engine.sampled_routes.keep(group.request, group.result)
        answers += [(s.tokens.tobytes(), s.logprobs.tobytes()) for s in group.result.sequences]
        answers.append((b"", group.result.prompt_logprobs.tobytes()))
        assert [s.tokens for s in group.samples] == [s.tokens.tolist() for s in group.result.sequences]
    return answers


def course(engine: Bases, kind: AdapterKind, steps: int = 2, *, name: str = NAME) -> list[object]:
    """Everything that a short training shows."""
    session = engine.create_session(name, AdapterSpec(kind=kind, rank=4, seed=3))
    shown: list[object] = []
    for step in range(steps):
        for part in range(2):
            result = session.forward_backward(datums_of(10 * step + part), LossName.CROSS_ENTROPY)
            shown += [output.logprobs.tobytes() for output in result.outputs]
            shown.append(dict(result.metrics))
        shown.append(session.optim_step(AdamParams(learning_rate=1e-2)))
        shown += _sampled(engine, session, step, name)
        tensors = {n: t.numpy() for n, t in values(session.adapter.slots).items()}
        shown.append(tensors_sha256(tensors))
    forward = session.forward(datums_of(99), LossName.CROSS_ENTROPY)
    return [*shown, *(output.logprobs.tobytes() for output in forward.outputs)]
