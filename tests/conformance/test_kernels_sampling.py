"""Draws: the documented law token by token, its statistics, and what a draw may depend on."""

import math

import numpy as np
import pytest
import sampling_law
import torch
from kernel_reference import assert_close, every_kernels, normal
from numpy.typing import NDArray

from tinsmith.ops.kernels import Draws, Kernels
from tinsmith.ops.native import NativeKernels

SEED = 0x9AFD_0123_4567_89AB
LOGITS_7 = torch.tensor([[0.5, -1.0, 1.25, 0.0, -3.0, 1.0, -0.25]])


def draws_of(
    rows: list[int] | NDArray[np.int64],
    *,
    seed: int = SEED,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Draws:
    """One draw per row, samples counting up, positions 10 per sample."""
    count = len(rows)
    return Draws(
        rows=np.asarray(rows, np.int64),
        seeds=np.full(count, seed, np.uint64),
        samples=np.arange(count, dtype=np.int64),
        positions=10 * np.arange(count, dtype=np.int64),
        temperatures=np.full(count, temperature, np.float32),
        top_ks=np.full(count, top_k, np.int64),
        top_ps=np.full(count, top_p, np.float64),
    )


def test_philox_gives_the_published_words() -> None:
    """Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds)."""
    answers = {
        (0, 0, 0, 0, 0, 0): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        (0xFFFFFFFF,) * 6: "408f276d 41c83b0e a20bc7c6 6d5451fd",
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0): (
            "d16cfe09 94fdcceb 5001e420 24126ea1"
        ),
    }
    for words, answer in answers.items():
        got = sampling_law.philox4x32(words[:4], words[4:])
        assert " ".join(f"{word:08x}" for word in got) == answer


def test_splitmix_gives_the_published_words() -> None:
    words = [sampling_law.splitmix64(1234567, i) for i in range(3)]
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@every_kernels
@pytest.mark.parametrize("vocab", [2, 50, 1000])
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.7, 0, 1.0), (3.0, 5, 1.0), (1.0, 0, 0.6), (1.3, 20, 0.9)]
)
def test_every_draw_is_the_laws(kernels: Kernels, vocab: int, temperature: float, top_k: int, top_p: float) -> None:
    logits = normal(vocab, 20, vocab, scale=2)
    rows = np.arange(60 if vocab < 1000 else 20) % 20
    draws = draws_of(rows, temperature=temperature, top_k=top_k, top_p=top_p)
    expected = [
        sampling_law.draw(logits[row].numpy(), SEED, i, 10 * i, temperature, top_k, top_p)
        for i, row in enumerate(rows.tolist())
    ]
    tokens, logprobs = kernels.choose(logits.to(kernels.device), draws)
    assert tokens.tolist() == expected
    full = torch.log_softmax(logits.double() / float(np.float32(temperature)), 1)
    assert_close(torch.from_numpy(logprobs), full[rows, expected])


@every_kernels
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.97), (900, 0.5), (2500, 1.0)])
def test_ties_masked_tokens_and_signs_of_zero_are_ranked_by_the_law(kernels: Kernels, top_k: int, top_p: float) -> None:
    logits = (normal(5, 6, 3000, scale=2) * 2).round() / 2
    logits[:, ::3] = -torch.inf
    logits[:, 1::6] = -0.0
    logits[:, 4::6] = 0.0
    draws = draws_of(np.arange(6), top_k=top_k, top_p=top_p)
    expected = [sampling_law.draw(logits[i].numpy(), SEED, i, 10 * i, 1.0, top_k, top_p) for i in range(6)]
    assert kernels.choose(logits.to(kernels.device), draws)[0].tolist() == expected


