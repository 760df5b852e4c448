"""Results of workers keep nothing of the memory that brought them."""

import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from tinsmith.engine.cluster.work import Computed, Fresh, Outcome, own_arrays
from tinsmith.models.routes import RouteSums
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.types.datum import DatumOutput


def floats() -> NDArray[np.float32]:
    return np.ones(4, np.float32)


def counts(*shape: int) -> NDArray[np.int64]:
    return np.ones(shape, np.int64)


def found() -> dict[int, tuple[DatumOutput, LossValue]]:
    said = DatumOutput(logprobs=floats(), routes=counts(3))
    return {3: (said, LossValue(total=2.0, grad=floats(), metrics={"loss": 2.0}))}


@pytest.mark.parametrize(
    "outcome",
    [
        Computed(
            found=found(), grads=[floats(), floats()], routes=RouteSums(rows=2, loads=counts(2, 3), entropies=counts(2))
        ),
        Computed(found=found(), grads=None),
        Fresh(tensors={"lora_A": floats()}),
    ],
    ids=["gradients", "forward", "fresh"],
)
def test_nothing_is_lent(outcome: Outcome) -> None:
    lent: list[memoryview] = []

    def lend(buffer: pickle.PickleBuffer) -> bool:
        lent.append(memoryview(bytes(buffer.raw())))
        return False

    sent = pickle.dumps(outcome, protocol=5, buffer_callback=lend)
    received = pickle.loads(sent, buffers=lent)
    owned = own_arrays(received)
    again: list[pickle.PickleBuffer] = []
    assert pickle.dumps(owned, protocol=5, buffer_callback=again.append)
    places = [np.frombuffer(each.raw(), np.uint8) for each in again]
    of_sender = [np.frombuffer(each, np.uint8) for each in lent]
    assert len(places) == len(of_sender) > 0
    assert [one.tobytes() for one in places] == [other.tobytes() for other in of_sender]
    assert not any(np.shares_memory(one, other) for one in places for other in of_sender)
