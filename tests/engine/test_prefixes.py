"""Beginnings that lie in the cache are not computed again, and nothing that is answered shows it."""

import gc
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from mixtures import CONFIGS, mixture_adapter

from loopback import KEPT
from models import CONFIG, VOCAB, small_decoder, tokens, trained
from tinsmith.engine.cache import PagePool, SamplerLimits, usual_limits
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.prefixes import Prefixes
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Group, Policy
from tinsmith.models.adapter import Adapter
from tinsmith.models.decoder import Decoder
from tinsmith.ops.paging import PAGE
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams, StopReason

pytestmark = pytest.mark.whole

NANO = "tinsmith/nano"
KEEPING = SamplerLimits(prefix_pages=None)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return small_decoder()


@pytest.fixture(scope="module")
def adapters(decoder: Decoder) -> list[Adapter]:
    return [trained(decoder, kind) for kind in (AdapterKind.LORA, AdapterKind.DORA)]


def own(holder: Adapter | Decoder) -> Policy:
    if isinstance(holder, Adapter):
        return Policy(holder.decoder, holder.low, holder)
    return Policy(holder, {}, holder)


def request(prompt: np.ndarray, seed: int = 0, **given: object) -> SampleRequest:
    most = given.pop("max_tokens", 12)
    assert isinstance(most, int)
    params = SamplingParams(seed=seed, max_tokens=most, stop=())
    return SampleRequest(prompt=prompt, params=params, **given)  # pyright: ignore[reportArgumentType]


def shown(result: SampleResult | None) -> list[bytes]:
    """Every bit of an answer."""
    parts = [result.prompt_logprobs]
    if result.prompt_top is not None:
        parts += [result.prompt_top.tokens, result.prompt_top.logprobs]
    if result.prompt_spread is not None:
        spread = result.prompt_spread
        parts += [spread.ranks, spread.logprobs, spread.entropies, spread.best]
    for sequence in result.sequences:
        parts += [sequence.tokens, sequence.logprobs, sequence.routes]
        parts += [np.array([list(StopReason).index(sequence.stop_reason)])]
    return [b"" if part is None else part.tobytes() for part in parts]


def alone(asked: SampleRequest, policy: Policy) -> list[bytes]:
    """Return the answer of a fresh sampler."""
    return shown(Sampler(policy.decoder.config, policy.decoder.kernels).sample([asked], [policy])[0])


def test_a_conversation_computes_only_what_is_new(decoder: Decoder) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    policy, rng = own(decoder), np.random.default_rng(0)
    words, reused = tokens(rng, 41), 0
    for turn in range(4):
        requests = request(words, turn)
        result = sampler.sample([requests], [policy])[0]
        assert shown(result) == alone(requests, policy)
        assert sampler.pool.num_reused == reused
        fed = np.concatenate([words, result.sequences[0].tokens])
        reused += (len(fed) - 1) // PAGE * PAGE  # its last token was drawn, and not fed
        words = np.concatenate([fed, tokens(rng, 9)])
    assert sampler.pool.available == sampler.pool.capacity


def test_each_weights_have_their_own(decoder: Decoder, adapters: list[Adapter]) -> None:
    holders = [decoder, *adapters, small_decoder(quantised=True), trained(decoder, AdapterKind.FULL)]
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    question = request(tokens(np.random.default_rng(1), 50), num_samples=2)
    policies = [own(each) for each in holders]
    first = [shown(result) for result in sampler.sample([question] * 5, policies)]
    assert sampler.pool.num_reused == 0
    again = [shown(result) for result in sampler.sample([question] * 5, policies)]
    assert sampler.pool.num_reused == 5 * 48
    assert again == first == [alone(question, policy) for policy in policies]
    assert len({each[0] + each[2] for each in first}) == 5


