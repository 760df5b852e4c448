"""Drafted tokens: found where they stood before, and of no influence on any bit of what is drawn."""

import numpy as np
import pytest
from mixtures import CONFIGS, mixture_adapter

from models import CONFIG, VOCAB, small_decoder, tokens
from tinsmith.engine.drafts import Drafts
from tinsmith.engine.sampler import Sampler, SamplerLimits, usual_limits
from tinsmith.engine.sequences import Policy
from tinsmith.models.decoder import Decoder
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.sampling import Adjustments, SampleRequest, SamplingParams

pytestmark = pytest.mark.whole

FEW = tuple((token, 30.0) for token in (3, 4, 5))
"""Biases that leave three tokens, so that what was drawn comes again."""


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


def drafts(*prompt: int) -> Drafts:
    return Drafts(np.array(prompt, np.int32))


def test_a_draft_is_what_followed_the_latest_three_tokens_when_they_last_stood_there() -> None:
    assert drafts(1, 2, 3, 7, 1, 2, 3, 8, 9, 1, 2).next([3], 7) == [8]
    assert drafts(1, 2, 3, 4).next([1, 2, 9], 7) == []
    assert drafts(1, 2, 3, 4, 1, 2).next([3], 0) == []


def test_tokens_are_looked_for_as_such_and_not_across_their_bytes() -> None:
    one, shifted = 0x01010101, 0x010101
    assert drafts(shifted, one, one, shifted << 8, 5, one, one).next([one], 7) == []


def test_a_draft_grows_where_it_comes_true_and_shrinks_where_it_does_not() -> None:
    text = list(range(10, 30))
    one = drafts(*text)
    written = text[:3]
    widths: list[int] = []
    for _ in range(3):
        came = one.next(written, 7)
        widths.append(len(came))
        written += [*came, text[len(written) + len(came)]]
    assert widths == [1, 3, 7]
    written += [99, *text[:3]]
    assert len(one.next(written, 7)) == 7
    written += [*text[3:9], 98]  # all but the last came true: neither
    assert one.next(written, 7) == []
    written += text[:3]
    assert len(one.next(written, 7)) == 7
    written += [97, *text[:3]]
    assert len(one.next(written, 7)) == 3


def spelled(token: int) -> bytes:
    return bytes([ord("a") + token % 26])


def shown(sampler: Sampler, requests: list[SampleRequest], policies: list[Policy]) -> list[object]:
    """Every bit of the answers."""
    return [
        (
            one.tokens.tobytes(),
            one.logprobs.tobytes(),
            one.stop_reason,
            None if one.top is None else (one.top.tokens.tobytes(), one.top.logprobs.tobytes()),
        )
        for result in sampler.sample(requests, policies)
        for one in result.sequences
    ]


@pytest.mark.parametrize(
    ("drafted", "law"),
    [
        (7, {"temperature": 0.0}),
        (3, {"temperature": 0.0, "stop": (3,)}),
        (7, {"stop": ("dfded",)}),
        (1, {"top_k": 2}),
        (7, {"adjustments": Adjustments(logit_bias=FEW, frequency_penalty=0.5, repetition_penalty=1.1)}),
    ],
    ids=["greedy", "stop token", "stop string", "top 2", "penalties"],
)
def test_no_bit_depends_on_drafts(decoder: Decoder, drafted: int, law: dict[str, object]) -> None:
    rng = np.random.default_rng(drafted)
    least = -(-CONFIG.max_positions // 16) + 1
    law = {"adjustments": Adjustments(logit_bias=FEW), "stop": (), **law}
    limits = [SamplerLimits(cache_pages=least), SamplerLimits(cache_pages=least, drafted=drafted, kept_pages=None)]
    plain, drafting = (Sampler(CONFIG, decoder.kernels, limits=one, text=spelled) for one in limits)
    for samples, most in ((1, 40), (2, 25), (3, 9), (1, 1), (1, 2), (1, None)):
        params = SamplingParams(**{"seed": samples, "max_tokens": most, **law})  # pyright: ignore[reportArgumentType]
        requests = [
            SampleRequest(prompt=tokens(rng, count), params=params, num_samples=samples, topk_logprobs=2)
            for count in (5, 19)
        ]
        policies = [Policy(decoder, {}, decoder)] * 2
        assert shown(drafting, requests, policies) == shown(plain, requests, policies)
    assert plain.num_drafted == 0
    assert drafting.num_confirmed > 0
    assert drafting.num_confirmed < drafting.num_drafted or "temperature" in law or law["stop"]  # few, or in circles
    assert drafting.pool.available == drafting.pool.capacity


def test_more_than_two_samples_and_mixtures_are_not_drafted_for(decoder: Decoder) -> None:
    params = SamplingParams(seed=0, max_tokens=20, stop=(), adjustments=Adjustments(logit_bias=FEW))
    request = SampleRequest(prompt=tokens(np.random.default_rng(0), 9), params=params, num_samples=3)
    many = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(drafted=7))
    many.sample([request], [Policy(decoder, {})])
    adapter = mixture_adapter(CONFIGS["olmoe"], AdapterKind.LORA)
    mixture = Sampler(adapter.decoder.config, adapter.decoder.kernels, limits=SamplerLimits(drafted=7))
    one = SampleRequest(prompt=request.prompt % VOCAB, params=params)
    mixture.sample([one], [Policy(adapter.decoder, adapter.low)])
    assert (many.num_drafted, mixture.num_drafted) == (0, 0)


def test_an_engine_drafts_where_bits_are_promised() -> None:
    assert [usual_limits(each).drafted for each in (Arithmetic.CANONICAL, Arithmetic.INVARIANT, Arithmetic.FAST)] == [
        7,
        7,
        0,
    ]
    assert SamplerLimits().drafted == 0
