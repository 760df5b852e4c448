"""Ten thousand sampled tokens of mixtures: the trainer's bits and the trainer's routes, whatever was in the batch."""

import numpy as np
import pytest
from mixtures import CONFIGS, OF_KINDS, mixture_adapter, scored

from tinsmith.engine.sampler import Sampler, SamplerLimits
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.config import DecoderConfig
from tinsmith.ops.extension import configure
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.datum import LossName
from tinsmith.types.gradient import GradientUnit
from tinsmith.types.sampling import SampleRequest, SamplingParams

pytestmark = pytest.mark.whole

LEAST_TOKENS = 1_000
"""Of each of ten cases."""


def _requests(config: DecoderConfig) -> list[SampleRequest]:
    """Ragged prompts of 1 to 90 tokens, groups of 1 to 8, 5 to 40 new tokens."""
    rng = np.random.default_rng(11)
    return [
        SampleRequest(
            prompt=rng.integers(0, config.vocab_size, int(rng.integers(1, 91))).astype(np.int32),
            params=SamplingParams(seed=i, max_tokens=int(rng.integers(5, 41)), stop=()),
            num_samples=(1, 2, 8)[i % 3],
        )
        for i in range(9)
    ]


@pytest.mark.parametrize(("config", "kind"), OF_KINDS.values(), ids=OF_KINDS)
def test_a_sampled_token_has_the_trainers_bits_and_routes(config: DecoderConfig, kind: AdapterKind) -> None:
    router = kind in (AdapterKind.DORA, AdapterKind.QLORA)
    adapter = mixture_adapter(config, kind, train_router=router)
    asked = _requests(config)
    tokens = unequal_bits = unequal_routes = 0
    seen: set[bytes] = set()
    for threads, limits, micro_batches, unit in (
        (1, SamplerLimits(max_samples=64), MicroBatches(), GradientUnit.TREE),
        (2, SamplerLimits(max_samples=7, prefill_tokens=50), MicroBatches(units=1), GradientUnit.DATUM),
    ):
        configure(threads=threads)
        sampler = Sampler(config, adapter.decoder.kernels, limits=limits)
        results = sampler.sample(asked, [Policy(adapter.decoder, adapter.low)] * len(asked))
        pairs = [(r, s) for r, result in zip(asked, results, strict=True) for s in result.sequences]
        session = TrainingSession(adapter, micro_batches, unit)
        data = [scored(np.concatenate([r.prompt, s.tokens])) for r, s in pairs]
        outputs = session.forward(data, LossName.CROSS_ENTROPY).outputs
        for (request, sequence), output in zip(pairs, outputs, strict=True):
            own = output.logprobs[len(request.prompt) - 1 :]
            unequal_bits += int((own.view(np.int32) != sequence.logprobs.view(np.int32)).sum())
            assert sequence.routes is not None
            unequal_routes += int((output.routes != sequence.routes).sum())
            tokens += len(own)
        seen.add(b"".join(s.tokens.tobytes() + s.logprobs.tobytes() for _, s in pairs))
    configure(threads=1)
    assert tokens >= LEAST_TOKENS
    assert (unequal_bits, unequal_routes, len(seen)) == (0, 0, 1)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_a_batch_of_one_is_a_batch_of_sixty_four(config: DecoderConfig) -> None:
    adapter = mixture_adapter(config, AdapterKind.LORA)
    asked = _requests(config)[:6]
    said: set[bytes] = set()
    for most in (1, 3, 64):
        sampler = Sampler(config, adapter.decoder.kernels, limits=SamplerLimits(max_samples=most))
        results = sampler.sample(asked, [Policy(adapter.decoder, adapter.low)] * len(asked))
        said.add(
            b"".join(
                s.logprobs.tobytes() + np.asarray(s.routes).tobytes() for result in results for s in result.sequences
            )
        )
    assert len(said) == 1
