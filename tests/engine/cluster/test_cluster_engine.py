"""One answer, whoever computes it: an engine with workers has the bits of one process."""

import gc
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from course import NAME, course, datums_of, finish
from in_process import MODELS, Threads, cluster_of
from staged import Passed

from loopback import KEPT
from tinsmith.engine.cluster.cluster_engine import ClusterEngine
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.shard import Shard, ShardFacts
from tinsmith.engine.cluster.sharded_engine import ShardedEngine
from tinsmith.engine.cluster.stage_calls import StageCalls, StageLostError
from tinsmith.engine.cluster.stages import Stage
from tinsmith.engine.cluster.work import GradientWork, SampleWork, ServedFacts, Work
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.training import TrainingSession
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import ConfigError, InputError, LostError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampleRequest, SamplingParams

Expected = Callable[..., list[object]]


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_several_workers_compute_what_one_process_does(
    kind: AdapterKind, expected: Expected, hosts: list[Host], transport: Threads
) -> None:
    count = transport.gather = 3 if kind is AdapterKind.DORA else 2
    engine = cluster_of(transport, hosts[:count])
    steps = 2 if kind in (AdapterKind.LORA, AdapterKind.FULL) else 1
    assert course(engine, kind, steps) == expected(kind, steps)
    assert len({worker for worker, _ in transport.sent}) == count


def test_a_session_that_is_over_leaves_no_weights_behind(hosts: list[Host], transport: Threads) -> None:
    engine = cluster_of(transport, hosts[:1])
    session = engine.create_session(NAME, AdapterSpec(kind=AdapterKind.FULL))
    session.forward_backward(datums_of(1), LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams(learning_rate=1e-3))
    session.forward(datums_of(2), LossName.CROSS_ENTROPY)
    tensor = weakref.ref(session.adapter.weights()[0].value)
    del session
    gc.collect()
    assert tensor() is None


def test_samples_of_several_keys_are_given_to_workers_in_turn(hosts: list[Host], transport: Threads) -> None:
    engine = ClusterEngine(MODELS, hosts[0].facts(), transport.dispatcher)
    sampler, policy = engine.sampler(NAME), engine.base_policy(NAME)
    request = SampleRequest(prompt=np.arange(5, 9, dtype=np.int32), params=SamplingParams(seed=1, max_tokens=2))
    groups = [sampler.submit(request, policy, owner=owner) for owner in ("many", "many", "many", "few")]
    transport.add("worker-0", hosts[0])
    finish(engine, NAME, groups)
    numbers = [int(work.removeprefix("sample-")) for _, work in transport.sent]
    assert [number - min(numbers) for number in numbers] == [0, 3, 1, 2]


@pytest.mark.parametrize("kind", [SampleWork, GradientWork])
def test_a_lost_workers_work_is_done_again(kind: type[Work], expected: Expected, hosts: list[Host]) -> None:
    number = itertools.count()

    def dies(_worker: str, work: Work) -> bool:
        return isinstance(work, kind) and next(number) == 0  # of whichever worker, as their pace decides who gets one

    transport = Threads(dies)
    try:
        engine = cluster_of(transport, hosts[:2])
        assert course(engine, AdapterKind.LORA, 1) == expected(AdapterKind.LORA, 1)
        assert [worker.lost for worker in transport.dispatcher.workers].count("killed") == 1
        assert transport.dispatcher.num_retries > 0
    finally:
        transport.close()


def test_a_worker_may_join_late(expected: Expected, hosts: list[Host], transport: Threads) -> None:
    engine = cluster_of(transport, hosts[:1])
    assert course(engine, AdapterKind.LORA, 1) == expected(AdapterKind.LORA, 1)
    transport.add("late", hosts[1])
    assert course(engine, AdapterKind.LORA, 1) == expected(AdapterKind.LORA, 1)
    assert "late" in {worker for worker, _ in transport.sent}


