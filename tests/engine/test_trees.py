"""Training on prefix trees: what is said does not change by a bit, and what is learned is autograd's gradient."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from oracles import (
    LLAMA,
    QWEN3,
    buffers_sha256,
    cross_entropy,
    gradients,
    make_adapter,
    make_datums,
    reference_gradients,
    reference_model,
    relative_error,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.config import DecoderConfig
from tinsmith.ops import head
from tinsmith.ops.extension import native
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import Datum, LossName

pytestmark = pytest.mark.whole

LOSS = LossName.CROSS_ENTROPY
MAX_GRADIENT_ERROR = 3e-6
"""Relative, per tensor: what fp32 leaves on an adapter drawn at random (seen: 2.1e-6, and 1.9e-6 by datum)."""
KINDS = pytest.mark.parametrize("kind", list(AdapterKind))
HOW = (
    *(MicroBatches(units=units) for units in (1, 2, 4)),
    MicroBatches(rows=40),
    MicroBatches(rows=40, memory=0),
    MicroBatches(),
)


def conversations(config: DecoderConfig) -> list[Datum]:
    """Two stems of several pages, forks of forks, equal datums, one that begins another, and one by itself; mixed."""
    rng = np.random.default_rng(7)

    def tokens(count: int) -> np.ndarray:
        return rng.integers(0, config.vocab_size, count).astype(np.int32)

    one, other = tokens(37), tokens(21)
    turn = np.concatenate([one, tokens(6)])
    sequences = [
        np.concatenate([one, tokens(9)]),
        np.concatenate([other, tokens(4)]),
        np.concatenate([turn, tokens(3)]),
        np.concatenate([turn, tokens(12)]),
        tokens(14),
        np.concatenate([other, tokens(8)]),
        np.concatenate([one, tokens(2)]),
    ]
    sequences += [sequences[3], sequences[5][:25], turn]
    drawn = make_datums(config, [len(s) for s in sequences], 3)
    return [replace(d, tokens=s) for d, s in zip(drawn, sequences, strict=True)]


def session_of(
    config: DecoderConfig = LLAMA,
    kind: AdapterKind = AdapterKind.LORA,
    how: MicroBatches = HOW[-1],
    unit: GradientUnit = GradientUnit.TREE,
    tree_rows: int = 2048,
) -> TrainingSession:
    return TrainingSession(
        make_adapter(config, AdapterSpec(kind=kind, rank=4, seed=5)),
        micro_batches=how,
        gradient_unit=unit,
        tree_rows=tree_rows,
    )


def test_there_is_something_to_share() -> None:
    session = session_of()
    session.forward_backward(conversations(LLAMA), LOSS)
    assert session.optimizer.sums.count == 3


@KINDS
def test_what_the_model_says_is_what_it_says_of_each_datum_alone(kind: AdapterKind) -> None:
    session = session_of(kind=kind)
    datums = conversations(LLAMA)
    together = session.forward(datums, LOSS)
    apart = session_of(kind=kind, unit=GradientUnit.DATUM).forward(datums, LOSS)
    assert together.metrics == apart.metrics
    for datum, one, other in zip(datums, together.outputs, apart.outputs, strict=True):
        (alone,) = session.forward([datum], LOSS).outputs
        assert one.logprobs.tobytes() == other.logprobs.tobytes() == alone.logprobs.tobytes()


@pytest.mark.parametrize("tree_rows", [2048, 60, 1])
@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.QDORA, AdapterKind.FULL])
def test_a_cut_has_one_gradient_whatever_is_computed_together(kind: AdapterKind, tree_rows: int) -> None:
    datums = conversations(LLAMA)
    seen: set[str] = set()
    for how in HOW:
        session = session_of(kind=kind, how=how, tree_rows=tree_rows)
        session.forward_backward(datums, LOSS)
        seen.add(buffers_sha256(session))
    assert len(seen) == 1


@pytest.fixture
def machine() -> Iterator[None]:
    threads, isa = native.num_threads(), native.isa()
    yield
    native.set_num_threads(threads)
    native.use_isa(isa)


@pytest.mark.usefixtures("machine")
def test_threads_and_instruction_sets_change_nothing() -> None:
    datums = conversations(QWEN3)
    seen: set[str] = set()
    for isa in native.supported_isas():
        for threads in (1, 2, 3):
            native.use_isa(isa)
            native.set_num_threads(threads)
            session = session_of(QWEN3, AdapterKind.FULL)
            session.forward_backward(datums, LOSS)
            seen.add(buffers_sha256(session))
    assert len(seen) == 1


@pytest.mark.parametrize("config", [LLAMA, QWEN3], ids=["llama", "qwen3"])
@KINDS
def test_the_gradient_is_that_of_autograd(config: DecoderConfig, kind: AdapterKind) -> None:
    datums = conversations(config)
    session = session_of(config, kind)
    session.forward_backward(datums, LOSS)
    model = reference_model(session.adapter, torch.float64)
    reference = reference_gradients(model, datums, cross_entropy)
    assert relative_error(gradients(session), reference) <= MAX_GRADIENT_ERROR
    apart = session_of(config, kind, unit=GradientUnit.DATUM)
    apart.forward_backward(datums, LOSS)
    assert relative_error(gradients(session), gradients(apart)) <= 5e-6


def test_logits_that_are_computed_again_are_those_that_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    datums = conversations(LLAMA)
    for kind in (AdapterKind.DORA, AdapterKind.FULL):
        kept = session_of(kind=kind)
        words = kept.forward_backward(datums, LOSS)
        with monkeypatch.context() as patch:
            patch.setattr(head, "MAX_SAVED_LOGITS", 0)
            patch.setattr(head, "CHUNK_LOGITS", 7 * LLAMA.vocab_size)
            again = session_of(kind=kind)
            repeated = again.forward_backward(datums, LOSS)
        assert buffers_sha256(again) == buffers_sha256(kept)
        for one, other in zip(words.outputs, repeated.outputs, strict=True):
            assert one.logprobs.tobytes() == other.logprobs.tobytes()


def test_a_group_of_one_is_a_datum() -> None:
    (datum,) = make_datums(LLAMA, (40,), 2)
    found = {
        unit: buffers_sha256(session)
        for unit in GradientUnit
        for session in [session_of(unit=unit)]
        if session.forward_backward([datum], LOSS)
    }
    assert len(set(found.values())) == 1


def test_datums_in_another_order_say_the_same_and_learn_the_same_but_for_rounding() -> None:
    datums = conversations(LLAMA)
    order = [6, 1, 8, 3, 0, 9, 4, 7, 2, 5]
    one, other = session_of(), session_of()
    text = one.forward_backward(datums, LOSS)
    again = other.forward_backward([datums[i] for i in order], LOSS)
    for i, output in zip(order, again.outputs, strict=True):
        assert output.logprobs.tobytes() == text.outputs[i].logprobs.tobytes()
    assert relative_error(gradients(other), gradients(one)) <= 5e-6


def test_requests_that_cut_no_tree_add_up_to_the_bits_of_one() -> None:
    datums = conversations(LLAMA)
    first = [0, 2, 3, 6, 7, 9]
    groups = [[datums[i] for i in first], [datums[4]], [datums[1], datums[5], datums[8]]]
    seen: set[str] = set()
    for calls in (1, 2, 3):
        for how in HOW:
            session = session_of(how=how)
            for call in range(calls):
                groups_of_call = groups[call:] if call == calls - 1 else groups[call : call + 1]
                session.forward_backward([d for group in groups_of_call for d in group], LOSS)
            assert session.optimizer.sums.count == 3
            seen.add(buffers_sha256(session))
    assert len(seen) == 1


def test_a_datum_of_which_nothing_counts_leaves_its_tree_as_it_is() -> None:
    datums = conversations(LLAMA)
    idle = replace(datums[2], inputs={**datums[2].inputs, "weights": np.zeros(len(datums[2]), np.float32)})
    found: list[str] = []
    for data in (datums[:2] + datums[3:], [*datums[:2], idle, *datums[3:]]):
        session = session_of()
        session.forward_backward(data, LOSS)
        found.append(buffers_sha256(session))
    assert found[0] == found[1]


def test_a_failed_request_leaves_what_was_accumulated(monkeypatch: pytest.MonkeyPatch) -> None:
    datums = conversations(LLAMA)
    session, unharmed = session_of(how=HOW[0]), session_of(how=HOW[0])
    for each in (session, unharmed):
        each.forward_backward(datums[:2], LOSS)

    def broken(*_: object) -> object:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("tinsmith.engine.unit_sums._sum", broken)
        with pytest.raises(MemoryError):
            session.forward_backward(datums[2:], LOSS)
    assert session.optimizer.sums.count == unharmed.optimizer.sums.count
    for each in (session, unharmed):
        each.forward_backward(datums[2:], LOSS)
    assert buffers_sha256(session) == buffers_sha256(unharmed)
