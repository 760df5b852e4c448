"""Marks of units of gradient: each is a value of its own, whoever computes it, beside whatever else."""

import numpy as np
import pytest

from models import scored, small_decoder, tokens
from tinsmith.engine.trace import Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName


def stepped(requests: list[list[Datum]], micro_batches: MicroBatches, *, marks_units: bool = True) -> tuple[str, ...]:
    decoder = small_decoder()
    adapter = create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=4, seed=1))
    trace = Trace(decoder.kernels, marks_units=marks_units)
    session = TrainingSession(adapter, trace=trace, micro_batches=micro_batches)
    for data in requests:
        session.forward_backward(data, LossName.CROSS_ENTROPY)
    session.optim_step(AdamParams())
    return trace.steps[-1].units


@pytest.fixture(scope="module")
def data() -> list[Datum]:
    rng = np.random.default_rng(5)
    return [scored(tokens(rng, count)) for count in (9, 30, 17, 12, 40)]


def test_a_unit_has_one_mark_whatever_is_computed_beside_it(data: list[Datum]) -> None:
    together = stepped([data], MicroBatches())
    assert len(set(together)) == len(data)
    assert together == stepped([data[:2], data[2:]], MicroBatches(units=2))
    assert together == tuple(stepped([[one]], MicroBatches())[0] for one in data)


def test_units_are_marked_only_where_it_is_asked_for(data: list[Datum]) -> None:
    assert stepped([data], MicroBatches(), marks_units=False) == ()