def test_what_takes_two_workers_down_is_given_up(hosts: list[Host]) -> None:
    transport = Threads(lambda _worker, work: isinstance(work, GradientWork) and _is_poison(work))
    try:
        engine = cluster_of(transport, hosts[:4])
        session = engine.create_session(NAME, AdapterSpec(rank=2))
        with pytest.raises(LostError):
            session.forward_backward([*datums_of(1), _poison()], LossName.CROSS_ENTROPY)
        session.forward_backward(datums_of(1), LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams())
        assert sum(worker.lost is not None for worker in transport.dispatcher.workers) == 2
    finally:
        transport.close()


def test_a_datum_that_cannot_be_computed_is_named_by_its_place(
    alone: Engine, hosts: list[Host], transport: Threads
) -> None:
    engine = cluster_of(transport, hosts[:2])
    datums = datums_of(4)
    bad = datums[7]
    datums[7] = Datum(tokens=bad.tokens, inputs={**bad.inputs, "weights": np.full(len(bad.tokens), 1e38, np.float32)})
    words: list[str] = []
    for each in (alone, engine):
        session = each.create_session(NAME, AdapterSpec(rank=4, seed=3))
        session.forward_backward(datums_of(5), LossName.CROSS_ENTROPY)
        with pytest.raises(InputError) as caught:
            session.forward_backward(datums, LossName.CROSS_ENTROPY)
        words.append(str(caught.value))
        session.optim_step(AdamParams())
        words.append(tensors_sha256({n: t.numpy() for n, t in values(session.adapter.slots).items()}))
    assert words[:2] == words[2:]


def _poison() -> Datum:
    tokens = np.full(77, 6, np.int32)
    weights = np.ones(77, np.float32)
    return Datum(tokens=tokens, inputs={"target_tokens": tokens, "weights": weights})


def _is_poison(work: GradientWork) -> bool:
    return any(len(datum) == 77 for datum in work.request.datums)


MIXTURE = {"mixture": "tinsmith/moe-nano"}


@pytest.fixture(scope="module")
def alone_mixed() -> Engine:
    """One process."""
    return Engine(MIXTURE, certificate_store=KEPT)


@pytest.fixture(scope="module")
def workers() -> list[Host]:
    """Three workers' engines."""
    return [Host(Engine(MIXTURE, certificate_store=KEPT)) for _ in range(3)]


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
def test_any_number_of_workers_computes_a_mixture(kind: AdapterKind, alone_mixed: Engine, workers: list[Host]) -> None:
    expected = course(alone_mixed, kind, steps=1, name="mixture")
    for count in (1, 3) if kind is AdapterKind.LORA else (3,):
        transport = Threads()
        transport.gather = count
        try:
            engine = cluster_of(transport, workers[:count], models=MIXTURE)
            assert course(engine, kind, steps=1, name="mixture") == expected
            assert len({worker for worker, _ in transport.sent}) == count
        finally:
            transport.close()


def test_routes_of_what_was_sampled_are_compared_where_it_is_trained(alone_mixed: Engine) -> None:
    session = alone_mixed.create_session("mixture", AdapterSpec(rank=4, seed=3))
    metrics = _compared(alone_mixed, session)
    assert metrics["e_compared_routes:sum"] == 4 * (7 + 8)
    assert metrics["e_unequal_routes:sum"] == 0.0


def _compared(engine: Engine, session: TrainingSession) -> dict[str, float]:
    prompt = np.arange(5, 12, dtype=np.int32)
    request = SampleRequest(prompt=prompt, params=SamplingParams(seed=1, max_tokens=9, stop=()), num_samples=4)
    (result,) = engine.sample("mixture", [request], [freeze(session)])
    whole = [np.concatenate([prompt, sequence.tokens]) for sequence in result.sequences]
    data = [Datum(tokens=t[:-1], inputs={"target_tokens": t[1:]}) for t in whole]
    return dict(session.forward_backward(data, LossName.CROSS_ENTROPY).metrics)


KINDS = (AdapterKind.LORA, AdapterKind.QDORA)


class Mortal(Passed):
    """A stage that is gone from when `dies` says so of the name of a call."""

    def __init__(self, stage: Stage, dies: Callable[[str], bool]) -> None:
        super().__init__(stage)
        self._dies = dies

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._dies(name):
            raise StageLostError("a stage is gone")
        return super().__getattr__(name)