@every_kernels
def test_wide_seeds_samples_and_positions_enter_whole(kernels: Kernels) -> None:
    logits = normal(1, 1, 400)
    big = [0, 1, 1 << 32, (1 << 32) + 1, (1 << 62) + 5]
    cases = [(s, n, p) for s in (*big, (1 << 64) - 1) for n in big for p in big]
    draws = Draws(
        rows=np.zeros(len(cases), np.int64),
        seeds=np.array([case[0] for case in cases], np.uint64),
        samples=np.array([case[1] for case in cases], np.int64),
        positions=np.array([case[2] for case in cases], np.int64),
        temperatures=np.ones(len(cases), np.float32),
        top_ks=np.zeros(len(cases), np.int64),
        top_ps=np.ones(len(cases)),
    )
    tokens, _ = kernels.choose(logits.to(kernels.device), draws)
    assert tokens.tolist() == [sampling_law.draw(logits[0].numpy(), *case, 1.0) for case in cases]


@every_kernels
def test_a_near_tie_goes_to_the_larger_score_in_double_precision(kernels: Kernels) -> None:
    """Token 20's logit is set so that its score is token 3's but for rounding to fp32."""
    draws = draws_of(np.arange(300))
    logits = torch.full((300, 40), -50.0)
    for i in range(300):
        key = sampling_law.row_key(SEED, i, 10 * i)
        logits[i, 3] = 0.25 * (i % 40)
        target = float(logits[i, 3]) + sampling_law.gumbel(key, 3)
        logits[i, 20] = target - sampling_law.gumbel(key, 20)
    tokens, _ = kernels.choose(logits.to(kernels.device), draws)
    expected = [sampling_law.draw(logits[i].numpy(), SEED, i, 10 * i, 1.0) for i in range(300)]
    assert {3, 20} == set(expected)
    assert tokens.tolist() == expected


# One implementation stands for all: each draws the law's own tokens, above.
@pytest.mark.parametrize(
    ("top_k", "top_p", "num_allowed", "bound"),
    [(0, 1.0, 7, 22.46), (3, 1.0, 3, 13.82), (0, 0.8, 3, 13.82)],
    ids=["all", "top_k=3", "top_p=0.8"],
)
def test_shares_of_20_000_draws_are_the_probabilities(top_k: int, top_p: float, num_allowed: int, bound: float) -> None:
    """`bound` is the 99.9 % quantile of chi-square with num_allowed - 1 degrees of freedom."""
    count, temperature = 20_000, 0.7
    allowed = sampling_law.allowed_tokens(LOGITS_7[0].numpy(), temperature, top_k, top_p)
    assert len(allowed) == num_allowed
    weights = torch.exp(LOGITS_7[0].double() / temperature)[allowed]
    expected = (count * weights / weights.sum()).numpy()
    draws = draws_of([0] * count, temperature=temperature, top_k=top_k, top_p=top_p)
    tokens, _ = NativeKernels().choose(LOGITS_7, draws)
    seen = np.bincount(tokens, minlength=7)
    assert seen.sum() == seen[allowed].sum() == count
    assert ((seen[allowed] - expected) ** 2 / expected).sum() < bound


@every_kernels
def test_a_draw_does_not_know_its_neighbours(kernels: Kernels) -> None:
    logits = normal(2, 37, 129, scale=2).to(kernels.device)
    together = draws_of(np.arange(37), temperature=0.9)
    mixed = Draws(
        rows=together.rows,
        seeds=together.seeds + np.arange(37, dtype=np.uint64) % 3,
        samples=together.samples,
        positions=together.positions,
        temperatures=np.array([0.9, 0.0, 1.7] * 13, np.float32)[:37],
        top_ks=np.array([0, 0, 0, 5] * 10)[:37],
        top_ps=np.array([1.0, 0.7, 1.0, 1.0, 0.9] * 8)[:37],
    )
    tokens, logprobs = kernels.choose(logits, mixed)
    order = np.random.default_rng(0).permutation(37)
    for part in [order, *([i] for i in range(37))]:
        some = Draws(
            rows=np.arange(len(part), dtype=np.int64),
            seeds=mixed.seeds[part],
            samples=mixed.samples[part],
            positions=mixed.positions[part],
            temperatures=mixed.temperatures[part],
            top_ks=mixed.top_ks[part],
            top_ps=mixed.top_ps[part],
        )
        alone, own = kernels.choose(logits[torch.tensor(part)], some)
        assert alone.tolist() == tokens[part].tolist()
        np.testing.assert_allclose(own, logprobs[part], rtol=1e-5, atol=1e-6)


