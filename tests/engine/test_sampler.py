"""Answers to sampling requests: seeds, stops, limits, top-k, failures."""

import numpy as np
import pytest

from models import CONFIG, VOCAB, policy, scored, small_decoder, tokens, trained
from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter
from tinsmith.models.decoder import Decoder
from tinsmith.ops.extension import configure
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.datum import LossName
from tinsmith.types.errors import BackendError, ConfigError, InputError
from tinsmith.types.sampling import (
    Adjustments,
    SampledSequence,
    SampleRequest,
    SampleResult,
    SamplingParams,
    StopReason,
)

pytestmark = pytest.mark.whole

PROMPT = tokens(np.random.default_rng(0), 21)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


def ask(decoder: Decoder, *, num_samples: int = 1, top: int = 0, **params: object) -> SampleResult:
    settings = {"seed": 0, "max_tokens": 20, "stop": (), **params}
    request = SampleRequest(
        prompt=PROMPT,
        params=SamplingParams(**settings),  # pyright: ignore[reportArgumentType]
        num_samples=num_samples,
        topk_logprobs=top,
        topk_prompt_logprobs=top,
    )
    text = lambda token: bytes([ord("a") + token % 26])  # noqa: E731
    return Sampler(CONFIG, decoder.kernels, text=text).sample([request], [Policy(decoder, {})])[0]


def key(sequence: SampledSequence) -> tuple[bytes, bytes]:
    return sequence.tokens.tobytes(), sequence.logprobs.tobytes()


def test_sample_i_is_the_same_for_four_and_for_thirty_two_samples(decoder: Decoder) -> None:
    few, many = ask(decoder, num_samples=4), ask(decoder, num_samples=32)
    assert [key(s) for s in few.sequences] == [key(s) for s in many.sequences[:4]]


def test_top_k_and_top_p_draw_from_the_kept_tokens_only(decoder: Decoder) -> None:
    for result in (ask(decoder, top_k=3, top=3), ask(decoder, top_p=1e-6, top=1)):
        sequence = result.sequences[0]
        assert all(t in kept for t, kept in zip(sequence.tokens, sequence.top.tokens, strict=True))


def test_logprobs_are_of_the_temperature_scaled_distribution(decoder: Decoder) -> None:
    one = ask(decoder, top=VOCAB, max_tokens=1).sequences[0].top
    half = ask(decoder, top=VOCAB, max_tokens=1, temperature=0.5, top_k=2).sequences[0].top
    full, scaled = (
        dict(zip(one.tokens[0], one.logprobs[0], strict=True)),
        dict(zip(half.tokens[0], half.logprobs[0], strict=True)),
    )
    first = int(one.tokens[0, 0])
    for token in full:
        assert (scaled[token] - scaled[first]) == pytest.approx((full[token] - full[first]) / 0.5, abs=1e-4)
    assert np.exp(np.array(list(scaled.values()), np.float64)).sum() == pytest.approx(1.0, abs=1e-5)


def test_without_max_tokens_the_context_is_filled(decoder: Decoder) -> None:
    sequence = ask(decoder, max_tokens=None).sequences[0]
    assert len(PROMPT) + len(sequence.tokens) == CONFIG.max_positions


def test_one_token_of_many_samples_needs_no_cache_of_their_own(decoder: Decoder) -> None:
    result = ask(decoder, num_samples=50, max_tokens=1)
    assert len({len(s.tokens) for s in result.sequences}) == 1
    assert all(s.stop_reason is StopReason.LENGTH for s in result.sequences)


