"""Each negative control changes what it is named for, and nothing else."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from loopback import KEPT
from models import CONFIG, scored, tokens
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import AdamParams, LossName
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.sketches import distance

pytestmark = pytest.mark.whole

CONTROLS = [deviation for deviation in Deviation if deviation is not Deviation.NONE]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Completions of a few prompts, and what the trainer says of them."""

    tokens: list[list[int]]
    logprobs: list[bytes]
    trained: list[bytes]


@dataclass(frozen=True, slots=True)
class Seen:
    """Results of an engine: sampled, trained two steps on data that are the same for all, sampled again."""

    before: Sampled
    after: Sampled
    scored: list[bytes]
    """The trainer's log-probabilities of the first step's data."""
    steps: tuple[StepTrace, ...]
    warning: str


Look = Callable[[Deviation], Seen]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "small"
    weights = initial_weights(CONFIG, 3)
    write_folder(folder, CONFIG, {n: t * 8 if t.ndim == 2 else t for n, t in weights.items()})
    return folder


@pytest.fixture(scope="module")
def look(small: Path) -> Look:
    return cache(partial(observed, small))


def observed(folder: Path, deviation: Deviation) -> Seen:
    with Warnings() as words:
        engine = Engine({"small": str(folder)}, deviation=deviation, certificate_store=KEPT)
    session = engine.create_session("small", AdapterSpec(kind=AdapterKind.LORA, rank=4, seed=1))
    session.trace = Trace(engine.kernels)
    before = sample(engine, session)
    rng = np.random.default_rng(0)
    batch = [scored(tokens(rng, 20 + i)) for i in range(5)]
    outputs: list[bytes] = []
    for _ in range(2):
        result = session.forward_backward(batch, LossName.CROSS_ENTROPY)
        outputs = outputs or [output.logprobs.tobytes() for output in result.outputs]
        session.optim_step(AdamParams(learning_rate=5e-3))
    return Seen(
        before=before,
        after=sample(engine, session),
        scored=outputs,
        steps=session.trace.steps,
        warning="\n".join(words.messages),
    )


class Warnings(logging.Handler):
    """Warnings of the package while this is entered."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> "Warnings":
        logging.getLogger("tinsmith").addHandler(self)
        return self

    def __exit__(self, *raised: object) -> None:
        logging.getLogger("tinsmith").removeHandler(self)


def sample(engine: Engine, session: TrainingSession, *, order: int = 1) -> Sampled:
    prompts = [np.arange(3 + i, 12 + 2 * i, dtype=np.int32) for i in range(4)]
    requests = [
        SampleRequest(prompt=prompt, params=SamplingParams(seed=i, max_tokens=12, stop=()), num_samples=3)
        for i, prompt in enumerate(prompts)
    ]
    policy = freeze(session, engine.parts.policy_of)
    results = engine.sample("small", requests[::order], [policy] * len(requests))[::order]
    pairs = [(p, s) for p, r in zip(prompts, results, strict=True) for s in r.sequences]
    data = [scored(np.concatenate([prompt, one.tokens])) for prompt, one in pairs]
    outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
    return Sampled(
        tokens=[one.tokens.tolist() for _, one in pairs],
        logprobs=[one.logprobs.tobytes() for _, one in pairs],
        trained=[
            output.logprobs[len(prompt) - 1 :].tobytes() for (prompt, _), output in zip(pairs, outputs, strict=True)
        ],
    )


def test_a_sound_engine_samples_what_it_trains_and_warns_of_nothing(look: Look) -> None:
    sound = look(Deviation.NONE)
    assert sound.before.logprobs == sound.before.trained
    assert sound.after.logprobs == sound.after.trained
    assert sound.warning == ""


@pytest.mark.parametrize("deviation", CONTROLS)
def test_a_deviation_is_warned_of_in_one_line_that_names_it(look: Look, deviation: Deviation) -> None:
    (line,) = look(deviation).warning.splitlines()
    assert f"deviation={deviation}:" in line
    shown = "sampler and trainer, lora" in line
    assert shown == (deviation is not Deviation.REORDERED_GRADIENT)


@pytest.mark.parametrize("deviation", [Deviation.MERGED_ADAPTER, Deviation.STOCK_SILU, Deviation.SHARED_RNG])
def test_a_wrong_sampler_leaves_the_trainer_alone(look: Look, deviation: Deviation) -> None:
    sound, found = look(Deviation.NONE), look(deviation)
    assert found.scored == sound.scored
    assert found.steps == sound.steps


def test_a_merged_adapter_parts_from_the_trainer_once_it_is_trained(look: Look) -> None:
    sound, found = look(Deviation.NONE), look(Deviation.MERGED_ADAPTER)
    assert found.before == sound.before
    assert found.after.logprobs != found.after.trained
    assert_close(found.after)


def test_the_vendors_silu_parts_from_the_trainer_at_once(look: Look) -> None:
    found = look(Deviation.STOCK_SILU)
    assert found.before.logprobs != found.before.trained
    assert_close(found.before)


def assert_close(sampled: Sampled) -> None:
    """Another rounding, not another model."""
    ours, theirs = (np.frombuffer(b"".join(x), np.float32) for x in (sampled.logprobs, sampled.trained))
    assert 0 < np.abs(ours - theirs).max() < 1e-3


def test_a_shared_generator_makes_draws_depend_on_what_was_drawn_before(look: Look, small: Path) -> None:
    sound, found = look(Deviation.NONE), look(Deviation.SHARED_RNG)
    assert found.before.tokens != sound.before.tokens
    assert found.before.logprobs == found.before.trained
    for deviation, same in ((Deviation.NONE, True), (Deviation.SHARED_RNG, False)):
        drawn: list[list[list[int]]] = []
        for order in (1, -1):
            with Warnings():
                engine = Engine({"small": str(small)}, deviation=deviation, certificate_store=KEPT)
            session = engine.create_session("small", AdapterSpec(rank=4, seed=1))
            drawn.append(sample(engine, session, order=order).tokens)
        assert (drawn[0] == drawn[1]) == same


def test_a_reordered_gradient_is_another_sum_of_the_same_parts(look: Look) -> None:
    sound, found = look(Deviation.NONE), look(Deviation.REORDERED_GRADIENT)
    assert found.before == sound.before
    assert found.scored == sound.scored
    assert found.after.logprobs == found.after.trained
    first, other = sound.steps[0].gradient, found.steps[0].gradient
    differing = [name for name in first if first[name].sha256 != other[name].sha256]
    # A is untouched in the first step, while B is zero: its gradient is zero in any order.
    assert differing
    assert all(name.endswith("lora_B.weight") for name in differing)
    for name in differing:
        a, b = first[name], other[name]
        assert a.sketch is not None
        assert b.sketch is not None
        assert 0 < distance(a.sketch, b.sketch) < 1e-5 * a.norm
    assert found.steps[0].weights != sound.steps[0].weights


def test_there_is_nothing_to_deviate_from_without_a_promise() -> None:
    with pytest.raises(ConfigError, match="stock_silu"):
        Engine({"nano": "tinsmith/nano"}, arithmetic=Arithmetic.FAST, deviation=Deviation.STOCK_SILU)
