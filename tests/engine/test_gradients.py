"""Gradient integrity: T1 to T6 for every kind of adapter, and T7, that they notice each known bug."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gradient_checks import CHECKS, MUTANTS, Make

from oracles import LLAMA, QWEN2, QWEN3, make_adapter
from tinsmith.engine.training import MicroBatches, TrainingSession
from tinsmith.models.config import DecoderConfig
from tinsmith.types.adapters import AdapterKind, AdapterSpec

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
    return lambda how: session(make_adapter(config, spec), micro_batches=how)


@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_session_passes(
    case: tuple[AdapterKind, DecoderConfig], check: Callable[[Make], None]
) -> None:
    check(_make(*case, TrainingSession))


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.FULL])
@pytest.mark.parametrize(
    ("mutant", "check"), NOTICED, ids=[f"{mutant.__name__}-{name}" for mutant, name in NOTICED]
)
def test_a_bug_is_noticed(mutant: type[TrainingSession], check: str, kind: AdapterKind) -> None:
    with pytest.raises(AssertionError):
        CHECKS[check](_make(kind, LLAMA, mutant))


def test_every_check_notices_some_bug() -> None:
    assert set().union(*MUTANTS.values()) == set(CHECKS)


def test_a_micro_batch_holds_consecutive_datums_within_its_limits() -> None:
    lengths = [5, 1, 1, 30, 2, 2, 2, 9]
    for how in (MicroBatches(rows=6), MicroBatches(units=3), MicroBatches(rows=8, units=2)):
        runs = how.split(lengths, 97)
        assert [i for run in runs for i in run] == list(range(len(lengths)))
        for run in runs:
            assert 1 <= len(run) <= how.datums
            assert len(run) == 1 or sum(lengths[i] for i in run) <= how.tokens


def test_a_large_vocabulary_makes_micro_batches_smaller() -> None:
    lengths = [100] * 10
    assert len(MicroBatches().split(lengths, 1 << 16)) == 1
    assert len(MicroBatches().split(lengths, 1 << 18)) == 5
    assert len(MicroBatches().split(lengths, 1 << 20)) == 10
