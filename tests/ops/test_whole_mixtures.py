"""A mixture in one call has the bits of its experts one by one: outputs, gradients, with every kind of adapter."""

from enum import StrEnum
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tinsmith.ops.experts import ExpertParts, MixtureActivations, MixtureRows, Mlp
from tinsmith.ops.extension import configure, module
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear, LowRank, refresh_norm
from tinsmith.ops.mixture import MixtureRun, OneByOne, mixed
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.routing import Dealt, Routes, Routing, dealt
from tinsmith.types.arithmetic import Isa

ROWS, HIDDEN, INNER, EXPERTS, ACTIVE, RANK = 61, 40, 24, 7, 2, 5
IDLE = 3
"""An expert that no row takes."""
SEGMENTS = torch.tensor([0, 9, 9, 30, 61])


class Trained(StrEnum):
    """Trained weights."""

    BASE = "base"
    LORA = "lora"
    DORA = "dora"
    SOME = "some"


def _weight(draw: torch.Generator, *shape: int, trained: bool = True) -> Weight:
    made = Weight(torch.randn(*shape, generator=draw) * 0.3)
    if trained:
        made.train()
    return made


def _low(kernels: NativeKernels, draw: torch.Generator, linear: Linear, trained: Trained) -> LowRank:
    ends = [0]
    for width in linear.widths:
        ends.append(ends[-1] + width)
    low = LowRank(
        a=_weight(draw, linear.in_size, RANK * len(linear.widths)),
        b=tuple(_weight(draw, RANK, width) for width in linear.widths),
        columns=tuple(pairwise(ends)),
        scaling=0.7,
    )
    if trained is Trained.DORA:
        low.magnitude = _weight(draw, linear.out_size)
        refresh_norm(kernels, linear, low)
    return low


class Layer:
    """A mixture drawn from a seed, its routes, and what may be trained."""

    def __init__(self, kernels: NativeKernels, trained: Trained) -> None:
        draw = torch.Generator().manual_seed(11)
        base = trained is Trained.BASE

        def linear(inputs: int, widths: tuple[int, ...]) -> Linear:
            weight = _weight(draw, inputs, sum(widths), trained=base)
            return Linear((weight,), inputs, widths)

        self.experts: list[Mlp] = [
            Mlp(linear(HIDDEN, (INNER, INNER)), linear(INNER, (HIDDEN,))) for _ in range(EXPERTS)
        ]
        self.parts: list[ExpertParts] = [(None, None)] * EXPERTS
        if not base:
            self.parts = [
                (
                    _low(kernels, draw, one.gate_up, trained),
                    None if trained is Trained.SOME else _low(kernels, draw, one.down, trained),
                )
                for one in self.experts
            ]
        self.x: Tensor = torch.randn(ROWS, HIDDEN, generator=draw)
        self.dy: Tensor = torch.randn(ROWS, HIDDEN, generator=draw)
        logits = torch.randn(ROWS, EXPERTS, generator=draw)
        logits[:, IDLE] = -9.0
        self.routes: Routes = kernels.route(logits, Routing(active=ACTIVE, normalised=True))
        self.mix: MixtureRows = self.dealt(dealt(self.routes, EXPERTS))

    def dealt(self, deal: Dealt) -> MixtureRows:
        return MixtureRows(self.routes, deal, self.experts, self.parts.__getitem__)

    def gradients(self) -> list[Tensor]:
        weights = [
            base for one in self.experts for base in (one.gate_up.base[0], one.down.base[0]) if isinstance(base, Weight)
        ]
        for low in (low for pair in self.parts for low in pair if low is not None):
            weights += [low.a, *low.b, *([] if low.magnitude is None else [low.magnitude])]
        return [weight.grad for weight in weights if weight.grad is not None]


def _whole(kernels: NativeKernels, layer: Layer) -> list[Tensor]:
    y, kept = kernels.mixture_forward(layer.x, layer.mix)
    dx, d_weights = kernels.mixture_backward(layer.dy, layer.x, layer.mix, SEGMENTS, kept)
    return [y, dx, d_weights, *_rooms(kept), *layer.gradients()]


