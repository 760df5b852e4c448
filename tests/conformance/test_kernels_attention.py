"""Attention over pages, forward and backward, against dense float64 attention."""

import numpy as np
import pytest
import torch
from kernel_reference import assert_close, attention, every_kernels, leaf, normal
from torch import Tensor

from paged import Step, Story, pages_needed, rows_of, tell
from tinsmith.ops.forest import Forest, TreeNode
from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.paging import PAGE, Pages
from tinsmith.ops.routing import Routing, dealt

SHAPES = [
    HeadShape(heads=kv * group, kv_heads=kv, head_dim=head_dim)
    for kv, group, head_dim in [(1, 1, 16), (2, 2, 32), (1, 4, 64), (3, 1, 80), (2, 4, 16)]
]
shaped = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.heads}q{s.kv_heads}kv{s.head_dim}d")
LENGTHS = [1, 15, 16, 17, 33, 70, 2, 48]


def width(shape: HeadShape) -> int:
    return (shape.heads + 2 * shape.kv_heads) * shape.head_dim


def stories(shape: HeadShape, lengths: list[int], seed: int = 0) -> list[Story]:
    """Sequences of these lengths in pages drawn at random from a pool with gaps."""
    needed = [pages_needed(length) for length in lengths]
    numbers = np.random.default_rng(seed).permutation(2 * sum(needed)).tolist()
    lines: list[Story] = []
    for i, (length, count) in enumerate(zip(lengths, needed, strict=True)):
        pages, numbers = tuple(numbers[:count]), numbers[count:]
        lines.append(Story(normal(100 * seed + i, length, width(shape)), pages))
    return lines


def assert_told(kernels: Kernels, shape: HeadShape, told: list[Story], steps: list[Step]) -> None:
    outputs = tell(kernels, shape, told, steps, stale=30.0)
    for story, out in zip(told, outputs, strict=True):
        expected = attention(story.qkv.double(), shape)[story.shared :]
        assert_close(out, expected)


@every_kernels
@shaped
def test_whole_sequences_of_every_length(kernels: Kernels, shape: HeadShape) -> None:
    messages = stories(shape, LENGTHS)
    assert_told(kernels, shape, messages, [[(s, n) for s, n in enumerate(LENGTHS)]])


@every_kernels
@shaped
def test_decoding_after_prefill(kernels: Kernels, shape: HeadShape) -> None:
    lengths, printed = [22, 9, 37, 18], [14, 1, 30, 16]
    steps = [list(enumerate(printed))]
    for story in (3, 0):  # decoded once alone, so that the batches differ
        steps.append([(story, 1)])
        printed[story] += 1
    while printed != lengths:
        steps.append([(s, 1) for s in (2, 0, 3, 1) if printed[s] < lengths[s]])
        printed = [min(printed[s] + 1, lengths[s]) for s in range(4)]
    assert_told(kernels, shape, stories(shape, lengths, seed=1), steps)


@every_kernels
@shaped
def test_chunks_and_single_rows_in_one_batch(kernels: Kernels, shape: HeadShape) -> None:
    lengths = [70, 20, 3]
    steps = [[(0, 31), (2, 2)], [(1, 19), (0, 1), (2, 1)], [(0, 38), (1, 1)]]
    assert_told(kernels, shape, stories(shape, lengths, seed=2), steps)


@every_kernels
@shaped
def test_pages_shared_by_two_sequences(kernels: Kernels, shape: HeadShape) -> None:
    first, second = stories(shape, [40, 45], seed=3)
    common = 2 * PAGE
    qkv = torch.cat([first.qkv[:common], second.qkv[common:]])
    second = Story(qkv, first.pages[:2] + second.pages[2:], shared=common)
    steps = [[(0, 40)], [(1, 12)], [(1, 1)]]
    assert_told(kernels, shape, [first, second], steps)