def test_what_is_asked_of_nobodys_weights_is_computed(decoder: Decoder) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    calls = request(tokens(np.random.default_rng(2), 50))
    for _ in range(2):
        sampler.sample([calls], [Policy(decoder, {})])
    plain = Sampler(CONFIG, decoder.kernels)
    for _ in range(2):
        plain.sample([calls], [own(decoder)])
    assert sampler.pool.num_reused == plain.pool.num_reused == 0


def test_weights_that_change_are_others(decoder: Decoder) -> None:
    adapter = trained(decoder, AdapterKind.LORA, seed=5)
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    asked = request(tokens(np.random.default_rng(3), 40))
    before = shown(sampler.sample([asked], [own(adapter)])[0])
    group = sampler.submit(asked, own(adapter))
    sampler.step()  # it has read the old ones' pages, and goes on
    for weight in adapter.weights():
        weight.value += 0.05 * torch.ones_like(weight.value)
    adapter.changed()
    sampler.cancel(group)
    reused = sampler.pool.num_reused
    after = shown(sampler.sample([asked], [own(adapter)])[0])
    assert sampler.pool.num_reused == reused
    assert after == alone(asked, own(adapter)) != before


def test_what_is_begun_on_other_weights_is_not_kept(decoder: Decoder) -> None:
    adapter = trained(decoder, AdapterKind.LORA, seed=6)
    sampler = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(prefix_pages=None, prefill_tokens=16))
    asked = request(tokens(np.random.default_rng(4), 60))
    group = sampler.submit(asked, own(adapter))
    sampler.step()
    adapter.changed()
    while sampler.busy:
        sampler.step()
    assert group.result is not None
    sampler.sample([asked], [own(adapter)])
    assert sampler.pool.num_reused == 0


def test_pages_of_weights_that_nobody_has_are_free_again(decoder: Decoder) -> None:
    adapter = trained(decoder, AdapterKind.LORA, seed=7)
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    rng = np.random.default_rng(5)
    sampler.sample([request(tokens(rng, 60))], [own(adapter)])
    assert sampler.pool.idle > 0
    del adapter
    gc.collect()
    sampler.sample([request(tokens(rng, 3), max_tokens=1)], [own(decoder)])
    assert sampler.pool.idle == 0


@pytest.mark.parametrize("room", [7, 64, 2048])
def test_requests_of_one_step_share_what_the_first_computes(decoder: Decoder, room: int) -> None:
    rng = np.random.default_rng(6)
    stem = tokens(rng, 70)
    asked = [request(np.concatenate([stem, tokens(rng, 5 + i)]), i, num_samples=1 + i % 3) for i in range(8)]
    limits = SamplerLimits(prefix_pages=None, prefill_tokens=room)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    results = sampler.sample(asked, [own(decoder)] * 8)
    assert sampler.pool.num_reused == 7 * 64
    assert list(map(shown, results)) == [alone(one, own(decoder)) for one in asked]


def test_nobody_waits_for_little(decoder: Decoder) -> None:
    """A page of 200 tokens is less than an eighth: both are computed in the same step."""
    rng = np.random.default_rng(7)
    stem = tokens(rng, PAGE)
    asked = [request(np.concatenate([stem, tokens(rng, 184)]), i, max_tokens=1) for i in range(2)]
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    groups = [sampler.submit(one, own(decoder)) for one in asked]
    assert sampler.step() == groups
    assert sampler.pool.num_reused == 0
    sampler.sample([request(np.concatenate([stem, tokens(rng, 30)]))], [own(decoder)])
    assert sampler.pool.num_reused == PAGE


def test_what_is_given_up_is_waited_for_by_nobody(decoder: Decoder) -> None:
    rng = np.random.default_rng(8)
    stem = tokens(rng, 100)
    asked = [request(np.concatenate([stem, tokens(rng, 4)]), i) for i in range(3)]
    limits = SamplerLimits(prefix_pages=None, prefill_tokens=16)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    groups = [sampler.submit(one, own(decoder)) for one in asked]
    sampler.step()
    assert [group.begun is None for group in groups] == [False, True, True]
    sampler.cancel(groups[0])
    sampler.step()
    assert [group.begun is None for group in groups[1:]] == [False, True]
    while sampler.busy:
        sampler.step()
    assert [shown(group.result) for group in groups[1:]] == [alone(one, own(decoder)) for one in asked[1:]]
    assert sampler.pool.available == sampler.pool.capacity


