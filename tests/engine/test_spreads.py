"""Where a token stands in a distribution, and its entropy: against brute force, and whatever is computed beside it."""

import numpy as np
import pytest

from models import CONFIG, VOCAB, small_decoder, tokens
from tinsmith.engine.sampler import Sampler, SamplerLimits
from tinsmith.engine.sequences import Policy
from tinsmith.models.decoder import Decoder
from tinsmith.ops.spreads import entropy_of, rank_of
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams, Spread


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


def asked(seed: int, length: int, *, everything: bool = False) -> SampleRequest:
    rng = np.random.default_rng(seed)
    return SampleRequest(
        prompt=tokens(rng, length),
        params=SamplingParams(seed=0, max_tokens=0),
        spread_targets=tokens(rng, length - 1),
        topk_prompt_logprobs=VOCAB if everything else 0,
    )


def answered(decoder: Decoder, *requests: SampleRequest, limits: SamplerLimits | None = None) -> list[SampleResult]:
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    return sampler.sample(requests, [Policy(decoder, {})] * len(requests))


def bits(spread: Spread | None) -> tuple[bytes, ...]:
    assert spread is not None
    return tuple(each.tobytes() for each in (spread.ranks, spread.entropies, spread.logprobs, spread.best))


def test_figures_are_those_of_the_whole_distribution(decoder: Decoder) -> None:
    request = asked(1, 20, everything=True)
    assert request.spread_targets is not None
    (result,) = answered(decoder, request)
    spread, top = result.prompt_spread, result.prompt_top
    assert spread is not None
    assert top is not None
    for place, target in enumerate(request.spread_targets.tolist()):
        ids, logprobs = top.tokens[place + 1].tolist(), top.logprobs[place + 1].astype(np.float64)
        assert spread.best[place] == ids[0]
        assert spread.ranks[place] == 1 + ids.index(target)
        assert spread.logprobs[place] == top.logprobs[place + 1][ids.index(target)]
        assert spread.entropies[place] == pytest.approx(-(np.exp(logprobs) * logprobs).sum(), abs=1e-5)


def test_no_bit_depends_on_what_is_computed_beside_it(decoder: Decoder) -> None:
    requests = [asked(seed, 5 + 7 * seed) for seed in range(1, 5)]
    alone = [bits(answered(decoder, one)[0].prompt_spread) for one in requests]
    together = [bits(one.prompt_spread) for one in answered(decoder, *requests)]
    in_bits = [bits(one.prompt_spread) for one in answered(decoder, *requests, limits=SamplerLimits(logits=3 * VOCAB))]
    assert alone == together == in_bits


def test_ties_go_to_the_lower_id() -> None:
    row = np.array([0.0, 2.0, 1.0, 2.0], np.float32)
    assert [rank_of(row, token) for token in range(4)] == [(4, 1), (1, 1), (3, 1), (2, 1)]


def test_entropy_of_a_flat_row_is_the_logarithm_of_its_length() -> None:
    row = np.zeros(64, np.float32)
    assert entropy_of(row, 0.0, float(np.log(64.0))) == pytest.approx(np.log(64.0), abs=1e-12)


def test_what_is_impossible_adds_nothing_to_an_entropy() -> None:
    row = np.array([0.0, 0.0, -np.inf], np.float32)
    assert entropy_of(row, 0.0, float(np.log(2.0))) == pytest.approx(np.log(2.0), abs=1e-12)
    assert entropy_of(np.array([0.0, -np.inf], np.float32), 0.0, 0.0) == 0.0


@pytest.mark.parametrize(("targets", "field"), [([1, 2, 3], "targets"), ([1, VOCAB], r"targets\[1\]")])
def test_targets_that_do_not_fit_are_refused(decoder: Decoder, targets: list[int], field: str) -> None:
    request = SampleRequest(
        prompt=np.array([1, 2, 3], np.int32),
        params=SamplingParams(seed=0, max_tokens=0),
        spread_targets=np.array(targets, np.int32),
    )
    with pytest.raises(InputError, match=field):
        answered(decoder, request)


def test_a_row_of_which_nothing_is_asked_changes_no_other_and_says_nothing(decoder: Decoder) -> None:
    whole, beside = asked(3, 20), asked(4, 30)
    assert whole.spread_targets is not None
    places = np.array([0, 1, 2, 9, 18])
    wanted = whole.spread_targets.copy()
    wanted[places] = -1
    part = SampleRequest(prompt=whole.prompt, params=whole.params, spread_targets=wanted)
    limits = SamplerLimits(prefill_tokens=7, logits=3 * VOCAB)
    found = answered(decoder, part, beside, limits=limits)[0].prompt_spread
    expected = answered(decoder, whole)[0].prompt_spread
    assert found is not None
    assert expected is not None
    assert np.isnan(found.entropies[places]).all()
    assert np.isnan(found.logprobs[places]).all()
    assert not found.ranks[places].any()
    assert (found.best[places] == -1).all()
    kept = np.delete(np.arange(19), places)
    for name in ("ranks", "entropies", "logprobs", "best"):
        assert getattr(found, name)[kept].tobytes() == getattr(expected, name)[kept].tobytes()