def _one_by_one(kernels: NativeKernels, layer: Layer) -> list[Tensor]:
    y, kept = OneByOne.mixture_forward(kernels, layer.x, layer.mix)
    dx, d_weights = OneByOne.mixture_backward(kernels, layer.dy, layer.x, layer.mix, SEGMENTS, kept)
    return [y, dx, d_weights, *_rooms(kept), *layer.gradients()]


def _rooms(kept: MixtureActivations) -> list[Tensor]:
    return [room for room in kept.rooms if room is not None]


@pytest.mark.parametrize("trained", list(Trained))
def test_one_call_has_the_bits_of_experts_one_by_one(kernels: NativeKernels, trained: Trained) -> None:
    whole = _whole(kernels, Layer(kernels, trained))
    apart = _one_by_one(kernels, Layer(kernels, trained))
    assert len(whole) == len(apart) > 5
    assert all(torch.equal(a, b) for a, b in zip(whole, apart, strict=True))
    assert all(bool(x.isfinite().all()) for x in whole)


@pytest.mark.parametrize("trained", list(Trained))
def test_every_isa_has_one_set_of_bits(trained: Trained) -> None:
    native, found = NativeKernels(), list[list[Tensor]]()
    for isa in module().supported_isas():
        configure(threads=1, isa=Isa(isa))
        found.append(_whole(native, Layer(native, trained)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_an_expert_without_rows_gets_no_gradient(kernels: NativeKernels) -> None:
    layer = Layer(kernels, Trained.BASE)
    _whole(kernels, layer)
    for e, one in enumerate(layer.experts):
        base = one.gate_up.base[0]
        assert bool(base.grad.any()) is (e != IDLE)


def test_a_first_gradient_is_what_adding_it_to_zeros_gives(kernels: NativeKernels) -> None:
    first, added = Layer(kernels, Trained.BASE), Layer(kernels, Trained.BASE)
    assert not any(bool(zeros.any()) for zeros in added.gradients())
    for layer in (first, added):
        layer.x *= 1e-20  # products of such values round to zeros of both signs
        layer.dy *= 1e-20
        _whole(kernels, layer)
    one, other = first.gradients(), added.gradients()
    assert [x.numpy().tobytes() for x in one] == [x.numpy().tobytes() for x in other]
    assert not any(bool(x[x == 0].signbit().any()) for x in one)


def test_a_part_with_other_tensors_is_seen(kernels: NativeKernels) -> None:
    layer = Layer(kernels, Trained.DORA)
    run = MixtureRun(0, ROWS, layer.mix.parts)

    def output() -> Tensor:
        return mixed(kernels, layer.x, layer.routes, layer.experts, [run])

    before = output()
    for one, (up, _) in zip(layer.experts, layer.parts, strict=True):
        up.magnitude = Weight(up.magnitude.value * 2.0)
        refresh_norm(kernels, one.gate_up, up)
    after = output()
    assert not torch.equal(before, after)
    fresh = NativeKernels()
    assert torch.equal(mixed(fresh, layer.x, layer.routes, layer.experts, [run]), after)


@pytest.mark.parametrize("wrong", ["places", "bounds", "kept"])
def test_arrays_that_do_not_fit_are_refused(kernels: NativeKernels, wrong: str) -> None:
    layer = Layer(kernels, Trained.LORA)
    deal = layer.mix.deal
    if wrong == "places":
        deal = Dealt(deal.rows, torch.zeros_like(deal.places), deal.bounds)
    elif wrong == "bounds":
        deal = Dealt(deal.rows, deal.places, [0, *([ROWS] * EXPERTS)])
    _, kept = kernels.mixture_forward(layer.x, layer.mix)
    if wrong == "kept":
        short = Dealt(deal.rows[:3], deal.places, deal.bounds)
        kept = MixtureActivations.empty(layer.dealt(short), layer.x.device)
    with pytest.raises(ValueError, match="mixture"):
        kernels.mixture_backward(layer.dy, layer.x, layer.dealt(deal), SEGMENTS, kept)
