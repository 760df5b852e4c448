"""One answer, whoever computes it: an engine with workers has the bits of one process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from in_process import MODELS, Threads, cluster_of, hosts

from tinsmith.engine.bases import Bases
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.work import GradientWork, SampleWork, Work
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.sequences import Group
from tinsmith.engine.training import TrainingSession
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import InputError, LostError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SamplingParams

__all__ = ["hosts"]

NAME = "tinsmith/nano"


@pytest.fixture(scope="session")
def alone() -> Engine:
    """One process."""
    return Engine(MODELS)


@pytest.fixture
def transport() -> Iterator[Threads]:
    """Workers to come."""
    made = Threads()
    yield made
    made.close()


def _datums(seed: int, count: int = 9) -> list[Datum]:
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


def _sampled(engine: Bases, session: TrainingSession, seed: int) -> list[tuple[bytes, bytes]]:
    """What two requests on the session's weights answer."""
    policy = freeze(session, engine.parts.policy_of)
    sampler = engine.sampler(NAME)
    groups: list[Group] = []
    for i in range(2):
        params = SamplingParams(seed=seed + i, max_tokens=6)
        prompt = np.arange(5, 12 + i, dtype=np.int32)
        groups.append(
            sampler.submit(
                SampleRequest(prompt=prompt, params=params, num_samples=3, prompt_logprobs=True),
                policy,
            )
        )
    while not all(group.ended for group in groups):
        sampler.step()
    answers: list[tuple[bytes, bytes]] = []
    for group in groups:
        assert group.result is not None, group.failure
        answers += [(s.tokens.tobytes(), s.logprobs.tobytes()) for s in group.result.sequences]
        assert group.result.prompt_logprobs is not None
        answers.append((b"", group.result.prompt_logprobs.tobytes()))
        assert [s.tokens for s in group.samples] == [
            s.tokens.tolist() for s in group.result.sequences
        ]
    return answers


def _course(engine: Bases, kind: AdapterKind, steps: int = 2) -> list[object]:
    """Everything that a short training shows."""
    session = engine.create_session(NAME, AdapterSpec(kind=kind, rank=4, seed=3))
    shown: list[object] = []
    for step in range(steps):
        for part in range(2):
            result = session.forward_backward(_datums(10 * step + part), LossName.CROSS_ENTROPY)
            shown += [output.logprobs.tobytes() for output in result.outputs]
            shown.append(dict(result.metrics))
        shown.append(session.optim_step(AdamParams(learning_rate=1e-2)))
        shown += _sampled(engine, session, step)
        tensors = {n: t.numpy() for n, t in values(session.adapter.slots).items()}
        shown.append(tensors_sha256(tensors))
    forward = session.forward(_datums(99), LossName.CROSS_ENTROPY)
    return [*shown, *(output.logprobs.tobytes() for output in forward.outputs)]


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_two_workers_compute_what_one_process_does(
    kind: AdapterKind, alone: Engine, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:2])
    assert _course(engine, kind) == _course(alone, kind)
    assert {worker for worker, _ in transport.sent} == {"worker-0", "worker-1"}


@pytest.mark.parametrize("count", [1, 3, 4])
def test_any_number_of_workers_computes_the_same(
    count: int, alone: Engine, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:count])
    assert _course(engine, AdapterKind.DORA) == _course(alone, AdapterKind.DORA)


@pytest.mark.parametrize("kind", [SampleWork, GradientWork])
def test_a_lost_workers_work_is_done_again(
    kind: type[Work], alone: Engine, hosts: list[Host]
) -> None:
    once = [True]

    def dies(worker: str, work: Work) -> bool:
        if worker == "worker-0" and isinstance(work, kind) and once:
            once.clear()
            return True
        return False

    transport = Threads(dies)
    try:
        engine = cluster_of(transport, hosts[:2])
        assert _course(engine, AdapterKind.LORA) == _course(alone, AdapterKind.LORA)
        assert not once
        assert transport.dispatcher.num_retries > 0
    finally:
        transport.close()


def test_a_worker_may_join_late(alone: Engine, hosts: list[Host], transport: Threads) -> None:
    engine = cluster_of(transport, hosts[:1])
    first = _course(engine, AdapterKind.LORA)
    transport.add("late", hosts[1])
    assert first == _course(alone, AdapterKind.LORA)
    assert _course(engine, AdapterKind.LORA) == first
    assert "late" in {worker for worker, _ in transport.sent}


def test_what_takes_two_workers_down_is_given_up(hosts: list[Host]) -> None:
    transport = Threads(lambda _worker, work: isinstance(work, GradientWork) and _is_poison(work))
    try:
        engine = cluster_of(transport, hosts[:4])
        session = engine.create_session(NAME, AdapterSpec(rank=2))
        with pytest.raises(LostError):
            session.forward_backward([*_datums(1), _poison()], LossName.CROSS_ENTROPY)
        session.forward_backward(_datums(1), LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams())
        assert sum(worker.lost is not None for worker in transport.dispatcher.workers) == 2
    finally:
        transport.close()


def test_a_datum_that_cannot_be_computed_is_named_by_its_place(
    alone: Engine, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:2])
    datums = _datums(4)
    bad = datums[7]
    datums[7] = Datum(
        tokens=bad.tokens,
        inputs={**bad.inputs, "weights": np.full(len(bad.tokens), 1e38, np.float32)},
    )
    said: list[str] = []
    for each in (alone, engine):
        session = each.create_session(NAME, AdapterSpec(rank=4, seed=3))
        session.forward_backward(_datums(5), LossName.CROSS_ENTROPY)
        with pytest.raises(InputError) as caught:
            session.forward_backward(datums, LossName.CROSS_ENTROPY)
        said.append(str(caught.value))
        session.optim_step(AdamParams())
        said.append(
            tensors_sha256({n: t.numpy() for n, t in values(session.adapter.slots).items()})
        )
    assert said[:2] == said[2:]


def _poison() -> Datum:
    tokens = np.full(77, 6, np.int32)
    weights = np.ones(77, np.float32)
    return Datum(tokens=tokens, inputs={"target_tokens": tokens, "weights": weights})


def _is_poison(work: GradientWork) -> bool:
    return any(len(datum) == 77 for datum in work.asked.datums)
