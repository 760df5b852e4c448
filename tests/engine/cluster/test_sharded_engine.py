"""A worker that is several processes: the bits of one, whichever form of a base, and lost as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from course import NAME, course, datums_of
from in_process import MODELS, Threads, cluster_of
from staged import Passed

from loopback import KEPT
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.cluster.shard import Shard, ShardFacts
from tinsmith.engine.cluster.sharded_engine import ShardedEngine
from tinsmith.engine.cluster.stage_calls import StageCalls, StageLostError
from tinsmith.engine.cluster.stages import Stage
from tinsmith.engine.cluster.work import ServedFacts
from tinsmith.engine.engine import Engine
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName
from tinsmith.types.errors import ConfigError, InputError

Expected = Callable[..., list[object]]
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


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Shard]]:
    kept = CertificateStore(tmp_path_factory.mktemp("certificates"))

    def made(count: int) -> list[Shard]:
        return [Shard(MODELS, index=i, count=count, kept=kept) for i in range(count)]

    return made


def worker(shares: Sequence[Shard], dies: Callable[[str], bool] = lambda _name: False) -> Host:
    *earlier, last = shares
    return Host(ShardedEngine(last, [Beside(each, each.facts(), dies) for each in earlier]))


def test_all_workers_have_one_certificate(shares: Callable[[int], list[Shard]]) -> None:
    first, second = worker(shares(2)), worker(shares(2))
    certificates = {host.facts().bases[NAME].certificate for host in (first, second)}
    assert len(certificates) == 1
    assert None not in certificates
    assert first.facts().bases[NAME].fingerprint == Engine(MODELS, kept=KEPT).base(NAME).fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_workers_of_two_processes_compute_what_one_process_does(
    kind: AdapterKind, expected: Expected, shares: Callable[[int], list[Shard]], transport: Threads
) -> None:
    engine = cluster_of(transport, [worker(shares(2)), worker(shares(2))], shards=2)
    assert course(engine, kind) == expected(kind)
    assert {name for name, _ in transport.sent} == {"worker-0", "worker-1"}


@pytest.mark.parametrize("at", ["sample", "forward", "backward", "open"])
def test_what_a_lost_stage_was_asked_is_done_by_another_worker(
    at: str, expected: Expected, shares: Callable[[int], list[Shard]], transport: Threads
) -> None:
    calls = 0

    def dies(name: str) -> bool:
        nonlocal calls
        calls += name == at
        return calls > 2

    engine = cluster_of(transport, [worker(shares(2), dies), worker(shares(2))], shards=2)
    assert course(engine, AdapterKind.QDORA) == expected(AdapterKind.QDORA)
    assert [each.name for each in transport.dispatcher.workers if each.lost] == ["worker-0"]


def test_both_forms_of_a_base_are_sampled_from_at_once(
    shares: Callable[[int], list[Shard]], expected: Expected, transport: Threads
) -> None:
    engine = cluster_of(transport, [worker(shares(2))], shards=2)
    for kind in (AdapterKind.QLORA, AdapterKind.LORA, AdapterKind.QLORA):
        assert course(engine, kind, steps=1) == expected(kind, steps=1)


def test_a_failed_request_leaves_nothing_in_the_stages(
    shares: Callable[[int], list[Shard]], transport: Threads
) -> None:
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


def test_all_weights_are_refused(shares: Callable[[int], list[Shard]], transport: Threads) -> None:
    engine = cluster_of(transport, [worker(shares(2))], shards=2)
    with pytest.raises(ConfigError) as caught:
        engine.check_kind(AdapterKind.FULL)
    assert (caught.value.field, caught.value.value) == ("kind", "full")
    engine.check_kind(AdapterKind.QDORA)


def test_shares_of_other_weights_are_refused(shares: Callable[[int], list[Shard]]) -> None:
    first, last = shares(2)
    told = first.facts()
    other = ServedFacts(fingerprint="other", config_sha256="", certificate=None)
    with pytest.raises(ConfigError) as caught:
        ShardedEngine(last, [Beside(first, replace(told, bases={NAME: other}))])
    assert (caught.value.field, caught.value.value) == ("shard 0", "other")
