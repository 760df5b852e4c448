"""First tokens of requests with many samples: bounded a step, fair to others, and the same bits."""

from dataclasses import replace

import numpy as np
import pytest

from models import CONFIG, small_decoder, tokens
from tinsmith.engine import choices
from tinsmith.engine import sampler as sampler_module
from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.decoder import Decoder
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.sampling import Adjustments, SampleRequest, SampleResult, SamplingParams

pytestmark = pytest.mark.whole

PROMPT = tokens(np.random.default_rng(0), 21)
PENALTY = Adjustments(repetition_penalty=1.3, min_p=0.01)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


@pytest.fixture
def per_step(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of tokens of each call that draws."""
    numbers: list[int] = []

    def counted(*given: object) -> object:
        numbers.append(len(given[3]))  # pyright: ignore[reportArgumentType]
        return choices.choose(*given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(sampler_module, "choose", counted)
    return numbers


def request(num_samples: int, *, max_tokens: int = 3, adjustments: Adjustments | None = None) -> SampleRequest:
    params = SamplingParams(seed=7, max_tokens=max_tokens, stop=(), adjustments=adjustments)
    return SampleRequest(prompt=PROMPT, params=params, num_samples=num_samples)


def bits(result: SampleResult | None) -> list[tuple[bytes, bytes]]:
    assert result is not None
    return [(one.tokens.tobytes(), one.logprobs.tobytes()) for one in result.sequences]


@pytest.mark.parametrize("adjustments", [None, PENALTY])
@pytest.mark.parametrize("max_tokens", [1, 3])
def test_a_step_draws_as_many_as_it_decodes_and_the_bits_are_the_same(
    decoder: Decoder, per_step: list[int], max_tokens: int, adjustments: Adjustments | None
) -> None:
    requests = request(50, max_tokens=max_tokens, adjustments=adjustments)
    [at_once] = Sampler(CONFIG, decoder.kernels).sample([requests], [Policy(decoder, {})])
    assert per_step[0] == 50
    per_step.clear()
    few = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(max_samples=8))
    assert bits(few.sample([requests], [Policy(decoder, {})])[0]) == bits(at_once)
    assert max(per_step) == 8
    assert few.pool.available == few.pool.capacity


def test_another_request_is_answered_while_many_samples_wait(decoder: Decoder) -> None:
    few = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(max_samples=8))
    many = few.submit(request(200, max_tokens=1), Policy(decoder, {}), owner="one")
    few.step()
    other = few.submit(request(1, max_tokens=1), Policy(decoder, {}), owner="two")
    ended = [group for _ in range(3) for group in few.step()]
    assert ended == [other]
    few.cancel(many)
    assert not few.busy
    assert few.pool.available == few.pool.capacity


def test_requests_that_wait_share_a_step(decoder: Decoder, per_step: list[int]) -> None:
    few = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(max_samples=8))
    groups = [few.submit(request(40, max_tokens=1), Policy(decoder, {})) for _ in range(3)]
    while few.busy:
        few.step()
    assert max(per_step) <= 8 + 3
    assert bits(groups[0].result) == bits(groups[1].result) == bits(groups[2].result)


def test_first_tokens_of_a_prompt_are_drawn_from_one_adjusted_row(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    adjust = choices.adjust

    def counted(*given: object) -> None:
        rows.append(1)
        adjust(*given)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(choices, "adjust", counted)
    question = request(50, max_tokens=1, adjustments=PENALTY)
    Sampler(CONFIG, decoder.kernels).sample([question, question], [Policy(decoder, {})] * 2)
    assert len(rows) == 2


@pytest.mark.parametrize(("field", "value"), [("top_k", 2**63), ("temperature", 1e-34)])
def test_numbers_that_no_kernel_takes_are_refused(decoder: Decoder, field: str, value: float) -> None:
    params = SamplingParams(**{"max_tokens": 3, "seed": 0, field: value})  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError) as refused:
        Sampler(CONFIG, decoder.kernels).submit(SampleRequest(prompt=PROMPT, params=params), Policy(decoder, {}))
    assert refused.value.field == field


@pytest.mark.parametrize("changes", [{"head_dim": 1026}, {"num_heads": 1100, "num_kv_heads": 1}])
def test_shapes_that_no_kernel_takes_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as refused:
        replace(CONFIG, **changes)  # pyright: ignore[reportArgumentType]
    assert refused.value.field == next(iter(changes))