@pytest.mark.parametrize("most", [0, 1])
def test_prompts_that_are_only_scored_are_kept_too(decoder: Decoder, most: int) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    prompt = tokens(np.random.default_rng(9), 50)
    scored = request(prompt, max_tokens=most, prompt_logprobs=True, topk_prompt_logprobs=2)
    for _ in range(2):  # every row is needed, both times
        assert shown(sampler.sample([scored], [own(decoder)])[0]) == alone(scored, own(decoder))
    assert sampler.pool.num_reused == 0
    drawn = request(prompt)
    assert shown(sampler.sample([drawn], [own(decoder)])[0]) == alone(drawn, own(decoder))
    assert sampler.pool.num_reused == 48


@pytest.mark.parametrize(("begins", "reused"), [(1, 0), (16, 0), (17, 16), (40, 32), (49, 48)])
def test_rows_before_the_first_that_is_asked_about_are_reused(decoder: Decoder, begins: int, reused: int) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    prompt = tokens(np.random.default_rng(10), 50)
    sampler.sample([request(prompt)], [own(decoder)])
    targets = np.where(np.arange(49) >= begins - 1, prompt[1:], -1).astype(np.int32)
    asked = request(prompt, max_tokens=0, spread_targets=targets)
    assert shown(sampler.sample([asked], [own(decoder)])[0]) == alone(asked, own(decoder))
    assert sampler.pool.num_reused == reused


def test_a_request_that_fails_leaves_nothing_and_harms_nobody() -> None:
    """Its last row has no distribution; the beginning that it reads is another's, and stays."""
    broken = small_decoder()
    rng = np.random.default_rng(11)
    stem = tokens(rng, 40)
    bad = int(stem[0]) % (VOCAB - 1) + 1
    while bad in stem:
        bad = bad % (VOCAB - 1) + 1
    embedding = broken.embedding
    embedding.value[bad] = float("inf")
    sampler = Sampler(CONFIG, broken.kernels, limits=SamplerLimits(prefix_pages=None, cache_pages=17))
    sound = request(stem, max_tokens=1)
    head = broken.head.base[0]  # a copy of its own, which the next lines leave finite
    head.value[~torch.isfinite(head.value)] = 0.0
    expected = alone(sound, own(broken))
    assert shown(sampler.sample([sound], [own(broken)])[0]) == expected
    failing = [request(np.append(stem, [bad] * 20).astype(np.int32), i) for i in range(2)]
    groups = [sampler.submit(each, own(broken)) for each in failing]
    while sampler.busy:
        sampler.step()
    assert all(group.failure is not None for group in groups)
    assert sampler.pool.num_reused == 2 * 32
    assert sampler.pool.idle == 2
    assert shown(sampler.sample([sound], [own(broken)])[0]) == expected
    longer = request(np.concatenate([stem, stem]))
    assert shown(sampler.sample([longer], [own(broken)])[0]) == alone(longer, own(broken))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_a_mixtures_routes_come_with_its_pages(config: object) -> None:
    adapter = mixture_adapter(config, AdapterKind.LORA)  # pyright: ignore[reportArgumentType]
    shape = adapter.decoder.config
    sampler = Sampler(shape, adapter.decoder.kernels, limits=KEEPING)
    rng = np.random.default_rng(12)
    prompt = rng.integers(1, shape.vocab_size, 40).astype(np.int32)
    asked = [request(prompt, i, num_samples=2) for i in range(3)]
    for one in asked:
        result = sampler.sample([one], [own(adapter)])[0]
        assert result.sequences[0].routes is not None
        assert shown(result) == alone(one, own(adapter))
    longer = np.concatenate([prompt, result.sequences[0].tokens, prompt])
    last = request(longer)
    assert shown(sampler.sample([last], [own(adapter)])[0]) == alone(last, own(adapter))
    assert sampler.pool.num_reused == 2 * 32 + (40 + 11) // PAGE * PAGE


