"""Small nets trained from scratch at equal FLOPs: loss on responses, attention in both directions, recurrent depth.

    tinsmith run prompt_masked_pretraining [size=smallest] [key=value ...]

A prompt lists a map of six places onto themselves, a start and a number of hops; the response is where these hops lead.
Maps are random, so that half of a text cannot be foreseen, and a loss on all of it is mostly noise. Plain torch in
fp32: outside the promise of bits. Source: arXiv 2605.20613.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, cast

import torch
from torch import Tensor, nn

from tinsmith.lab.study.measured import MeasuredSize, MeasuredStudy, Outcome, above, around, measurement_of
from tinsmith.lab.study.record import Column
from tinsmith.studies.nets.blocks import (
    Block,
    Decoder,
    Descent,
    Ends,
    answered,
    block_flops,
    causal_mask,
    sha256_of_weights,
)
from tinsmith.types.seeds import derive

NODES, HOPS = 6, 3
TOKENS: Final = NODES + 3  # Of a text without its response: the map, start, hops, and the sign that asks.
VOCABULARY: Final = NODES + HOPS + 1
HELD_OUT: Final = 16  # One map of so many is held out, with all its questions.
H_CYCLES, L_CYCLES = 2, 3
APPLICATIONS: Final = H_CYCLES * (L_CYCLES + 1)  # Of blocks in one pass, in every net.
RECORDED: Final = (2, 5)
"""Last applications of a recurrent net that gradients reach: at first, and after a fifth of the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Settings of one size."""

    gflops: float  # Of training, for every arm.
    width: int = 32
    heads: int = 4
    batch: int = 64
    rate: float = 3e-3
    items: int = 512  # Held-out questions.
    minutes: float = 0.4  # Of one net, for the forecast.


SIZES: Final[Mapping[MeasuredSize, Amounts]] = {
    MeasuredSize.SMALLEST: Amounts(gflops=2.0, items=32, minutes=0.01),
    MeasuredSize.NANO: Amounts(gflops=240.0),
}
EVALUATIONS: Final = 10

STUDY: Final = MeasuredStudy(
    name="prompt_masked_pretraining",
    question="At equal FLOPs, what do a loss on responses only, attention in both directions over the prompt, and "
    "recurrent depth add to a small net?",
    title="Prompt-masked pretraining",
    source="HRM-Text (arXiv 2605.20613)",
    arms={
        "full": "causal, loss on all tokens",
        "masked": "causal, loss on responses",
        "prefix": "prefix mask, loss on responses",
        "recurrent": "recurrent, else as prefix mask",
        "shuffled": "prefix mask, shuffled responses",
    },
    columns={
        "right": Column(head="right"),
        "blind": Column(head="right|by the start alone"),
        **{f"hops_{k}": Column(head=f"right|{k} {'hop' if k == 1 else 'hops'}") for k in range(1, HOPS + 1)},
        "parameters": Column(head="parameters", form=".0f"),
        "steps": Column(head="steps", form=".0f"),
        "gflops": Column(head="GFLOPs|of training", form=".1f"),
    },
    caption="Held-out maps, answered greedily: means over seeds with Student's 95 % intervals. Every net applies "
    f"{APPLICATIONS} blocks to a token; those of the recurrent one are two blocks in turn.",
    expectations=(
        ("a loss on responses ends above one on all tokens", above("masked", "full", "right")),
        ("a prefix mask ends above a causal one", above("prefix", "masked", "right")),
        ("a recurrent net ends above one as deep", above("recurrent", "prefix", "right")),
        ("nothing is learned from shuffled responses", around("shuffled", "right", 1 / NODES, margin=0.06)),
    ),
    axis="per cent of the FLOPs",
    tuning_seed=101,
    notes=(
        "Of six answers one is right; the best guess that does not read the map is the start.",
        "Plain torch in fp32 on one thread: these figures repeat on one machine, and are outside the promise of bits.",
    ),
)


@cache
def maps(*, held_out: bool) -> Tensor:
    """Return all maps (count, nodes) that are held out, or all others, by a digest of all places."""
    every = torch.cartesian_prod(*[torch.arange(NODES)] * NODES)
    return every[torch.tensor([(derive(0, "map", code) % HELD_OUT == 0) == held_out for code in range(len(every))])]


def texts(count: int, seed: int, *, held_out: bool) -> Tensor:
    """Return texts (count, tokens + 1): a map (held-out ones differ), start, hops, the sign that asks, and the end."""
    draw, every = torch.Generator().manual_seed(seed), maps(held_out=held_out)
    at = torch.randperm(len(every), generator=draw) if held_out else torch.randint(len(every), (count,), generator=draw)
    chosen = every[at[:count]]
    start = torch.randint(NODES, (count, 1), generator=draw)
    hops = torch.randint(1, HOPS + 1, (count, 1), generator=draw)
    end = at = start
    for hop in range(1, HOPS + 1):
        at = chosen.gather(1, at)
        end = torch.where(hops == hop, at, end)
    return torch.cat([chosen, start, NODES + hops - 1, torch.full_like(start, NODES + HOPS), end], 1)


def step_flops(amounts: Amounts, recorded: int = APPLICATIONS) -> int:
    """Return the FLOPs of products in one step, of which gradients reach the last `recorded` applications of blocks."""
    head = 3 * TOKENS * 2 * amounts.width * VOCABULARY
    return amounts.batch * ((APPLICATIONS + 2 * recorded) * block_flops(TOKENS, amounts.width) + head)


def recurrent_net(width: int, heads: int) -> nn.ModuleDict:
    """Return a recurrent net with fresh weights: a fast and a slow block, and the norm after the fast one."""
    ends = Ends(VOCABULARY, TOKENS, width)
    return nn.ModuleDict(
        {"ends": ends, "fast": Block(width, heads), "slow": Block(width, heads), "norm": nn.RMSNorm(width)}
    )


def recur(net: nn.ModuleDict, tokens: Tensor, mask: Tensor, recorded: int = APPLICATIONS) -> Tensor:
    """Return logits; gradients reach the last `recorded` applications of blocks.

    fast <- L(fast + slow + embedded), L_CYCLES times, then slow <- H(slow + fast); all of it H_CYCLES times. Each ends
    with a norm. As in HRM-Text, with the input added at each fast step as in HRM (arXiv 2506.21734).
    """
    ends = cast("Ends", net["ends"])
    embedded = slow = ends.enter(tokens)
    fast, wanted = torch.zeros_like(embedded), torch.is_grad_enabled()
    for place in range(APPLICATIONS):
        with torch.set_grad_enabled(wanted and place >= APPLICATIONS - recorded):
            if (place + 1) % (L_CYCLES + 1):
                fast = net["norm"](net["fast"](fast + slow + embedded, mask))
            else:
                slow = net["slow"](slow + fast, mask)
                slow = slow if place == APPLICATIONS - 1 else ends.norm(slow)
    return ends.leave(slow)


def trained(arm: str, seed: int, amounts: Amounts) -> Outcome:
    """Return the figures of one net after its training."""
    torch.set_num_threads(1)
    torch.manual_seed(derive(seed, "weights"))
    is_recurrent, prefix = arm == "recurrent", 0 if arm in ("full", "masked") else TOKENS
    shape = amounts.width, amounts.heads
    net = recurrent_net(*shape) if is_recurrent else Decoder(VOCABULARY, TOKENS, *shape, APPLICATIONS)
    mask, descent = causal_mask(TOKENS, prefix), Descent(net.parameters(), amounts.rate)

    def forward(tokens: Tensor, recorded: int = APPLICATIONS) -> Tensor:
        return recur(net, tokens, mask, recorded) if isinstance(net, nn.ModuleDict) else net(tokens, mask)

    test = texts(amounts.items, derive(0, "held out"), held_out=True)
    budget, spent, curve = amounts.gflops * 1e9, 0, list[tuple[int, float]]()
    right = torch.zeros(len(test))
    while True:
        progress = spent / budget
        recorded = min(RECORDED[1], RECORDED[0] + int(15.0 * progress)) if is_recurrent else APPLICATIONS
        cost = step_flops(amounts, recorded)
        is_over = spent + cost > budget
        if is_over or progress * EVALUATIONS >= len(curve):
            right = answered(forward, test, 1).double()
            curve.append((100 if is_over else len(curve) * 100 // EVALUATIONS, right.mean().item()))
        if is_over:
            break
        batch = texts(amounts.batch, derive(seed, "batch", descent.steps), held_out=False)
        if arm == "shuffled":
            batch[:, -1] = batch[:, -1].roll(1)
        logits = forward(batch[:, :-1], recorded)
        since = 0 if arm == "full" else TOKENS - 1
        descent.step(logits[:, since:], batch[:, since + 1 :], progress)
        spent += cost
    return Outcome(
        figures={
            "right": right.mean().item(),
            "blind": (test[:, -1] == test[:, NODES]).double().mean().item(),
            **{f"hops_{k}": right[test[:, -3] == NODES + k - 1].mean().item() for k in range(1, HOPS + 1)},
            "parameters": float(sum(one.numel() for one in net.parameters())),
            "steps": float(descent.steps),
            "gflops": spent / 1e9,
        },
        curve=curve,
        updates=descent.steps,
        weights_sha256=sha256_of_weights(net),
    )


prompt_masked_pretraining: Final = measurement_of(STUDY, SIZES, trained)
