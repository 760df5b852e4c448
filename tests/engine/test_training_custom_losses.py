"""Custom losses and several targets a position in training: built-in gradients, one hash, refusals that add nothing."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hostile_graphs import AT_EVALUATION, NOT_FINITE
from traced import custom
from written_losses import WRITTEN

from models import VOCAB, small_decoder, tokens
from oracles import buffers_sha256, gradients, relative_error
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.ops import extension
from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import MAX_TARGETS, Datum, LossName
from tinsmith.types.errors import ConfigError, InputError

BUILT_IN = [LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO]


@pytest.fixture
def threads() -> Iterator[None]:
    before = extension.module().num_threads()
    yield
    extension.module().set_num_threads(before)


def _session(units: int = 1 << 30, unit: GradientUnit = GradientUnit.TREE) -> TrainingSession:
    adapter = create_adapter(small_decoder(), AdapterSpec(kind=AdapterKind.FULL, rank=4, seed=5))
    return TrainingSession(adapter, micro_batches=MicroBatches(units=units), gradient_unit=unit)


def _datums(q: str = "old") -> list[Datum]:
    """Three answers to one prompt and one to another; `q`: what the sampler's log-probabilities are called."""
    rng, datums = np.random.default_rng(3), list[Datum]()
    prompts = [tokens(rng, 8), tokens(rng, 5)]
    for which in (0, 1, 0, 0):
        sequence = np.concatenate([prompts[which], tokens(rng, 12)])
        action = np.arange(len(sequence) - 1) >= len(prompts[which]) - 1
        inputs = {
            "target_tokens": sequence[1:],
            q: np.where(action, rng.normal(-4.5, 0.3, len(action)), 0.0).astype(np.float32),
            "advantages": np.where(action, rng.normal(size=len(action)), 0.0).astype(np.float32),
        }
        datums.append(Datum(tokens=sequence[:-1], inputs=inputs))
    return datums


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("unit", list(GradientUnit))
def test_a_written_loss_trains_to_the_built_in_ones_bits(name: LossName, unit: GradientUnit) -> None:
    ours, theirs = _session(unit=unit), _session(unit=unit)
    result = ours.forward_backward(_datums(), custom(*WRITTEN[name.value]))
    built_in = theirs.forward_backward(_datums("logprobs"), name)
    assert buffers_sha256(ours) == buffers_sha256(theirs)
    assert result.metrics["loss:sum"] == pytest.approx(built_in.metrics["loss:sum"], rel=1e-14)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["ppo", "kl_penalised", "sequence_level", "smooth_clip"])
def test_micro_batches_and_threads_change_no_bit(name: str) -> None:
    loss, found = custom(*WRITTEN[name]), set[tuple[str, tuple[tuple[str, float], ...]]]()
    datums = [Datum(tokens=d.tokens, inputs={**d.inputs, "reference": d.inputs["old"]}) for d in _datums()]
    for count, units in ((1, 1), (2, 1 << 30), (2, 1), (1, 2)):
        extension.module().set_num_threads(count)
        session = _session(units)
        result = session.forward_backward(datums, loss)
        found.add((buffers_sha256(session), tuple(sorted(result.metrics.items()))))
    assert len(found) == 1


def test_forward_adds_no_gradient() -> None:
    session, loss = _session(), custom(*WRITTEN["ppo"])
    before = buffers_sha256(session)
    alone = session.forward(_datums(), loss)
    assert buffers_sha256(session) == before
    assert alone.metrics == session.forward_backward(_datums(), loss).metrics


def _hostile(name: str) -> CustomLoss:
    nodes = AT_EVALUATION[name][0] if name in AT_EVALUATION else NOT_FINITE[name]
    return CustomLoss.of("hostile", [LossInput("logprobs", 1)], [SentNode(**node) for node in nodes])


@pytest.mark.parametrize("name", ["outer product", "detached", "shapes that differ", *NOT_FINITE])
def test_what_cannot_be_computed_names_the_datum_and_adds_nothing(name: str) -> None:
    session = _session(1)
    session.forward_backward(_datums("logprobs"), LossName.PPO)
    before = buffers_sha256(session)
    with pytest.raises(InputError, match=r"data\[0\]"):
        session.forward_backward(_datums(), _hostile(name))
    assert buffers_sha256(session) == before