def _tree_of_prompts(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Prompts of which each goes on from a part of an earlier one, or begins anew."""
    prompts: list[np.ndarray] = [tokens(rng, 30)]
    while len(prompts) < count:
        old = prompts[int(rng.integers(len(prompts)))]
        stem = old[: int(rng.integers(len(old) + 1))] if rng.random() < 0.85 else old[:0]
        prompts.append(np.concatenate([stem, tokens(rng, int(rng.integers(1, 40)))])[:200])
    return prompts


def _drive(sampler: Sampler, groups: Sequence[Group], given_up: dict[int, list[int]]) -> None:
    step = 0
    while sampler.busy:
        for i in given_up.pop(step, []):
            sampler.cancel(groups[i])
        sampler.step()
        _check(sampler.pool, sampler.prefixes)
        step += 1


def _check(pool: PagePool, prefixes: Prefixes) -> None:
    """Assert that counts are true and nothing that was promised is missing."""
    idle = sum(pool.is_idle(page) for page in range(pool.capacity))
    assert pool.idle == idle
    assert pool.available >= 0
    assert pool.idle == 0 or len(prefixes._cached) <= prefixes.most


@pytest.mark.parametrize(("seed", "kept"), [(0, None), (2, 3), (4, 12)])
def test_whatever_is_asked_and_given_up_every_answer_is_as_alone(
    decoder: Decoder, adapters: list[Adapter], seed: int, kept: int | None
) -> None:
    """48 requests in a cache that holds two contexts, on three weights; a fifth is given up on the way."""
    rng = np.random.default_rng(100 + seed)
    limits = SamplerLimits(cache_pages=34, max_samples=16, prefill_tokens=int(rng.integers(5, 200)), prefix_pages=kept)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    holders = [decoder, *adapters]
    asked = [
        (
            request(
                prompt,
                i,
                num_samples=int(rng.integers(1, 4)),
                max_tokens=int(rng.integers(1, 40)),
                prompt_logprobs=bool(rng.random() < 0.1),
            ),
            own(holders[int(rng.integers(3))]),
        )
        for i, prompt in enumerate(_tree_of_prompts(rng, 48))
    ]
    groups = [sampler.submit(one, policy) for one, policy in asked[:32]]
    given_up: dict[int, list[int]] = {}
    for i in rng.choice(32, 7, replace=False).tolist():
        given_up.setdefault(int(rng.integers(0, 80)), []).append(i)
    _drive(sampler, groups, given_up)
    groups += [sampler.submit(one, policy) for one, policy in asked[32:]]
    _drive(sampler, groups, {})
    assert sampler.pool.available == sampler.pool.capacity
    assert sampler.pool.num_reused > 0
    ended = [(group, one) for group, one in zip(groups, asked, strict=True) if group.result]
    assert len(ended) >= 48 - 7
    for group, (one, policy) in ended:
        assert shown(group.result) == alone(one, policy)


def test_the_longest_unused_goes_first_and_a_conversation_keeps_its_beginning(decoder: Decoder) -> None:
    limits = SamplerLimits(prefix_pages=6, cache_pages=34)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    rng = np.random.default_rng(13)
    old, new = tokens(rng, 49), tokens(rng, 49)
    for prompt in (old, new, old):  # three pages each
        sampler.sample([request(prompt, max_tokens=1)], [own(decoder)])
    assert sampler.pool.num_reused == 48
    sampler.sample([request(tokens(rng, 33), max_tokens=1)], [own(decoder)])  # two more
    sampler.sample([request(old, max_tokens=1)], [own(decoder)])
    assert sampler.pool.num_reused == 96
    sampler.sample([request(new, max_tokens=1)], [own(decoder)])
    assert sampler.pool.num_reused == 96 + 16  # of the other one its first page was left
    assert sampler.pool.idle <= 6


def test_pages_beyond_the_limit_are_given_up_when_their_request_ends(decoder: Decoder) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=SamplerLimits(prefix_pages=1))
    prompt = tokens(np.random.default_rng(14), 49)
    sampler.sample([request(prompt, max_tokens=1)], [own(decoder)])
    assert sampler.pool.idle == 1
    group = sampler.submit(request(prompt, num_samples=3), own(decoder))
    for _ in range(4):
        sampler.step()
    sampler.cancel(group)
    assert sampler.pool.idle == 1
    assert sampler.pool.available == sampler.pool.capacity


def test_what_is_asked_of_a_prompt_fails_whether_its_beginning_was_there_or_not() -> None:
    """Its last row is not finite: nobody asked for that one's distribution, and no page with it may be kept."""
    broken = small_decoder()
    prompt = tokens(np.random.default_rng(15), 48)
    bad = next(token for token in range(1, VOCAB) if token not in prompt)
    prompt[-1] = bad
    embedding, head = broken.embedding, broken.head.base[0]
    embedding.value[bad] = float("nan")
    head.value[~torch.isfinite(head.value)] = 0.0
    asked = request(prompt, max_tokens=0, spread_targets=np.append([-1] * 46, prompt[47:]))
    for first in (None, request(prompt[:33], max_tokens=1)):
        sampler = Sampler(CONFIG, broken.kernels, limits=KEEPING)
        if first is not None:
            sampler.sample([first], [own(broken)])
        with pytest.raises(BackendError, match="not finite"):
            sampler.sample([asked], [own(broken)])
        assert sampler.pool.idle == (0 if first is None else 2)


def test_an_interrupted_call_leaves_nobody_waiting(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler(CONFIG, decoder.kernels, limits=KEEPING)
    asked = request(tokens(np.random.default_rng(16), 50))

    def interrupted(*_: object) -> torch.Tensor:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sampler, "_logits", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sampler.sample([asked] * 2, [own(decoder)] * 2)
    assert not sampler.busy
    assert sampler.pool.available == sampler.pool.capacity
    assert shown(sampler.sample([asked], [own(decoder)])[0]) == alone(asked, own(decoder))


def test_nobody_waits_for_who_came_later(decoder: Decoder) -> None:
    """The second waits for the first; that the third begins meanwhile with what both share is nothing to it."""
    limits = SamplerLimits(prefix_pages=None, prefill_tokens=80)
    sampler = Sampler(CONFIG, decoder.kernels, limits=limits)
    stem = tokens(np.random.default_rng(17), 200)
    first, second, third = stem[:17], stem[:40].copy(), stem
    second[33:] = second[33:][::-1]
    groups = [sampler.submit(request(prompt, max_tokens=1), own(decoder)) for prompt in (first, second, third)]
    sampler.step()
    assert [group.ended for group in groups] == [True, False, False]
    sampler.step()
    assert [group.ended for group in groups] == [True, True, False]
    while sampler.busy:
        sampler.step()


def test_an_engine_knows_whose_its_weights_are() -> None:
    engine = Engine({NANO: NANO}, certificate_store=KEPT)
    session = engine.create_session(NANO, AdapterSpec(rank=2, seed=1))
    asked = request(tokens(np.random.default_rng(18), 50))
    for policy in (engine.base_policy(NANO), freeze(session)):
        before = engine.sampler(NANO).pool.num_reused
        first, second = [shown(engine.sample(NANO, [asked], [policy])[0]) for _ in range(2)]
        assert first == second
        assert engine.sampler(NANO).pool.num_reused == before + 48


def test_an_engine_keeps_beginnings_where_bits_are_promised() -> None:
    assert usual_limits(Arithmetic.CANONICAL).prefix_pages is None
    assert usual_limits(Arithmetic.INVARIANT).prefix_pages is None
    assert usual_limits(Arithmetic.FAST).prefix_pages == 0
    assert SamplerLimits().prefix_pages == 0