def assert_attends(
    kernels: Kernels, shape: HeadShape, forest: Forest, given: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]
) -> None:
    """Of qkv and the output's gradient, the output and the gradient of qkv."""
    qkv, d_out = (x.to(kernels.device) for x in given)
    pages = Pages.allocate(forest.num_pages, shape.kv_heads, shape.head_dim, kernels.device)
    kernels.store_slots(qkv, shape, forest, pages)
    out, stats = kernels.attention(qkv, shape, forest.rows, pages, want_stats=True)
    assert stats is not None
    assert_close(out, expected[0])
    found = kernels.attention_backward(qkv, shape, forest, out, d_out, stats)
    assert_close(found, expected[1], 5e-6)


@every_kernels
@shaped
def test_gradient_of_whole_sequences(kernels: Kernels, shape: HeadShape) -> None:
    lengths = [1, 17, 64, 70, 5]
    forest = Forest.whole(lengths)
    qkv, d_out = normal(1, sum(lengths), width(shape)), normal(2, sum(lengths), 1)
    d_out = d_out * normal(3, 1, shape.heads * shape.head_dim)
    recorded = leaf(qkv)
    expected = torch.cat([attention(part, shape) for part in recorded.split(lengths)])
    (grad,) = torch.autograd.grad(expected, recorded, d_out.double())

    assert_attends(kernels, shape, forest, (qkv, d_out), (expected, grad))


TREES = (
    (TreeNode(0, 21), TreeNode(21, 5), TreeNode(21, 30), TreeNode(51, 3), TreeNode(51, 18), TreeNode(21, 1)),
    (TreeNode(0, 9),),
    (TreeNode(0, 2), TreeNode(2, 3), TreeNode(5, 2), TreeNode(7, 40), TreeNode(2, 70)),
)
"""Stems within stems, nodes within one page, and a tree of one node."""


@every_kernels
@shaped
def test_a_node_sees_its_path_and_nothing_else(kernels: Kernels, shape: HeadShape) -> None:
    forest = Forest.of(TREES)
    count = int(forest.units[-1])
    qkv = normal(4, count, width(shape))
    d_out = normal(5, count, shape.heads * shape.head_dim)
    recorded = leaf(qkv)
    firsts = forest.rows.first_pos.tolist()
    expected = torch.cat(
        [
            attention(recorded[torch.from_numpy(path)], shape)[first:]
            for path, first in zip(forest.paths, firsts, strict=True)
        ]
    )
    (grad,) = torch.autograd.grad(expected, recorded, d_out.double())

    assert_attends(kernels, shape, forest, (qkv, d_out), (expected, grad))


@every_kernels
def test_large_scores_neither_overflow_nor_drown_the_largest(kernels: Kernels) -> None:
    shape = HeadShape(heads=2, kv_heads=1, head_dim=16)
    qkv = normal(5, 40, width(shape))
    qkv[:, : 3 * 16] *= 12
    output = [Story(qkv, (2, 0, 1))]
    outputs = tell(kernels, shape, output, [[(0, 40)]])
    assert_close(outputs[0], attention(qkv.double(), shape), tolerance=2e-4)  # scores up to 2000


@every_kernels
def test_stored_keys_lie_where_the_page_table_says(kernels: Kernels) -> None:
    shape = HeadShape(heads=2, kv_heads=2, head_dim=20)
    qkv = normal(6, 5, width(shape)).to(kernels.device)
    pages = Pages.allocate(4, 2, 20, kernels.device)
    kernels.store_keys(qkv, shape, rows_of([(14, 4, (3, 1)), (0, 1, (2,))]), pages)
    heads = qkv.unflatten(1, (-1, 20)).cpu()
    keys, values = pages.keys.cpu(), pages.values.cpu()
    for row, page, slot in [(0, 3, 14), (1, 3, 15), (2, 1, 0), (3, 1, 1), (4, 2, 0)]:
        assert torch.equal(keys[page, :, :, slot], heads[row, 2:4])
        assert torch.equal(values[page, :, slot, :20], heads[row, 4:6])
    assert torch.count_nonzero(keys) == 5 * 2 * 20
    assert torch.count_nonzero(values) == 5 * 2 * 20


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