def test_every_page_is_free_again_after_everything_ended_or_was_cancelled(decoder: Decoder) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(cache_pages=40, max_samples=6, prefill_tokens=16))
    rng = np.random.default_rng(1)
    groups = [
        sampler.submit(
            SampleRequest(
                prompt=tokens(rng, 30 + i), params=SamplingParams(seed=i, max_tokens=25, stop=()), num_samples=3
            ),
            Policy(decoder, {}),
        )
        for i in range(12)
    ]
    for step in range(400):
        sampler.step()
        if step % 3 == 0 and step // 3 < 6:
            sampler.cancel(groups[2 * (step // 3)])
        if not sampler.busy:
            break
    assert not sampler.busy
    assert sampler.pool.available == 40
    assert all(group.result is not None for group in groups[1::2])


@pytest.mark.parametrize("seed", range(3))
def test_requests_cancelled_at_any_step_leave_every_page_free(decoder: Decoder, seed: int) -> None:
    """64 requests, each given up at a step drawn beforehand: waiting, prefilling, forking or running by then."""
    rng = np.random.default_rng(seed)
    limits = SamplerLimits(cache_pages=40, max_samples=24, prefill_tokens=32)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    free = sampler.pool.available
    adjusted = Adjustments(presence_penalty=0.5)
    groups = [
        sampler.submit(
            SampleRequest(
                prompt=tokens(rng, int(rng.integers(1, 60))),
                params=SamplingParams(
                    seed=i, max_tokens=int(rng.integers(1, 40)), stop=(), adjustments=adjusted if i % 3 == 0 else None
                ),
                num_samples=int(rng.integers(1, 5)),
                prompt_logprobs=i % 4 == 0,
            ),
            Policy(decoder, {}),
        )
        for i in range(64)
    ]
    given_up = rng.integers(0, 60, 64).tolist()
    for step in range(60):
        for group, at in zip(groups, given_up, strict=True):
            if at == step:
                sampler.cancel(group)
                assert not any(one.pages for one in (group, *group.samples))
        if sampler.busy:
            sampler.step()
    assert not sampler.busy
    assert sampler.pool.available == free


def test_a_full_cache_makes_requests_wait_not_fail(decoder: Decoder) -> None:
    rng = np.random.default_rng(2)
    question = [
        SampleRequest(prompt=tokens(rng, 100), params=SamplingParams(seed=i, max_tokens=100, stop=()), num_samples=2)
        for i in range(6)
    ]
    small = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(cache_pages=17))
    large = Sampler(CONFIG, decoder.kernels)
    policies = [Policy(decoder, {})] * 6
    a, b = small.sample(question, policies), large.sample(question, policies)
    assert [key(s) for r in a for s in r.sequences] == [key(s) for r in b for s in r.sequences]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"prompt": np.array([], np.int32)}, "prompt"),
        ({"prompt": np.array([3, VOCAB], np.int32)}, "prompt[1]"),
        ({"prompt": np.ones(257, np.int32)}, "257"),
        ({"params": SamplingParams(seed=0, max_tokens=250)}, "max_tokens"),
        ({"params": SamplingParams(seed=0, max_tokens=0)}, "max_tokens"),
        ({"params": SamplingParams(seed=0, temperature=-0.1)}, "temperature"),
        ({"params": SamplingParams(seed=0, temperature=float("nan"))}, "temperature"),
        ({"params": SamplingParams(seed=0, temperature=1e-39)}, "temperature"),
        ({"params": SamplingParams(seed=0, top_k=0)}, "top_k"),
        ({"params": SamplingParams(seed=0, top_p=0.0)}, "top_p"),
        ({"params": SamplingParams(seed=-1)}, "seed"),
        ({"params": SamplingParams(seed=0, stop=("",))}, "stop[0]"),
        ({"params": SamplingParams(seed=0, stop=("x",))}, "stop"),
        ({"num_samples": 0}, "num_samples"),
        ({"topk_logprobs": VOCAB + 1}, "topk_logprobs"),
    ],
)
def test_bad_requests_are_refused_by_name_and_the_sampler_goes_on(
    decoder: Decoder, change: dict[str, object], named: str
) -> None:
    good: dict[str, object] = {"prompt": PROMPT, "params": SamplingParams(seed=0, max_tokens=5)}
    sampler = Sampler(CONFIG, decoder.kernels)
    with pytest.raises(InputError) as error:
        sampler.submit(SampleRequest(**{**good, **change}), Policy(decoder, {}))  # pyright: ignore[reportArgumentType]
    assert named in str(error.value)
    assert not sampler.busy
    assert sampler.sample([SampleRequest(**good)], [Policy(decoder, {})])  # pyright: ignore[reportArgumentType]


