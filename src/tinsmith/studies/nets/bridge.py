"""Two frozen models coupled by their hidden states: one asks, the other adds, and a small bridge between them learns.

    tinsmith run bridge [size=smallest] [key=value ...]

One model reads sums of two numbers and knows those without a carry; another one, with an alphabet of its own, adds.
Both are frozen. The adder gets blank texts: all it knows of a sum comes through the bridge, from the embeddings of the
first model, and goes back into its hidden states before its last block, at each token in lockstep. The bridge learns
from the loss on answers alone. Plain torch in fp32: outside the promise of bits. Source: arXiv 2605.11167.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from torch import Tensor, nn

from tinsmith.lab.study import measured
from tinsmith.lab.study.measured import MeasuredSize, MeasuredStudy, Outcome
from tinsmith.lab.study.record import Column
from tinsmith.studies.nets.blocks import Decoder, Descent, answered, causal_mask, continued, sha256_of_weights
from tinsmith.types.seeds import derive

DIGITS: Final = 2
ANSWER: Final = DIGITS + 1  # Digits of a sum, the last one first.
TOKENS: Final = 2 * DIGITS + 1 + DIGITS  # Of a text without its last token: two numbers, the sign that asks, the sum.
ASK, BLANK, VOCABULARY = 10, 11, 12
HELD_OUT: Final = 7  # One pair of numbers of so many is held out, in both orders, by a digest.
_NUMBERS: Final = range(10**DIGITS)
_HELD_OUT: Final = [[derive(0, "pair", *sorted((a, b))) % HELD_OUT == 0 for b in _NUMBERS] for a in _NUMBERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Settings of one size."""

    asker_steps: int
    adder_steps: int
    bridge_steps: int
    items: int = 512  # Held-out sums.
    asker_width: int = 32
    adder_width: int = 48
    blocks: int = 2
    heads: int = 4
    adder_batch: int = 128
    batch: int = 64
    model_rate: float = 3e-3
    bridge_rate: float = 1e-2
    minutes: float = 0.15  # Of one arm with one seed, for the forecast.


SIZES: Final[Mapping[MeasuredSize, Amounts]] = {
    MeasuredSize.SMALLEST: Amounts(asker_steps=8, adder_steps=8, bridge_steps=8, items=32, minutes=0.01),
    MeasuredSize.NANO: Amounts(asker_steps=400, adder_steps=1000, bridge_steps=600),
}

STUDY: Final = MeasuredStudy(
    name="bridge",
    question="Do two frozen models, coupled by their hidden states, do together what one of them cannot?",
    title="A bridge between two frozen models",
    source="Bicameral Model (arXiv 2605.11167)",
    arms={
        "alone": "the asker alone",
        "bridge": "bridge to the adder",
        "closed": "the same bridge, gates at zero",
        "bypass": "bridge around the adder",
        "shuffled": "bridge, shuffled answers",
        "own": "bridge, the asker's own answers",
        "adder": "the adder on its own alphabet",
    },
    columns={
        "right": Column(head="right"),
        "right_carry": Column(head="right|with a carry"),
        "right_plain": Column(head="right|without"),
        "trained": Column(head="parameters|trained", form=".0f"),
        "share": Column(head="trained|of all", form=".3f"),
    },
    caption="Held-out sums, answered greedily, all digits right: means over seeds with Student's 95 % intervals.",
    expectations=(
        ("a bridge at least doubles what the asker does", measured.above("bridge", "alone", "right", times=2.0)),
        ("it does more than a bridge as large around the adder", measured.above("bridge", "bypass", "right", by=0.1)),
        ("gates at zero give back the asker", measured.same("closed", "alone", "right")),
        ("shuffled answers change it by less than 0.1", measured.around("shuffled", "right", "alone", margin=0.1)),
        ("the asker's own answers change it by less than 0.1", measured.around("own", "right", "alone", margin=0.1)),
        ("the adder can add, with every seed", measured.at_least("adder", "right", 0.95)),
    ),
    axis="step",
    tuning_seed=101,
    notes=(
        "Every seed has two models of its own; all arms of a seed share them.",
        "Plain torch in fp32 on one thread: these figures repeat on one machine, and are outside the promise of bits.",
    ),
)


def sums(count: int, seed: int, *, held_out: bool = False, carry: bool = True) -> Tensor:
    """Return texts (count, tokens + 1): two numbers, the sign that asks, their sum; without `carry` none has one."""
    draw, table = torch.Generator().manual_seed(seed), torch.tensor(_HELD_OUT)
    if held_out:  # Each pair once, in one of its orders.
        pairs = table.triu().nonzero()[torch.randperm(int(table.triu().sum()), generator=draw)]
        pairs = torch.where(torch.randint(2, (len(pairs), 1), generator=draw) == 0, pairs, pairs.flip(1))
    else:
        pairs = torch.randint(len(_NUMBERS), (count * (1 if carry else 4) * 2 + 64, 2), generator=draw)
        pairs = pairs[~table[pairs[:, 0], pairs[:, 1]]]
    digits = pairs[..., None] // 10 ** torch.arange(DIGITS - 1, -1, -1) % 10
    total = pairs.sum(1)[:, None] // 10 ** torch.arange(ANSWER) % 10
    whole = torch.cat([digits.flatten(1), torch.full_like(total[:, :1], ASK), total], 1)
    return whole[carry | (digits.sum(1) < 10).all(1)][:count]


