"""The engine as a whole: names, folders, stop strings, sessions that do not touch each other."""

from pathlib import Path

import numpy as np
import pytest

from models import CONFIG
from tinsmith.engine.engine import Engine, freeze
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import BackendError, ConfigError, InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams, StopReason

pytestmark = pytest.mark.whole

PROMPT = np.arange(5, 14, dtype=np.int32)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("models") / "small"
    write_folder(folder, CONFIG, initial_weights(CONFIG, 3))
    return Engine({"nano": "tinsmith/nano", "small": str(folder)})


def ask(engine: Engine, name: str, **params: object) -> list[int]:
    settings = {"seed": 0, "max_tokens": 12, "stop": (), **params}
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(**settings))  # pyright: ignore[reportArgumentType]
    return engine.sample(name, [request], [engine.base_policy(name)])[0].sequences[0].tokens.tolist()


def test_every_model_has_a_certificate_that_holds(engine: Engine) -> None:
    assert set(engine.certificates) == {"nano", "small"}
    assert all(certificate.holds for certificate in engine.certificates.values())


def test_an_unknown_model_names_the_served_ones(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="nano, small, each also with :dora, :qlora, :qdora, :full"):
        engine.create_session("no/such", AdapterSpec())


def test_a_path_that_is_no_folder_is_refused_without_asking_a_hub(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Engine({"x": str(tmp_path / "nothing")})


def test_a_stop_string_is_found_in_the_tokenizers_text(engine: Engine) -> None:
    text = preset_tokenizer("nano")
    free = ask(engine, "nano", max_tokens=60)
    letters = str(text.decode(free))
    wanted = letters[len(letters) // 2]
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=0, max_tokens=60, stop=(wanted,)))
    found = engine.sample("nano", [request], [engine.base_policy("nano")])[0].sequences[0]
    assert found.stop_reason is StopReason.STOP
    assert wanted in str(text.decode(found.tokens.tolist()))
    assert wanted not in str(text.decode(found.tokens.tolist()[:-1]))


def test_stop_strings_need_a_tokenizer(engine: Engine) -> None:
    with pytest.raises(InputError, match="tokenizer"):
        ask(engine, "small", stop=("x",))


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_a_session_changes_neither_the_base_nor_another_session_nor_a_frozen_policy(
    engine: Engine, kind: AdapterKind
) -> None:
    data = [Datum(tokens=PROMPT[:-1], inputs={"target_tokens": PROMPT[1:]})]
    first, second = (engine.create_session("small", AdapterSpec(kind=kind, rank=2, seed=s)) for s in (0, 1))
    base, other, frozen = ask(engine, "small"), freeze(second), freeze(first)
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=4, max_tokens=20, stop=()))
    before = engine.sample("small", [request, request], [frozen, other])
    for _ in range(3):
        first.forward_backward(data, LossName.CROSS_ENTROPY)
        first.optim_step(AdamParams(learning_rate=0.05))
    after = engine.sample("small", [request, request, request], [frozen, other, freeze(first)])
    logprobs = [r.sequences[0].logprobs.tobytes() for r in (*before, *after)]
    assert logprobs[0] == logprobs[2]
    assert logprobs[1] == logprobs[3]
    assert logprobs[4] != logprobs[2]
    assert ask(engine, "small") == base


def test_what_is_not_computed_here_is_refused_in_one_line() -> None:
    for arithmetic, device in ((Arithmetic.CANONICAL, "cuda"), (Arithmetic.INVARIANT, "cpu")):
        with pytest.raises(BackendError) as error:
            Engine({"nano": "tinsmith/nano"}, arithmetic=arithmetic, device=device)
        assert len(str(error.value).splitlines()) == 1


def test_fast_samples_and_trains_close_to_canonical(engine: Engine) -> None:
    fast = Engine({"nano": "tinsmith/nano"}, arithmetic=Arithmetic.FAST)
    data = [Datum(tokens=PROMPT[:-1], inputs={"target_tokens": PROMPT[1:]})]
    results = []
    for each in (engine, fast):
        session = each.create_session("nano", AdapterSpec(kind=AdapterKind.DORA, rank=4))
        for _ in range(3):
            session.forward_backward(data, LossName.CROSS_ENTROPY)
            session.optim_step(AdamParams(learning_rate=1e-2))
        results.append(session.forward(data, LossName.CROSS_ENTROPY).outputs[0].logprobs)
    np.testing.assert_allclose(results[0], results[1], atol=2e-3)
    assert len(ask(fast, "nano")) == 12