@every_kernels
def test_temperature_zero_takes_the_first_of_the_largest(kernels: Kernels) -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0, -1.0], [5.0, 1.0, 5.0, 5.0], [-3.0, -3.0, -3.0, -3.0]])
    greedy = draws_of([0, 1, 2], temperature=0.0, top_k=2, top_p=0.1)
    tokens, logprobs = kernels.choose(logits.to(kernels.device), greedy)
    assert tokens.tolist() == [1, 0, 0]
    expected = torch.log_softmax(logits.double(), 1)[[0, 1, 2], [1, 0, 0]]
    assert_close(torch.from_numpy(logprobs), expected)


@every_kernels
@pytest.mark.parametrize(("top_k", "top_p", "allowed"), [(2, 1.0, {1, 2}), (0, 0.5, {1, 2, 3}), (3, 0.5, {1, 2})])
def test_of_equal_logits_the_lower_ids_are_kept(kernels: Kernels, top_k: int, top_p: float, allowed: set[int]) -> None:
    logits = torch.tensor([[0.0, 1.0, 1.0, 1.0, 1.0, -40.0]]).to(kernels.device)
    tokens, _ = kernels.choose(logits, draws_of([0] * 200, top_k=top_k, top_p=top_p))
    assert set(tokens.tolist()) == allowed


@every_kernels
def test_top_p_of_nothing_still_leaves_the_most_probable(kernels: Kernels) -> None:
    tokens, _ = kernels.choose(LOGITS_7.to(kernels.device), draws_of([0] * 50, top_p=0.0))
    assert tokens.tolist() == [2] * 50


@every_kernels
@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("top_k", [0, 3])
def test_a_row_without_a_distribution_gives_no_token(
    kernels: Kernels, broken: float, temperature: float, top_k: int
) -> None:
    logits = normal(3, 4, 40)
    logits[0, 39], logits[1, 0], logits[2] = broken, broken, broken
    draws = draws_of([0, 1, 2, 3], temperature=temperature, top_k=top_k)
    tokens, logprobs = kernels.choose(logits.to(kernels.device), draws)
    assert tokens[:3].tolist() == [-1, -1, -1]
    assert np.isnan(logprobs).tolist() == [True, True, True, False]
    assert tokens[3] == sampling_law.draw(logits[3].numpy(), SEED, 3, 30, temperature, top_k)


@every_kernels
def test_excluded_tokens_are_never_drawn(kernels: Kernels) -> None:
    logits = torch.full((1, 33), -math.inf)
    logits[0, 17], logits[0, 32] = 0.0, 1.0
    tokens, logprobs = kernels.choose(logits.to(kernels.device), draws_of([0] * 100))
    assert set(tokens.tolist()) == {17, 32}
    expected = torch.log_softmax(logits.double(), 1)[0, tokens]
    assert_close(torch.from_numpy(logprobs), expected)


@every_kernels
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_top_logprobs_descend_and_break_ties_by_id(kernels: Kernels, temperature: float) -> None:
    logits = normal(4, 5, 70)
    logits[0, :] = 0.0
    logits[1, [60, 3, 41]] = 9.0
    rows = np.array([1, 0, 4, 1], np.int64)
    temperatures = np.full(4, temperature, np.float32)
    tokens, logprobs = kernels.top_logprobs(logits.to(kernels.device), rows, temperatures, 6)
    full = torch.log_softmax(logits.double() / (temperature or 1.0), 1)
    for i, row in enumerate(rows.tolist()):
        order = sorted(range(70), key=lambda v, row=row: (-float(logits[row, v]), v))[:6]
        assert tokens[i].tolist() == order
        assert_close(torch.from_numpy(logprobs[i]), full[row, order])