@cache
def frozen(seed: int, amounts: Amounts) -> tuple[Decoder, Decoder]:
    """Return the asker, which was trained on sums without a carry, and the adder, trained on all."""
    mask, made = causal_mask(TOKENS), list[Decoder]()
    shapes = {
        "asker": (amounts.asker_width, amounts.asker_steps, amounts.batch),
        "adder": (amounts.adder_width, amounts.adder_steps, amounts.adder_batch),
    }
    for name, (width, steps, size) in shapes.items():
        torch.manual_seed(derive(seed, name))
        net = Decoder(VOCABULARY, TOKENS, width, amounts.heads, amounts.blocks)
        descent = Descent(net.parameters(), amounts.model_rate)
        for step in range(steps):
            batch = sums(size, derive(seed, name, step), carry=name == "adder")
            descent.step(net(batch[:, :-1], mask)[:, -ANSWER:], batch[:, -ANSWER:], step / steps)
        made.append(net.requires_grad_(False))
    return made[0], made[1]


def bridge_between(asker: int, adder: int) -> nn.ModuleDict:
    """Return fresh translations and gates between two widths."""
    parts = nn.ModuleDict()
    for name, width, other in (("there", asker, adder), ("back", adder, asker)):
        parts[name] = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, other))
        gate = nn.Linear(2 * other, 1)
        nn.init.constant_(gate.bias, 2.0)
        parts[f"gate_{name}"] = gate
    return parts


def coupled(
    models: tuple[Decoder, Decoder], parts: nn.ModuleDict, tokens: Tensor, *, opening: float = 1.0, around: bool = False
) -> Tensor:
    """Return the asker's logits; h becomes h + opening g(h, T(h')) T(h'); `around` leaves out the adder's blocks."""

    def crossed(name: str, state: Tensor, other: Tensor) -> Tensor:
        translated = parts[name](other)
        gate = torch.sigmoid(parts[f"gate_{name}"](torch.cat([state, translated], -1)))
        return state + opening * gate * translated

    (asker, adder), mask = models, causal_mask(TOKENS)
    mine = asker.ends.enter(tokens)
    other = crossed("there", adder.ends.enter(torch.full_like(tokens, BLANK)), mine)
    for block in () if around else adder.blocks:
        other = block(other, mask)
    for block in asker.blocks[:-1]:
        mine = block(mine, mask)
    return asker.ends.leave(asker.blocks[-1](crossed("back", mine, adder.ends.norm(other)), mask))


@cache
def learned(arm: str, seed: int, amounts: Amounts) -> nn.ModuleDict:
    """Return the bridge of an arm, trained on the asker's answers."""
    torch.manual_seed(derive(seed, "bridge"))
    models, parts = frozen(seed, amounts), bridge_between(amounts.asker_width, amounts.adder_width)
    descent = Descent(parts.parameters(), amounts.bridge_rate)
    for step in range(amounts.bridge_steps):
        batch = sums(amounts.batch, derive(seed, "bridge", step))
        if arm == "own":  # Nothing new in them: a control that can stay where it was, which wrong answers cannot.
            batch = continued(lambda x: models[0](x, causal_mask(TOKENS)), batch, ANSWER)
        targets = batch[:, -ANSWER:].roll(int(arm == "shuffled"), 0)
        logits = coupled(models, parts, batch[:, :-1], around=arm == "bypass")
        descent.step(logits[:, -ANSWER:], targets, step / amounts.bridge_steps)
    return parts


def trained(arm: str, seed: int, amounts: Amounts) -> Outcome:
    """Return the figures of one arm."""
    torch.set_num_threads(1)
    models, mask = frozen(seed, amounts), causal_mask(TOKENS)
    test = sums(amounts.items, derive(0, "held out"), held_out=True)
    if arm in ("alone", "adder"):
        net = models[arm == "adder"]
        count, right = 0, answered(lambda x: net(x, mask), test, ANSWER)
    else:
        net = learned("bridge" if arm == "closed" else arm, seed, amounts)
        opening, around = float(arm != "closed"), arm == "bypass"
        right = answered(lambda x: coupled(models, net, x, opening=opening, around=around), test, ANSWER)
        count = sum(one.numel() for one in net.parameters())
    carries = (test[:, :DIGITS] + test[:, DIGITS : 2 * DIGITS] > 9).any(1)
    whole = sum(one.numel() for model in models for one in model.parameters())
    return Outcome(
        figures={
            "right": right.double().mean().item(),
            "right_carry": right[carries].double().mean().item(),
            "right_plain": right[~carries].double().mean().item(),
            "trained": float(count),
            "share": count / (count + whole),
        },
        updates=amounts.bridge_steps if count and arm != "closed" else 0,
        weights_sha256=sha256_of_weights(net),
    )


bridge: Final = measured.measurement_of(STUDY, SIZES, trained)