def test_logits_that_are_not_finite_fail_their_request_and_not_its_neighbour() -> None:
    healthy, broken = small_decoder(), small_decoder()
    broken.final_norm.value[3] = float("nan")
    sampler = Sampler(CONFIG, healthy.kernels)
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=0, max_tokens=5, stop=()), num_samples=2)
    bad, good = (sampler.submit(request, Policy(broken, {})), sampler.submit(request, Policy(healthy, {})))
    while sampler.busy:
        sampler.step()
    assert isinstance(bad.failure, BackendError)
    assert bad.result is None
    assert good.result is not None
    assert sampler.pool.available == sampler.pool.capacity


def test_pages_of_a_failed_request_do_not_poison_the_next_one() -> None:
    healthy, broken = small_decoder(), small_decoder()
    first = broken.layers[0].qkv.base[0]
    first.value[0] = float("nan")
    request = SampleRequest(prompt=PROMPT, params=SamplingParams(seed=0, max_tokens=60, stop=()), num_samples=2)
    sampler = Sampler(CONFIG, healthy.kernels, limits=SamplerLimits(cache_pages=17))
    with pytest.raises(BackendError):
        sampler.sample([request], [Policy(broken, {})])
    after = sampler.sample([request], [Policy(healthy, {})])[0]
    fresh = Sampler(CONFIG, healthy.kernels).sample([request], [Policy(healthy, {})])[0]
    assert [key(s) for s in after.sequences] == [key(s) for s in fresh.sequences]


def test_a_cache_too_small_for_one_context_is_refused(decoder: Decoder) -> None:
    with pytest.raises(ConfigError, match="cache_pages"):
        Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(cache_pages=16))


LEAST_PAGES = CONFIG.max_positions // 16 + 1


def requests(rng: np.random.Generator) -> list[SampleRequest]:
    """Twelve ragged prompts of 1 to 90 tokens, groups of 1 to 8, 5 to 60 new tokens."""
    return [
        SampleRequest(
            prompt=tokens(rng, int(rng.integers(1, 91))),
            params=SamplingParams(seed=i, max_tokens=int(rng.integers(5, 61)), stop=()),
            num_samples=int(rng.choice([1, 2, 8])),
        )
        for i in range(12)
    ]


def unequal_bits(
    adapter: Adapter, asked: list[SampleRequest], results: list[SampleResult], micro_batches: MicroBatches
) -> tuple[int, int]:
    """(sampled tokens, those whose log-probability has other bits in the trainer)."""
    session = TrainingSession(adapter, micro_batches)
    pairs = [(r, s) for r, result in zip(asked, results, strict=True) for s in result.sequences]
    data = [scored(np.concatenate([r.prompt, s.tokens])) for r, s in pairs]
    outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
    count = bad = 0
    for (request, sequence), output in zip(pairs, outputs, strict=True):
        own = output.logprobs[len(request.prompt) - 1 :]
        count += len(own)
        bad += int((own.view(np.int32) != sequence.logprobs.view(np.int32)).sum())
    return count, bad


@pytest.mark.parametrize("kind", list(AdapterKind))
def test_thousands_of_sampled_tokens_have_the_trainers_bits(kind: AdapterKind) -> None:
    adapter = trained(small_decoder(quantised=kind.quantised), kind)
    calls = requests(np.random.default_rng(3))
    seen: set[bytes] = set()
    total = 0
    ways = [
        (1, SamplerLimits(), MicroBatches()),
        (2, SamplerLimits(cache_pages=LEAST_PAGES, max_samples=5, prefill_tokens=7), MicroBatches(rows=300)),
    ]
    if kind is AdapterKind.LORA:
        limits = SamplerLimits(cache_pages=LEAST_PAGES + 9, max_samples=16, prefill_tokens=50)
        ways.append((2, limits, MicroBatches(units=1)))
    for threads, limits, micro_batches in ways:
        configure(threads=threads)
        sampler = Sampler(CONFIG, adapter.decoder.kernels, limits=limits)
        results = sampler.sample(calls, [policy(adapter)] * len(calls))
        seen.add(b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for r in results for s in r.sequences))
        count, bad = unequal_bits(adapter, calls, results, micro_batches)
        assert bad == 0
        total += count
    assert len(seen) == 1
    assert total >= 1_000 * len(ways)


