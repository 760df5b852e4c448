"""Several targets a position: bit for bit what K datums say, their gradients' sum, and padding that costs nothing."""

from collections.abc import Sequence

import numpy as np
import pytest

from models import VOCAB, small_decoder, tokens
from oracles import buffers_sha256, gradients, relative_error
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import MAX_TARGETS, Datum, LossName
from tinsmith.types.errors import InputError
from tinsmith.types.gradient import GradientUnit

LENGTHS, TARGETS = (12, 1, 20), (4, 3, 4)
ELEMENTWISE = [LossName.CROSS_ENTROPY, LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO]


def _session(units: int = 1 << 30) -> TrainingSession:
    adapter = create_adapter(small_decoder(), AdapterSpec(kind=AdapterKind.FULL, rank=4, seed=5))
    return TrainingSession(adapter, micro_batches=MicroBatches(units=units), gradient_unit=GradientUnit.DATUM)


def _datums(loss: LossName) -> list[Datum]:
    rng = np.random.default_rng(3)
    names = ("weights",) if loss is LossName.CROSS_ENTROPY else ("logprobs", "advantages")
    datums: list[Datum] = []
    for length, count in zip(LENGTHS, TARGETS, strict=True):
        columns = {
            name: rng.normal(size=(length, count)).astype(np.float32) * 0.3 - (name == "logprobs") for name in names
        }
        targets = rng.integers(0, VOCAB, (length, count))
        datums.append(Datum(tokens=tokens(rng, length), inputs={"target_tokens": targets, **columns}))
    return datums


def _column(datum: Datum, k: int) -> Datum:
    columns = {name: np.ascontiguousarray(values[:, k]) for name, values in datum.inputs.items()}
    return Datum(tokens=datum.tokens, inputs=columns)


def _separate(datums: Sequence[Datum]) -> list[list[Datum]]:
    return [[_column(each, k) for k in range(each.inputs["target_tokens"].shape[1])] for each in datums]


@pytest.mark.parametrize("loss", ELEMENTWISE)
def test_k_targets_are_k_datums(loss: LossName) -> None:
    datums = _datums(loss)
    together, apart = _session(), _session()
    result = together.forward_backward(datums, loss)
    groups = _separate(datums)
    expected = apart.forward_backward([each for group in groups for each in group], loss)
    columns = iter(expected.outputs)
    for output, group in zip(result.outputs, groups, strict=True):
        stacked = np.stack([next(columns).logprobs for _ in group], axis=1)
        assert output.logprobs.tobytes() == stacked.tobytes()
    assert result.metrics == pytest.approx(expected.metrics, rel=1e-12)
    assert relative_error(gradients(together), gradients(apart)) <= 1e-6


@pytest.mark.parametrize("loss", ELEMENTWISE)
def test_micro_batches_change_no_bit(loss: LossName) -> None:
    sessions = [_session(units) for units in (1, 2, 1 << 30)]
    results = [session.forward_backward(_datums(loss), loss) for session in sessions]
    assert len({buffers_sha256(session) for session in sessions}) == 1
    assert len({tuple(sorted(result.metrics.items())) for result in results}) == 1


@pytest.mark.parametrize("loss", ELEMENTWISE)
def test_padding_costs_nothing_whatever_its_token(loss: LossName) -> None:
    datums, hashes = _datums(loss), set[str]()
    counted = "weights" if loss is LossName.CROSS_ENTROPY else "advantages"
    for token in (0, 1, VOCAB - 1):
        padded = [
            Datum(
                tokens=datum.tokens,
                inputs={
                    name: np.pad(values, ((0, 0), (0, 3)), constant_values=token if "tokens" in name else 0)
                    for name, values in datum.inputs.items()
                },
            )
            for datum in datums
        ]
        assert not padded[0].inputs[counted][:, -1].any()
        session = _session()
        session.forward_backward(padded, loss)
        hashes.add(buffers_sha256(session))
    plain = _session()
    plain.forward_backward(datums, loss)
    assert hashes == {buffers_sha256(plain)}


@pytest.mark.parametrize("loss", [LossName.DRO, LossName.GSPO])
def test_losses_without_a_meaning_for_several_targets_are_refused(loss: LossName) -> None:
    session = _session()
    settings = {"beta": 0.1} if loss is LossName.DRO else {}
    with pytest.raises(InputError, match=r"data\[0\]\.loss_fn_inputs\.target_tokens"):
        session.forward_backward(_datums(LossName.PPO), loss, settings)


@pytest.mark.parametrize(
    ("targets", "weights", "named"),
    [
        ((2, MAX_TARGETS + 1), None, "target_tokens"),
        ((2, 0), None, "target_tokens"),
        ((3, 2), None, "target_tokens"),
        ((2, 2, 1), None, "target_tokens"),
        ((2, 2), (2,), "weights"),
        ((2, 2), (2, 3), "weights"),
        ((2,), (2, 1), "weights"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    targets: tuple[int, ...], weights: tuple[int, ...] | None, named: str
) -> None:
    inputs = {"target_tokens": np.zeros(targets, np.int64)}
    if weights is not None:
        inputs["weights"] = np.zeros(weights, np.float32)
    datum = Datum(tokens=np.array([1, 2], np.int32), inputs=inputs)
    session = _session()
    before = buffers_sha256(session)
    with pytest.raises(InputError, match=rf"data\[0\]\.loss_fn_inputs\.{named}"):
        session.forward_backward([datum], LossName.CROSS_ENTROPY)
    assert buffers_sha256(session) == before


def test_the_number_of_targets_of_a_request_is_bounded() -> None:
    targets = np.zeros((CONTEXT := 256, MAX_TARGETS), np.int64)
    datum = Datum(tokens=np.ones(CONTEXT, np.int32), inputs={"target_tokens": targets})
    with pytest.raises(InputError, match=r"data\[16\]\.loss_fn_inputs\.target_tokens"):
        _session().forward_backward([datum] * 17, LossName.CROSS_ENTROPY)


@pytest.mark.parametrize(("token", "at"), [(-1, "[1][0]"), (VOCAB, "[1][0]")])
def test_a_target_outside_the_vocabulary_is_named_by_both_indices(token: int, at: str) -> None:
    datum = Datum(tokens=np.array([1, 2], np.int32), inputs={"target_tokens": np.array([[1, 2], [token, 3]])})
    with pytest.raises(InputError) as caught:
        _session().forward_backward([datum], LossName.CROSS_ENTROPY)
    assert caught.value.field == f"data[0].loss_fn_inputs.target_tokens{at}"
