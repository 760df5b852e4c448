"""Steps of decoding recorded on the CPU: the same bits as call by call, of every adapter and number of rows."""

import numpy as np
import pytest
import torch
from mixtures import CONFIGS, mixture_adapter
from torch import Tensor

from models import CONFIG, VOCAB, small_decoder, tokens
from oracles import LLAMA, OLMOE, QWEN2, QWEN3, disturb
from oracles import small_decoder as shared_decoder
from tinsmith.engine.cache import SamplerLimits, usual_limits
from tinsmith.engine.decode_graphs import DecodeGraphs
from tinsmith.engine.drafts import Drafts
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.adapter import create_adapter
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.ops.kernels import Recorded
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.sampling import Adjustments, SampleRequest, SamplingParams

pytestmark = pytest.mark.whole

MODELS = {"llama": LLAMA, "biased": QWEN2, "normed": QWEN3}
COUNTS = (1, 3, 8)


class Counted:
    """The recorded steps of a run, and how often each was made again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, records: bool = True) -> None:
        self.recorded = self.refused = self.replayed = 0
        record = NativeKernels.recorded

        def recorded(kernels: NativeKernels, compute: object) -> Recorded | None:
            found = record(kernels, compute) if records else None  # pyright: ignore[reportArgumentType]
            if found is None:
                self.refused += 1
                return None
            self.recorded += 1
            return Recorded(found.out, lambda: self._replay(found))

        monkeypatch.setattr(NativeKernels, "recorded", recorded)

    def _replay(self, found: Recorded) -> None:
        self.replayed += 1
        found.replay()


def sampled(config: DecoderConfig, kind: AdapterKind | None) -> list[bytes]:
    decoder = shared_decoder(config, quantised=kind is not None and kind.quantised)
    policy = Policy(decoder, {})
    if kind is not None:
        adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1))
        disturb(adapter, 2)
        policy = Policy(adapter.decoder, adapter.low)
    draw = np.random.default_rng(3)
    found: list[bytes] = []
    for count in COUNTS:
        prompt = draw.integers(1, config.vocab_size, 9).astype(np.int32)
        params = SamplingParams(seed=count, max_tokens=30, stop=())
        request = SampleRequest(prompt=prompt, params=params, num_samples=count)
        (result,) = Sampler(config, decoder.kernels).sample([request], [policy])
        found += [one.tokens.tobytes() + one.logprobs.tobytes() for one in result.sequences]
    return found


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("kind", [None, AdapterKind.LORA, AdapterKind.DORA, AdapterKind.FULL])
def test_a_recorded_step_has_the_bits_of_one_that_is_not(
    model: str, kind: AdapterKind | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        with_graphs = sampled(MODELS[model], kind)
    assert counted.recorded >= len(COUNTS)
    assert counted.replayed > 20 * len(COUNTS)
    Counted(monkeypatch, records=False)
    assert sampled(MODELS[model], kind) == with_graphs


def test_threads_change_no_bit_of_a_recorded_step() -> None:
    kernels, found = NativeKernels(), list[list[bytes]]()
    before = kernels.threads()
    try:
        for threads in (1, 2, 5):
            kernels.set_threads(threads)
            found.append(sampled(LLAMA, AdapterKind.LORA))
    finally:
        kernels.set_threads(before)
    assert found[0] == found[1] == found[2]


def test_a_mixture_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    sampled(OLMOE, None)
    assert counted.recorded == 0


def test_what_torch_computes_by_itself_cannot_be_recorded() -> None:
    kernels, x, gain = NativeKernels(), torch.ones(2, 8), torch.ones(8)

    def normed() -> Tensor:
        return kernels.add_rms_norm(x, None, gain, 1e-5)[1]

    recorded = kernels.recorded(normed)
    x.mul_(3.0)
    before = recorded.out.clone()
    x.copy_(torch.arange(16.0).view(2, 8))
    recorded.replay()
    assert torch.equal(recorded.out, normed())
    assert not torch.equal(recorded.out, before)
    assert kernels.recorded(lambda: normed() * 2.0) is None
    assert kernels.recorded(lambda: x * 2.0) is None


def test_a_kernel_that_no_tape_has_cannot_be_recorded() -> None:
    kernels, x = NativeKernels(), torch.ones(2, 8)
    assert kernels.recorded(lambda: kernels.row_entropies(x)) is None


def test_a_call_that_fails_ends_the_recording() -> None:
    kernels, table, ids = NativeKernels(), torch.ones(3, 4), torch.tensor([5])
    with pytest.raises(ValueError, match="embed: id"):
        kernels.recorded(lambda: kernels.embed(table, ids))
    ids.fill_(2)
    assert kernels.recorded(lambda: kernels.embed(table, ids)) is not None


@pytest.mark.parametrize("kind", [AdapterKind.LORA, AdapterKind.DORA])
def test_an_adapter_that_changes_is_sampled_with_what_it_has_become(kind: AdapterKind) -> None:
    decoder = shared_decoder(LLAMA, quantised=False)
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=4, seed=1))
    request = SampleRequest(
        prompt=np.arange(1, 9, dtype=np.int32), params=SamplingParams(seed=1, max_tokens=20, stop=()), num_samples=2
    )
    one = Sampler(LLAMA, decoder.kernels)
    for seed in (2, 3):
        disturb(adapter, seed)
        policy = Policy(adapter.decoder, adapter.low)
        found = [
            [each.logprobs.tobytes() for each in sampler.sample([request], [policy])[0].sequences]
            for sampler in (one, Sampler(LLAMA, decoder.kernels))
        ]
        assert found[0] == found[1]


def test_the_graphs_of_a_sampler_are_few() -> None:
    decoder = shared_decoder(LLAMA, quantised=False)
    sampler = Sampler(LLAMA, decoder.kernels)
    for count in range(1, 9):
        params = SamplingParams(seed=count, max_tokens=6, stop=())
        request = SampleRequest(prompt=np.arange(1, 5, dtype=np.int32), params=params, num_samples=count)
        sampler.sample([request], [Policy(decoder, {})])
    graphs: DecodeGraphs = sampler._graphs  # pyright: ignore[reportPrivateUsage]
    assert len(graphs._graphs) <= 4  # pyright: ignore[reportPrivateUsage]


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
    limits = [SamplerLimits(cache_pages=least), SamplerLimits(cache_pages=least, drafted=drafted, prefix_pages=None)]
    plain, drafting = (Sampler(CONFIG, decoder.kernels, limits=one, text=spelled) for one in limits)
    question = [(1, 40), (2, 25), (3, 9), (1, 1), (1, 2)]
    for samples, most in [*question, *([(1, None)] if "temperature" in law else [])]:
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
