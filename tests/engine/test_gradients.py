"""Gradient integrity: T1 to T6 for every kind of adapter, and T7, that they notice each known bug."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from gradient_checks import CHECKS, LENGTHS, LOSS, MUTANTS, Make

from oracles import LLAMA, QWEN2, QWEN3, make_adapter, make_datums
from tinsmith.engine.trace import Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.config import DecoderConfig
from tinsmith.models.presets import PRESETS
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum

pytestmark = pytest.mark.whole

CASES = {
    "lora": (AdapterKind.LORA, LLAMA),
    "dora": (AdapterKind.DORA, LLAMA),
    "qdora": (AdapterKind.QDORA, LLAMA),
    "full_tied": (AdapterKind.FULL, LLAMA),
    "full_biases": (AdapterKind.FULL, QWEN2),
    "full_head_norms": (AdapterKind.FULL, QWEN3),
}
NOTICED = [(mutant, name) for mutant, names in MUTANTS.items() for name in sorted(names)]


def _make(kind: AdapterKind, config: DecoderConfig, session: type[TrainingSession]) -> Make:
    spec = AdapterSpec(kind=kind, rank=4, seed=5)
    return lambda how: session(make_adapter(config, spec), micro_batches=how, gradient_unit=GradientUnit.DATUM)


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_session_passes(case: tuple[AdapterKind, DecoderConfig], check: Callable[[Make], None]) -> None:
    check(_make(*case, TrainingSession))


@pytest.mark.parametrize(("mutant", "check"), NOTICED, ids=[f"{mutant.__name__}-{name}" for mutant, name in NOTICED])
def test_a_bug_is_noticed(mutant: type[TrainingSession], check: str) -> None:
    with pytest.raises(AssertionError):
        CHECKS[check](_make(AdapterKind.LORA, LLAMA, mutant))


def test_every_check_notices_some_bug() -> None:
    assert set().union(*MUTANTS.values()) == set(CHECKS)


@pytest.mark.parametrize("first", [0, 1, 4, 6])
def test_a_micro_batch_is_an_aligned_block_of_units_within_its_limits(first: int) -> None:
    sizes = [5, 1, 1, 30, 2, 2, 2, 9]
    for how in (MicroBatches(rows=6), MicroBatches(units=3), MicroBatches(rows=8, units=2)):
        blocks = how.split(sizes, first)
        assert [i for block in blocks for i in block] == list(range(len(sizes)))
        for block in blocks:
            assert 1 <= len(block) <= how.units
            assert len(block) == 1 or sum(sizes[i] for i in block) <= how.rows
            assert len(block).bit_count() == 1
            assert (first + block.start) % len(block) == 0


def test_a_wide_and_deep_model_computes_fewer_rows_at_once() -> None:
    nano = PRESETS["nano"]
    smollm2 = replace(nano, hidden_size=576, intermediate_size=1536, num_layers=30, num_heads=9, num_kv_heads=3)
    assert MicroBatches().rows_in_memory(smollm2) == 563
    assert MicroBatches().rows_in_memory(replace(smollm2, num_layers=60)) == 281
    assert MicroBatches().rows_in_memory(nano) > MicroBatches().rows


def test_small_units_are_computed_together() -> None:
    assert MicroBatches(rows=100).split([10] * 20) == [range(8), range(8, 16), range(16, 20)]


def _marks(calls: list[list[Datum]], how: MicroBatches, *, marked: bool = True) -> tuple[str, ...]:
    session = _make(AdapterKind.LORA, LLAMA, TrainingSession)(how)
    session.trace = Trace(session.adapter.decoder.kernels, marks_units=marked)
    for datums in calls:
        session.forward_backward(datums, LOSS)
    session.optim_step(AdamParams())
    return session.trace.steps[-1].units


def test_a_unit_has_one_mark_whatever_is_computed_beside_it() -> None:
    datums = make_datums(LLAMA, LENGTHS, 4)
    together = _marks([datums], MicroBatches())
    assert len(set(together)) == len(datums)
    assert together == _marks([datums[:2], datums[2:]], MicroBatches(units=2))
    assert together == tuple(_marks([[one]], MicroBatches())[0] for one in datums)


def test_units_are_marked_only_where_it_is_asked_for() -> None:
    assert _marks([make_datums(LLAMA, LENGTHS, 4)], MicroBatches(), marked=False) == ()
