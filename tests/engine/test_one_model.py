"""The sampler and the trainer are one model: every sampled log-probability is the trainer's, bit for bit."""

import numpy as np
import pytest

from models import CONFIG, policy, scored, small_decoder, tokens, trained
from tinsmith.engine.sampler import Sampler, SamplerLimits
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter
from tinsmith.ops.extension import configure
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.datum import LossName
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams

pytestmark = pytest.mark.whole

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
    asked = requests(np.random.default_rng(3))
    seen: set[bytes] = set()
    total = 0
    for threads, limits, micro_batches in (
        (1, SamplerLimits(), MicroBatches()),
        (2, SamplerLimits(cache_pages=LEAST_PAGES + 9, max_samples=16, prefill_tokens=50), MicroBatches(units=1)),
        (2, SamplerLimits(cache_pages=LEAST_PAGES, max_samples=5, prefill_tokens=7), MicroBatches(rows=300)),
    ):
        configure(threads=threads)
        sampler = Sampler(CONFIG, adapter.decoder.kernels, limits=limits)
        results = sampler.sample(asked, [policy(adapter)] * len(asked))
        seen.add(b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for r in results for s in r.sequences))
        count, bad = unequal_bits(adapter, asked, results, micro_batches)
        assert bad == 0
        total += count
    assert len(seen) == 1
    assert total >= 3_000


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
        assert result.prompt_logprobs is not None
        assert np.isnan(result.prompt_logprobs[0])
        if len(prompt) > 1:
            own = session.forward([scored(prompt)], LossName.CROSS_ENTROPY).outputs[0].logprobs
            assert own.tobytes() == result.prompt_logprobs[1:].tobytes()


VOCAB_ROWS = 97 * 5
"""Room for the logits of five rows at once."""
