"""Custom losses in training: the built-in ones' gradients, one hash, refusals that add nothing."""

from collections.abc import Iterator

import numpy as np
import pytest
from hostile_graphs import AT_EVALUATION, NOT_FINITE
from traced import custom
from written_losses import WRITTEN

from models import small_decoder, tokens
from oracles import buffers_sha256
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.ops import extension
from tinsmith.ops.custom_loss.graph import LossInput, SentNode
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import Datum, LossName
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.gradient import GradientUnit

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
