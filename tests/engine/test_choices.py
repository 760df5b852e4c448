"""Tokens drawn from adjusted rows: the formulas of others, and what an adjustment must leave alone."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import MinPLogitsWarper, RepetitionPenaltyLogitsProcessor

from models import CONFIG, VOCAB, small_decoder, tokens
from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.choices import Choice, adjust, ln
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Group, Policy, Waiting
from tinsmith.models.decoder import Decoder
from tinsmith.ops.spreads import entropy_of, rank_of
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import (
    Adjustments,
    SampledSequence,
    SampleRequest,
    SampleResult,
    SamplingParams,
    Spread,
    StopReason,
)

PROMPT = tokens(np.random.default_rng(0), 21)
PENALTIES = Adjustments(repetition_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


def request(adjustments: Adjustments | None, **params: object) -> SampleRequest:
    settings = {"seed": 3, "max_tokens": 20, "stop": (), "adjustments": adjustments, **params}
    return SampleRequest(
        prompt=PROMPT,
        params=SamplingParams(**settings),  # pyright: ignore[reportArgumentType]
        num_samples=4,
    )


def serve(decoder: Decoder, *requests: SampleRequest) -> list[tuple[SampledSequence, ...]]:
    sampler = Sampler(CONFIG, decoder.kernels)
    results = sampler.sample(requests, [Policy(decoder, {})] * len(requests))
    return [result.sequences for result in results]


def key(sequences: Sequence[SampledSequence]) -> list[tuple[bytes, bytes]]:
    return [(one.tokens.tobytes(), one.logprobs.tobytes()) for one in sequences]


def row(seed: int = 0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).normal(size=VOCAB) * 3).astype(np.float32)


def adjusted(
    adjustments: Adjustments,
    *,
    output: Sequence[int] = (),
    temperature: float = 1.0,
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.float32]:
    values = row()
    adjust(values, Choice(adjustments, PROMPT, output, allowed), temperature)
    return values


@pytest.mark.parametrize("penalty", [0.8, 1.0, 1.2, 2.0])
def test_repetition_is_what_transformers_makes_of_it(penalty: float) -> None:
    output = [5, 5, 9]
    seen = torch.tensor([[*PROMPT.tolist(), *output]])
    theirs = RepetitionPenaltyLogitsProcessor(penalty)(seen, torch.from_numpy(row()[None]))  # type: ignore[arg-type]
    np.testing.assert_array_equal(adjusted(Adjustments(repetition_penalty=penalty), output=output), theirs[0].numpy())


@pytest.mark.parametrize("min_p", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_min_p_keeps_what_transformers_keeps(min_p: float, temperature: float) -> None:
    scaled = torch.from_numpy(row()[None] / np.float32(temperature))
    theirs = MinPLogitsWarper(min_p)(torch.empty(1, 0, dtype=torch.long), scaled)  # type: ignore[arg-type]
    ours = adjusted(Adjustments(min_p=min_p), temperature=temperature)
    np.testing.assert_array_equal(np.isfinite(ours), torch.isfinite(theirs[0]).numpy())


def test_presence_and_frequency_follow_the_formula_of_openai() -> None:
    output = [5, 9, 5, 5]
    expected = row()
    for token in set(output):
        count = np.float32(output.count(token))
        expected[token] -= np.float32(0.2) * count
        expected[token] -= np.float32(0.4)
    got = adjusted(Adjustments(presence_penalty=0.4, frequency_penalty=0.2), output=output)
    np.testing.assert_array_equal(got, expected)


def test_a_bias_is_added_before_the_penalties() -> None:
    token = int(PROMPT[0])
    got = adjusted(Adjustments(logit_bias=((token, 50.0),), repetition_penalty=2.0))
    assert got[token] == (row()[token] + np.float32(50)) / np.float32(2)


def test_min_p_is_relative_to_what_the_grammar_left() -> None:
    allowed = np.zeros(VOCAB, np.bool_)
    allowed[np.argsort(row())[:3]] = True
    got = adjusted(Adjustments(min_p=1.0), allowed=allowed)
    assert np.flatnonzero(np.isfinite(got)).tolist() == [int(np.argsort(row())[2])]


@pytest.mark.parametrize("x", [1e-6, 0.05, 0.1, 0.5, 1.0])
def test_our_logarithm_is_a_logarithm(x: float) -> None:
    assert math.isclose(ln(x), math.log(x), rel_tol=1e-15, abs_tol=0.0)


@pytest.mark.parametrize("adjustments", [None, Adjustments(), Adjustments(logit_bias=((7, 0.0),))], ids=str)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_what_adjusts_nothing_changes_no_bit(
    decoder: Decoder, adjustments: Adjustments | None, temperature: float
) -> None:
    for top in ({}, {"top_k": 9, "top_p": 0.8}):
        plain, other = serve(
            decoder, request(None, temperature=temperature, **top), request(adjustments, temperature=temperature, **top)
        )
        assert key(plain) == key(other)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logprobs_stay_those_of_the_model(decoder: Decoder, temperature: float) -> None:
    (sampled,) = serve(decoder, request(PENALTIES, temperature=temperature))
    for sequence in sampled:
        whole = np.concatenate([PROMPT, sequence.tokens])
        score = SampleRequest(prompt=whole, params=SamplingParams(seed=0, max_tokens=0), prompt_logprobs=True)
        result = Sampler(CONFIG, decoder.kernels).sample([score], [Policy(decoder, {})])[0]
        assert result.prompt_logprobs[len(PROMPT) :].tobytes() == sequence.logprobs.tobytes()


def test_neighbours_change_nothing(decoder: Decoder) -> None:
    one, other = request(PENALTIES), request(Adjustments(min_p=0.2), seed=4)
    together = serve(decoder, request(None), one, other, request(None, seed=9))
    alone = [serve(decoder, each)[0] for each in (one, other)]
    assert [key(each) for each in together[1:3]] == [key(each) for each in alone]
    assert key(together[0]) == key(serve(decoder, request(None))[0])


def test_temperature_zero_takes_the_best_of_the_adjusted_row(decoder: Decoder) -> None:
    (sequences,) = serve(decoder, request(Adjustments(logit_bias=((7, 1e5), (8, 1e5))), temperature=0.0))
    for sequence in sequences:
        assert set(sequence.tokens.tolist()) <= {7, 8}  # 1e5 leaves seven bits: ties go to 7
        assert sequence.logprobs.max() < 0.0


def test_a_bias_as_large_as_it_may_be_demands_its_tokens(decoder: Decoder) -> None:
    demanded = sorted({*PROMPT.tolist()})
    bias = Adjustments(logit_bias=tuple((token, 1e3) for token in demanded))
    (sequences,) = serve(decoder, request(bias, max_tokens=5))
    assert all(set(one.tokens.tolist()) <= set(demanded) for one in sequences)


@pytest.mark.parametrize(
    "adjustments",
    [
        Adjustments(min_p=1.5),
        Adjustments(min_p=math.nan),
        Adjustments(repetition_penalty=0.0),
        Adjustments(presence_penalty=2.5),
        Adjustments(frequency_penalty=-2.5),
        Adjustments(logit_bias=((VOCAB, 1.0),)),
        Adjustments(logit_bias=((2, 1.0), (1, 1.0))),
        Adjustments(logit_bias=((2, 1.0), (2, 1.0))),
        Adjustments(logit_bias=((2, math.inf),)),
    ],
    ids=str,
)
def test_adjustments_out_of_range_are_refused_by_name(decoder: Decoder, adjustments: Adjustments) -> None:
    with pytest.raises(InputError) as caught:
        Sampler(CONFIG, decoder.kernels).submit(request(adjustments), Policy(decoder, {}))
    assert caught.value.field.split("[")[0] in Adjustments.__slots__


def ask(**fields: object) -> SampleRequest:
    settings: dict[str, object] = {"prompt": PROMPT, **fields}
    settings.setdefault("params", SamplingParams(seed=0, max_tokens=0))
    return SampleRequest(**settings)  # pyright: ignore[reportArgumentType]


def test_a_prompt_can_be_scored_without_a_token(decoder: Decoder) -> None:
    scored = ask(prompt_logprobs=True, topk_logprobs=3, num_samples=2)
    result = Sampler(CONFIG, decoder.kernels).sample([scored], [Policy(decoder, {})])[0]
    drawn = ask(prompt_logprobs=True, params=SamplingParams(seed=0, max_tokens=1))
    other = Sampler(CONFIG, decoder.kernels).sample([drawn], [Policy(decoder, {})])[0]
    assert result.prompt_logprobs.tobytes() == other.prompt_logprobs.tobytes()
    assert [one.stop_reason for one in result.sequences] == [StopReason.LENGTH] * 2
    assert [len(one.tokens) for one in result.sequences] == [0, 0]
    assert result.sequences[0].top.tokens.shape == (0, 3)


def test_a_prompt_that_fills_the_context_can_be_scored(decoder: Decoder) -> None:
    whole = tokens(np.random.default_rng(1), CONFIG.max_positions)
    sampler = Sampler(CONFIG, decoder.kernels)
    free = sampler.pool.available
    result = sampler.sample([ask(prompt=whole, prompt_logprobs=True)], [Policy(decoder, {})])[0]
    assert np.isfinite(result.prompt_logprobs[1:]).all()
    assert sampler.pool.available == free


@pytest.mark.parametrize("fields", [{}, {"prompt": PROMPT[:1], "prompt_logprobs": True}], ids=str)
def test_nothing_to_sample_and_nothing_to_score_is_refused(decoder: Decoder, fields: dict[str, object]) -> None:
    with pytest.raises(InputError, match="max_tokens"):
        Sampler(CONFIG, decoder.kernels).submit(ask(**fields), Policy(decoder, {}))


def test_targets_are_scored_as_the_prompt_itself_is(decoder: Decoder) -> None:
    rng = np.random.default_rng(2)
    targets = rng.integers(-1, VOCAB, (len(PROMPT) - 1, 4)).astype(np.int32)
    targets[:, 0] = PROMPT[1:]
    at, other_token = 6, 31
    targets[at, 1] = other_token
    question = ask(prompt_logprobs=True, target_prompt_logprobs=targets)
    result = Sampler(CONFIG, decoder.kernels).sample([question], [Policy(decoder, {})])[0]
    assert result.target_prompt_logprobs[:, 0].tobytes() == result.prompt_logprobs[1:].tobytes()
    assert (result.target_prompt_logprobs[targets < 0] == 0.0).all()
    swapped = PROMPT.copy()
    swapped[at + 1] = other_token
    again = ask(prompt=swapped, prompt_logprobs=True)
    other = Sampler(CONFIG, decoder.kernels).sample([again], [Policy(decoder, {})])[0]
    assert result.target_prompt_logprobs[at, 1] == other.prompt_logprobs[at + 1]


@pytest.mark.parametrize(
    "targets",
    [
        np.zeros((len(PROMPT), 1), np.int32),
        np.zeros(len(PROMPT) - 1, np.int32),
        np.full((len(PROMPT) - 1, 1), VOCAB, np.int32),
        np.full((len(PROMPT) - 1, 1), -2, np.int32),
    ],
    ids=lambda targets: str(targets.shape),
)
def test_targets_that_do_not_fit_are_refused(decoder: Decoder, targets: NDArray[np.int32]) -> None:
    with pytest.raises(InputError, match="target_prompt_logprobs"):
        Sampler(CONFIG, decoder.kernels).submit(ask(target_prompt_logprobs=targets), Policy(decoder, {}))


def test_alternatives_are_independent_draws_that_others_do_not_change(decoder: Decoder) -> None:
    def alternatives(k: int, **fields: object) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        calls = ask(prompt_alternatives=k, **fields)
        result = Sampler(CONFIG, decoder.kernels).sample([calls], [Policy(decoder, {})])[0]
        return result.prompt_alternatives.tokens, result.prompt_alternatives.logprobs

    drawn, logprobs = alternatives(64)
    assert drawn.shape == logprobs.shape == (len(PROMPT) - 1, 64)
    few = alternatives(5, num_samples=3, params=SamplingParams(seed=0, max_tokens=2))[0]
    assert few.tobytes() == np.ascontiguousarray(drawn[:, :5]).tobytes()
    targets = ask(target_prompt_logprobs=drawn)
    scored = Sampler(CONFIG, decoder.kernels).sample([targets], [Policy(decoder, {})])[0]
    assert scored.target_prompt_logprobs.tobytes() == logprobs.tobytes()
    greedy = alternatives(3, params=SamplingParams(seed=0, max_tokens=0, temperature=0.0))[0]
    assert all(one == other for one, other in pairwise(greedy.T.tolist()))


def test_alternatives_come_as_often_as_they_are_probable(decoder: Decoder) -> None:
    """Against the distribution's own figures, over all places at once: a chi-square per place would see less."""
    k = 512
    asked = ask(prompt_alternatives=k, topk_prompt_logprobs=1)
    result = Sampler(CONFIG, decoder.kernels).sample([asked], [Policy(decoder, {})])[0]
    best, p = result.prompt_top.tokens[1:, 0], np.exp(result.prompt_top.logprobs[1:, 0])
    hits = (result.prompt_alternatives.tokens == best[:, None]).sum(1)
    deviation = (hits - k * p).sum() / np.sqrt((k * p * (1 - p)).sum())
    assert abs(deviation) < 4.0


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
    return tuple(each.tobytes() for each in (spread.ranks, spread.entropies, spread.logprobs, spread.best))