def test_a_batch_may_mix_adapters_and_each_gets_what_it_gets_alone() -> None:
    decoder = small_decoder()
    adapters = [
        trained(decoder, kind, seed=i, rank=3 + i) for i, kind in enumerate([AdapterKind.LORA, AdapterKind.DORA] * 2)
    ]
    full = trained(decoder, AdapterKind.FULL, seed=9)
    policies = [Policy(decoder, {}), *[policy(a) for a in adapters], policy(full)]
    rng = np.random.default_rng(4)
    asked = [
        SampleRequest(
            prompt=tokens(rng, 5 + 7 * i), params=SamplingParams(seed=i, max_tokens=20, stop=()), num_samples=2
        )
        for i in range(24)
    ]
    chosen = [policies[i % len(policies)] for i in range(24)]
    together = Sampler(CONFIG, decoder.kernels).sample(asked, chosen)
    for request, own, result in zip(asked, chosen, together, strict=True):
        alone = Sampler(CONFIG, decoder.kernels).sample([request], [own])[0]
        for a, b in zip(alone.sequences, result.sequences, strict=True):
            assert a.tokens.tolist() == b.tokens.tolist()
            assert a.logprobs.tobytes() == b.logprobs.tobytes()


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 8, 31, 32, 64])
def test_a_prompt_gives_one_completion_in_any_batch(batch: int) -> None:
    decoder = small_decoder()
    rng = np.random.default_rng(batch)
    one = SampleRequest(
        prompt=tokens(np.random.default_rng(1), 19), params=SamplingParams(seed=5, max_tokens=24, stop=())
    )
    alone = Sampler(CONFIG, decoder.kernels).sample([one], [Policy(decoder, {})])[0].sequences[0]
    for place in sorted({0, batch // 2, batch - 1}):
        others = [
            SampleRequest(
                prompt=tokens(rng, int(rng.integers(1, 80))), params=SamplingParams(seed=i, max_tokens=24, stop=())
            )
            for i in range(batch)
        ]
        others[place] = one
        found = Sampler(CONFIG, decoder.kernels).sample(others, [Policy(decoder, {})] * batch)[place].sequences[0]
        assert found.tokens.tolist() == alone.tokens.tolist()
        assert found.logprobs.tobytes() == alone.logprobs.tobytes()


def test_prompt_logprobs_are_the_trainers() -> None:
    adapter = trained(small_decoder(), AdapterKind.LORA)
    rng = np.random.default_rng(6)
    prompts = [tokens(rng, n) for n in (1, 2, 16, 17, 100)]
    asked = [
        SampleRequest(prompt=p, params=SamplingParams(seed=0, max_tokens=1, temperature=0.5), prompt_logprobs=True)
        for p in prompts
    ]
    sampler = Sampler(CONFIG, adapter.decoder.kernels, limits=SamplerLimits(prefill_tokens=9, logits=VOCAB_ROWS))
    results = sampler.sample(asked, [policy(adapter)] * len(asked))
    session = TrainingSession(adapter)
    for prompt, result in zip(prompts, results, strict=True):
        assert np.isnan(result.prompt_logprobs[0])
        if len(prompt) > 1:
            own = session.forward([scored(prompt)], LossName.CROSS_ENTROPY).outputs[0].logprobs
            assert own.tobytes() == result.prompt_logprobs[1:].tobytes()


VOCAB_ROWS = 97 * 5
"""Room for the logits of five rows at once."""
