"""Routing of a mixture, against float64 formulas and their gradients, for every kernel implementation."""

import pytest
import torch
from kernel_reference import assert_close, every_kernels, leaf, normal
from torch import Tensor

from tinsmith.ops.kernels import Kernels
from tinsmith.ops.routing import Routing, dealt

ROWS = 37
ROUTINGS = pytest.mark.parametrize(("experts", "active"), [(1, 1), (8, 2), (16, 16), (64, 8), (23, 5)], ids=str)
NORMALISED = pytest.mark.parametrize("normalised", [False, True])


def _weights(logits: Tensor, experts: Tensor, *, normalised: bool) -> Tensor:
    if normalised:
        return torch.softmax(logits.gather(1, experts), 1)
    return torch.softmax(logits, 1).gather(1, experts)


@every_kernels
@ROUTINGS
@NORMALISED
def test_a_row_takes_the_largest_logits_weighted_by_their_softmax(
    kernels: Kernels, experts: int, active: int, normalised: bool
) -> None:
    logits = normal(1, ROWS, experts, scale=2.0)
    routing = Routing(active=active, normalised=normalised)
    routes = kernels.route(logits.to(kernels.device), routing)
    chosen = routes.experts.cpu()
    expected = torch.sort(torch.topk(logits, active, dim=1).indices, dim=1).values
    assert torch.equal(chosen, expected)
    exact = leaf(logits)
    weights = _weights(exact, chosen, normalised=normalised)
    assert_close(routes.weights, weights)
    given = normal(2, ROWS, active)
    (weights * given.double()).sum().backward()
    found = kernels.route_backward(logits.to(kernels.device), routing, routes, given.to(kernels.device))
    assert exact.grad is not None
    assert_close(found, exact.grad)


@every_kernels
@pytest.mark.parametrize("logit", [0.0, -0.0, 3.5, float("-inf")])
def test_ties_go_to_the_lower_expert(kernels: Kernels, logit: float) -> None:
    logits = torch.full((3, 12), logit)
    logits[1, 7] = 4.0
    logits[2, ::2] = -1e30 if logit > -1e30 else float("-inf")
    routes = kernels.route(logits.to(kernels.device), Routing(active=3, normalised=True))
    first = [0, 1, 2]
    odd = first if logit == float("-inf") else [1, 3, 5]
    assert routes.experts.cpu().tolist() == [first, [0, 1, 7], odd]


@every_kernels
def test_logits_that_are_not_finite_choose_experts_that_there_are(kernels: Kernels) -> None:
    logits = normal(3, 4, 9)
    logits[0, 4], logits[1], logits[2, :5] = float("nan"), float("nan"), float("inf")
    routes = kernels.route(logits.to(kernels.device), Routing(active=4, normalised=False))
    for row in routes.experts.cpu().tolist():
        assert len(set(row)) == 4
        assert all(0 <= expert < 9 for expert in row)
    assert not routes.weights[:2].isfinite().all()


@every_kernels
@pytest.mark.parametrize("width", [1, 15, 64, 101])
def test_row_dots_are_the_products_of_rows(kernels: Kernels, width: int) -> None:
    x, y = normal(1, ROWS, width), normal(2, ROWS, width, scale=width**-0.5)
    found = kernels.row_dots(x.to(kernels.device), y.to(kernels.device))
    assert_close(found, (x.double() * y.double()).sum(1))


@every_kernels
def test_rows_are_dealt_by_expert_in_their_order(kernels: Kernels) -> None:
    routes = kernels.route(normal(5, ROWS, 6).to(kernels.device), Routing(active=2, normalised=True))
    deal = dealt(routes, 6)
    experts = routes.experts.cpu()
    for e in range(6):
        begin, end = deal.bounds[e], deal.bounds[e + 1]
        rows = deal.rows[begin:end].cpu()
        assert rows.tolist() == [r for r in range(ROWS) if e in experts[r]]
        places = deal.places[begin:end].cpu()
        assert torch.equal(experts.flatten()[places], torch.full_like(places, e))
    assert deal.bounds[-1] == 2 * ROWS