@dataclass
class Beside:
    """An earlier share in this process, behind pickle."""

    shard: Shard
    told: ShardFacts
    dies: Callable[[str], bool] = lambda _name: False
    stages: list[Stage] = field(default_factory=list[Stage])

    def facts(self) -> ShardFacts:
        return self.told

    def stage(self, name: str, *, quantised: bool) -> StageCalls:
        self.stages.append(Stage(self.shard.decoder(name, quantised=quantised)))
        return Mortal(self.stages[-1], self.dies)  # pyright: ignore[reportReturnType]


def shares(count: int) -> list[Shard]:
    return [Shard(MODELS, index=i, count=count, certificate_store=KEPT) for i in range(count)]


def worker(dies: Callable[[str], bool] = lambda _name: False) -> Host:
    *earlier, last = shares(2)
    return Host(ShardedEngine(last, [Beside(each, each.facts(), dies) for each in earlier]))


def test_all_workers_have_one_certificate() -> None:
    first, second = worker(), worker()
    certificates = {host.facts().bases[NAME].certificate for host in (first, second)}
    assert len(certificates) == 1
    assert None not in certificates
    assert first.facts().bases[NAME].fingerprint == Engine(MODELS, certificate_store=KEPT).base(NAME).fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_workers_of_two_processes_compute_what_one_process_does(
    kind: AdapterKind, expected: Expected, transport: Threads
) -> None:
    engine = cluster_of(transport, [worker(), worker()], shards=2)
    transport.gather = 2
    steps = 2 if kind is AdapterKind.LORA else 1
    assert course(engine, kind, steps) == expected(kind, steps)
    assert {name for name, _ in transport.sent} == {"worker-0", "worker-1"}


@pytest.mark.parametrize("at", ["sample", "forward", "backward", "open"])
def test_what_a_lost_stage_was_asked_is_done_by_another_worker(at: str, expected: Expected, transport: Threads) -> None:
    number = itertools.count()

    def dies(name: str) -> bool:
        return name == at and next(number) == 2

    engine = cluster_of(transport, [worker(dies), worker(dies)], shards=2)
    assert course(engine, AdapterKind.QDORA, 1) == expected(AdapterKind.QDORA, 1)
    assert [bool(each.lost) for each in transport.dispatcher.workers].count(True) == 1


def test_both_forms_of_a_base_are_sampled_from_at_once(expected: Expected, transport: Threads) -> None:
    engine = cluster_of(transport, [worker()], shards=2)
    for kind in (AdapterKind.QLORA, AdapterKind.LORA, AdapterKind.QLORA):
        assert course(engine, kind, 1) == expected(kind, 1)


def test_a_failed_request_leaves_nothing_in_the_stages(transport: Threads) -> None:
    first, last = shares(2)
    beside = Beside(first, first.facts())
    engine = cluster_of(transport, [Host(ShardedEngine(last, [beside]))], shards=2)
    session = engine.create_session(NAME, AdapterSpec(rank=2, seed=1))
    good, *_ = datums_of(0)
    weights = good.inputs["weights"].copy()
    weights[:] = 1e38
    bad = replace(good, inputs={**good.inputs, "weights": weights})
    with pytest.raises(InputError):
        session.forward_backward([bad], LossName.CROSS_ENTROPY)
    assert not any(stage.is_recording for stage in beside.stages)


def test_all_weights_are_refused(transport: Threads) -> None:
    engine = cluster_of(transport, [worker()], shards=2)
    with pytest.raises(ConfigError) as caught:
        engine.check_kind(AdapterKind.FULL)
    assert (caught.value.field, caught.value.value) == ("kind", "full")
    engine.check_kind(AdapterKind.QDORA)


def test_shares_of_other_weights_are_refused() -> None:
    first, last = shares(2)
    lines = first.facts()
    other = ServedFacts(fingerprint="other", config_sha256="", certificate=None)
    with pytest.raises(ConfigError) as caught:
        ShardedEngine(last, [Beside(first, replace(lines, bases={NAME: other}))])
    assert (caught.value.field, caught.value.value) == ("shard 0", "other")