def test_a_gradient_alone_that_is_not_finite_is_no_sign_of_diverged_weights() -> None:
    with pytest.raises(InputError, match=r"data\[0\]") as refused:
        _session(1).forward_backward(_datums(), _hostile("slope of a root at zero"))
    assert refused.value.value == 0.0
    assert "diverged" not in str(refused.value)


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({}, "old"),
        ({"old": np.zeros(3, np.float32)}, "old"),
        ({"old": np.zeros((19, 1), np.float32)}, "old"),
        ({"old": np.full(19, np.nan, np.float32)}, r"old\[0\]"),
        ({"old": np.zeros(19, np.float32)}, "advantages"),
    ],
)
def test_an_input_that_a_datum_lacks_is_named(inputs: dict[str, np.ndarray], named: str) -> None:
    datum = _datums()[0]
    given = {"target_tokens": datum.inputs["target_tokens"], **inputs}
    with pytest.raises(InputError, match=rf"field: data\[0\]\.loss_fn_inputs\.{named}"):
        _session().forward_backward([Datum(tokens=datum.tokens, inputs=given)], custom(*WRITTEN["ppo"]))


def test_targets_must_have_the_declared_rank() -> None:
    with pytest.raises(InputError, match=r"data\[0\]\.loss_fn_inputs\.target_tokens"):
        _session().forward_backward(_datums(), custom(*WRITTEN["label_smoothing"]))


def test_a_custom_loss_has_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"loss_fn_config\.beta"):
        _session().forward_backward(_datums(), custom(*WRITTEN["ppo"]), {"beta": 1.0})


def test_inputs_that_are_no_parameter_are_left_alone() -> None:
    """A datum may serve several losses: the parameters of each say what it reads."""
    plain, more = _session(), _session()
    loss = custom(*WRITTEN["ppo"])
    plain.forward_backward(_datums(), loss)
    extra = [Datum(tokens=d.tokens, inputs={**d.inputs, "weights": np.full(3, np.nan)}) for d in _datums()]
    more.forward_backward(extra, loss)
    assert buffers_sha256(plain) == buffers_sha256(more)


LENGTHS, TARGETS = (12, 1, 20), (4, 3, 4)
ELEMENTWISE = [LossName.CROSS_ENTROPY, LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO]


def _apart(units: int = 1 << 30) -> TrainingSession:
    return _session(units, GradientUnit.DATUM)


def _wide(loss: LossName) -> list[Datum]:
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
    datums = _wide(loss)
    together, apart = _apart(), _apart()
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
    sessions = [_apart(units) for units in (1, 2, 1 << 30)]
    results = [session.forward_backward(_wide(loss), loss) for session in sessions]
    assert len({buffers_sha256(session) for session in sessions}) == 1
    assert len({tuple(sorted(result.metrics.items())) for result in results}) == 1


@pytest.mark.parametrize("loss", ELEMENTWISE)
def test_padding_costs_nothing_whatever_its_token(loss: LossName) -> None:
    datums, hashes = _wide(loss), set[str]()
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
        session = _apart()
        session.forward_backward(padded, loss)
        hashes.add(buffers_sha256(session))
    plain = _apart()
    plain.forward_backward(datums, loss)
    assert hashes == {buffers_sha256(plain)}


@pytest.mark.parametrize("loss", [LossName.DRO, LossName.GSPO])
def test_losses_without_a_meaning_for_several_targets_are_refused(loss: LossName) -> None:
    session = _apart()
    settings = {"beta": 0.1} if loss is LossName.DRO else {}
    with pytest.raises(InputError, match=r"data\[0\]\.loss_fn_inputs\.target_tokens"):
        session.forward_backward(_wide(LossName.PPO), loss, settings)


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
    session = _apart()
    before = buffers_sha256(session)
    with pytest.raises(InputError, match=rf"data\[0\]\.loss_fn_inputs\.{named}"):
        session.forward_backward([datum], LossName.CROSS_ENTROPY)
    assert buffers_sha256(session) == before


def test_the_number_of_targets_of_a_request_is_bounded() -> None:
    targets = np.zeros((CONTEXT := 256, MAX_TARGETS), np.int64)
    datum = Datum(tokens=np.ones(CONTEXT, np.int32), inputs={"target_tokens": targets})
    with pytest.raises(InputError, match=r"data\[16\]\.loss_fn_inputs\.target_tokens"):
        _apart().forward_backward([datum] * 17, LossName.CROSS_ENTROPY)


@pytest.mark.parametrize(("token", "at"), [(-1, "[1][0]"), (VOCAB, "[1][0]")])
def test_a_target_outside_the_vocabulary_is_named_by_both_indices(token: int, at: str) -> None:
    datum = Datum(tokens=np.array([1, 2], np.int32), inputs={"target_tokens": np.array([[1, 2], [token, 3]])})
    with pytest.raises(InputError) as caught:
        _apart().forward_backward([datum], LossName.CROSS_ENTROPY)
    assert caught.value.field == f"data[0].loss_fn_inputs.target_tokens{at}"
