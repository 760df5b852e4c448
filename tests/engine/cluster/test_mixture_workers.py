"""A mixture has one answer, whoever computes it: one process, one worker or three; bits, loads and routes."""

import numpy as np
import pytest
from course import course
from in_process import Threads, cluster_of

from loopback import KEPT
from tinsmith.engine.cluster.host import Host
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.training import TrainingSession
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, LossName
from tinsmith.types.sampling import SampleRequest, SamplingParams

MODELS = {"mixture": "tinsmith/moe-nano"}


@pytest.fixture(scope="module")
def alone() -> Engine:
    """One process."""
    return Engine(MODELS, kept=KEPT)


@pytest.fixture(scope="module")
def workers() -> list[Host]:
    """Three workers' engines."""
    return [Host(Engine(MODELS, kept=KEPT)) for _ in range(3)]


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA])
def test_any_number_of_workers_computes_the_same(kind: AdapterKind, alone: Engine, workers: list[Host]) -> None:
    expected = course(alone, kind, name="mixture")
    for count in (1, 3) if kind is AdapterKind.LORA else (3,):
        transport = Threads()
        try:
            engine = cluster_of(transport, workers[:count], models=MODELS)
            assert course(engine, kind, name="mixture") == expected
            assert len({worker for worker, _ in transport.sent}) == count
        finally:
            transport.close()


def test_routes_of_what_was_sampled_are_compared_where_it_is_trained(alone: Engine) -> None:
    session = alone.create_session("mixture", AdapterSpec(rank=4, seed=3))
    metrics = _compared(alone, session)
    assert metrics["e_compared_routes:sum"] == 4 * (7 + 8)
    assert metrics["e_unequal_routes:sum"] == 0.0


def _compared(engine: Engine, session: TrainingSession) -> dict[str, float]:
    prompt = np.arange(5, 12, dtype=np.int32)
    request = SampleRequest(prompt=prompt, params=SamplingParams(seed=1, max_tokens=9, stop=()), num_samples=4)
    (result,) = engine.sample("mixture", [request], [freeze(session)])
    whole = [np.concatenate([prompt, sequence.tokens]) for sequence in result.sequences]
    data = [Datum(tokens=t[:-1], inputs={"target_tokens": t[1:]}) for t in whole]
    return dict(session.forward_backward(data, LossName.CROSS_ENTROPY).metrics)