def test_figures_are_those_of_the_whole_distribution(decoder: Decoder) -> None:
    request = asked(1, 20, everything=True)
    (result,) = answered(decoder, request)
    spread, top = result.prompt_spread, result.prompt_top
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
def test_targets_of_a_spread_that_do_not_fit_are_refused(decoder: Decoder, targets: list[int], field: str) -> None:
    request = SampleRequest(
        prompt=np.array([1, 2, 3], np.int32),
        params=SamplingParams(seed=0, max_tokens=0),
        spread_targets=np.array(targets, np.int32),
    )
    with pytest.raises(InputError, match=field):
        answered(decoder, request)


def test_a_row_of_which_nothing_is_asked_changes_no_other_and_says_nothing(decoder: Decoder) -> None:
    whole, beside = asked(3, 20), asked(4, 30)
    places = np.array([0, 1, 2, 9, 18])
    wanted = whole.spread_targets.copy()
    wanted[places] = -1
    part = SampleRequest(prompt=whole.prompt, params=whole.params, spread_targets=wanted)
    limits = SamplerLimits(prefill_tokens=7, logits=3 * VOCAB)
    found = answered(decoder, part, beside, limits=limits)[0].prompt_spread
    expected = answered(decoder, whole)[0].prompt_spread
    assert expected is not None
    assert np.isnan(found.entropies[places]).all()
    assert np.isnan(found.logprobs[places]).all()
    assert not found.ranks[places].any()
    assert (found.best[places] == -1).all()
    kept = np.delete(np.arange(19), places)
    for name in ("ranks", "entropies", "logprobs", "best"):
        assert getattr(found, name)[kept].tobytes() == getattr(expected, name)[kept].tobytes()


def group() -> Group:
    nothing: Any = None
    request = SampleRequest(prompt=np.array([1], np.int32), params=SamplingParams(seed=0, max_tokens=1))
    return Group(request, nothing, nothing)


def test_owners_take_turns_and_each_ones_requests_stay_in_order() -> None:
    waiting, named = Waiting(), {name: group() for name in ("a0", "a1", "a2", "a3", "b0", "b1", "c0")}
    for name, each in named.items():
        waiting.add(each, name[0])
    order: list[str] = []
    while waiting:
        first = waiting.first
        assert waiting.pop() is first
        order += [name for name, each in named.items() if each is first]
    assert order == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_what_is_taken_out_is_not_computed() -> None:
    waiting, kept, other = Waiting(), group(), group()
    waiting.add(other, "a")
    waiting.add(kept, "b")
    assert waiting.remove(other)
    assert not waiting.remove(other)
    assert waiting.pop() is kept
    assert not waiting
