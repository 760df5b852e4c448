"""A sequence's attention bits do not depend on neighbours, chunks, pages or what pages held before."""

from functools import cache

import numpy as np
import pytest
import torch
from canonical_cases import Float32s, assert_same_bits, fma32, lane_sum, normal, product, product_chain

from paged import Story, pages_needed, tell
from tinsmith.ops.extension import module
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import HeadShape
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.paging import Pages

native = module()
k = NativeKernels()

SHAPES = [
    HeadShape(heads=kv * group, kv_heads=kv, head_dim=head_dim)
    for kv, group, head_dim in [(1, 1, 16), (2, 4, 32), (2, 2, 80), (1, 7, 64)]
]
shaped = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.heads}q{s.kv_heads}kv{s.head_dim}d")


@pytest.fixture(params=[1, 3], ids=["1 thread", "3 threads"], autouse=True)
def _threads(request: pytest.FixtureRequest) -> None:
    native.set_num_threads(request.param)


def story(shape: HeadShape, length: int, first_page: int = 0, seed: int = 1) -> Story:
    width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    pages = tuple(range(first_page, first_page + pages_needed(length)))
    return Story(normal(seed, length, width, scale=2), pages)


@shaped
def test_alone_and_among_neighbours(shape: HeadShape) -> None:
    lengths = [33, 1, 70, 16, 50]
    stories = [story(shape, n, 10 * s, seed=s) for s, n in enumerate(lengths)]
    together = tell(k, shape, stories, [list(enumerate(lengths))])
    for one, out in zip(stories, together, strict=True):
        assert_same_bits(tell(k, shape, [one], [[(0, len(one))]])[0], out)


@shaped
@pytest.mark.parametrize("length", [1, 16, 17, 70])
def test_prefilled_at_once_in_chunks_and_row_by_row(shape: HeadShape, length: int) -> None:
    one = story(shape, length)
    (whole,) = tell(k, shape, [one], [[(0, length)]])
    for chunk in (1, 2, 7, 15, 16, 17, 24, 33):
        counts = [min(chunk, length - at) for at in range(0, length, chunk)]
        (out,) = tell(k, shape, [one], [[(0, count)] for count in counts])
        assert_same_bits(out, whole, f"chunks of {chunk}")


@shaped
def test_decoded_in_batches_that_come_and_go(shape: HeadShape) -> None:
    lengths = [40, 23, 37]
    stories = [story(shape, n, 10 * s, seed=s) for s, n in enumerate(lengths)]
    expected = [tell(k, shape, [one], [[(0, len(one))]])[0] for one in stories]
    steps = [[(0, 30)], [(0, 1), (1, 21)], *[[(1, 1), (2, 5), (0, 1)]] * 2]
    steps += [[(2, 20), (0, 1)], *[[(0, 1), (2, 1)]] * 6, [(2, 1)]]
    for out, own in zip(tell(k, shape, stories, steps), expected, strict=True):
        assert_same_bits(out, own)


@shaped
def test_wherever_its_pages_lie(shape: HeadShape) -> None:
    one = story(shape, 70)
    (in_order,) = tell(k, shape, [one], [[(0, 70)]])
    for pages in ((4, 3, 2, 1, 0), (11, 2, 40, 7, 9)):
        moved = Story(one.qkv, pages)
        (out,) = tell(k, shape, [moved], [[(0, 50)], *[[(0, 1)]] * 20])
        assert_same_bits(out, in_order)


@shaped
def test_wider_tables_and_stale_pages(shape: HeadShape) -> None:
    one = story(shape, 35)
    (clean,) = tell(k, shape, [one], [[(0, 35)]])
    for steps in ([[(0, 35)]], [[(0, 1)]] * 35):
        (wide,) = tell(k, shape, [one], steps, spare_columns=9)
        assert_same_bits(wide, clean)
        for stale in (1.0, -1e4, 1e30):
            (out,) = tell(k, shape, [one], steps, stale=stale)
            assert_same_bits(out, clean, f"stale {stale}")


@shaped
def test_shared_pages_are_as_good_as_own(shape: HeadShape) -> None:
    one = story(shape, 45)
    (whole,) = tell(k, shape, [one], [[(0, 45)]])
    second = Story(one.qkv, (*one.pages[:2], 9), shared=32)
    outputs = tell(k, shape, [one, second], [[(0, 45)], [(1, 4)], *[[(1, 1)]] * 9])
    assert_same_bits(outputs[1], whole[32:])


@shaped
def test_gradients_alone_and_among_neighbours(shape: HeadShape) -> None:
    lengths = [70, 1, 16, 49, 100]
    stories = [story(shape, n, seed=s) for s, n in enumerate(lengths)]
    qkv = torch.cat([one.qkv for one in stories])
    d_out = normal(9, len(qkv), shape.heads * shape.head_dim)
    together = gradient(shape, lengths, qkv, d_out)
    parts = zip(qkv.split(lengths), d_out.split(lengths), together.split(lengths), strict=True)
    for own_qkv, own_d_out, expected in parts:
        alone = gradient(shape, [len(own_qkv)], own_qkv.contiguous(), own_d_out.contiguous())
        assert_same_bits(alone, expected)


def gradient(shape: HeadShape, lengths: list[int], qkv: torch.Tensor, d_out: torch.Tensor) -> torch.Tensor:
    return forest_gradient(shape, Forest.whole(lengths), qkv, d_out)[0]


def forest_gradient(
    shape: HeadShape, forest: Forest, qkv: torch.Tensor, d_out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Gradient of qkv, output and statistics."""
    pages = Pages.allocate(forest.num_pages, shape.kv_heads, shape.head_dim, k.device)
    k.store_slots(qkv, shape, forest, pages)
    out, stats = k.attention(qkv, shape, forest.rows, pages, want_stats=True)
    assert stats is not None
    return k.attention_backward(qkv, shape, forest, out, d_out, stats), out, stats


@shaped
@pytest.mark.parametrize("length", [5, 37])
def test_attention_is_the_documented_sequence_of_operations(shape: HeadShape, length: int) -> None:
    """Chains over d; weights by our exp; 16 lanes of sums, key j in lane j mod 16; chains over keys."""
    one = story(shape, length)
    out = tell(k, shape, [one], [[(0, length)]])[0].view(length, shape.heads, -1).numpy()
    heads = one.qkv.view(length, -1, shape.head_dim).numpy()
    padded = 16 * pages_needed(length)
    for h in range(shape.heads):
        kv = shape.heads + h // (shape.heads // shape.kv_heads)
        q = heads[:, h] * np.float32(shape.scale)
        scores = product_chain(q, np.ascontiguousarray(heads[:, kv].T))
        for row in range(length):
            seen = scores[row, : row + 1]
            weights = np.zeros(padded, np.float32)
            native.exp(seen - seen.max(), weights[: row + 1])
            lanes = np.zeros(16, np.float32)
            for block in weights.reshape(-1, 16):
                lanes = lanes + block
            chain = product_chain(weights[None, :length], heads[:, kv + shape.kv_heads])
            assert_same_bits(out[row, h], chain[0] / lane_sum(lanes))


@cache
def documented_gradient(shape: HeadShape, length: int) -> Float32s:
    """Gradient of qkv by head, as documented: at any number of threads the same.

    dQ: a product over keys, ascending. dK, dV: one chain over (query head of the group, row).
    """
    qkv, d_out = story(shape, length).qkv, normal(9, length, shape.heads * shape.head_dim)
    _, out, stats = forest_gradient(shape, Forest.whole([length]), qkv, d_out)
    group, scale = shape.heads // shape.kv_heads, np.float32(shape.scale)
    heads, out_h, d_out_h = (x.view(length, -1, shape.head_dim).transpose(0, 1).numpy() for x in (qkv, out, d_out))
    found = np.zeros_like(heads)
    future = np.triu(np.ones((length, length), bool), 1)
    for kv in range(shape.kv_heads):
        key, value = heads[shape.heads + kv], heads[shape.heads + shape.kv_heads + kv]
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        for h in range(kv * group, (kv + 1) * group):
            q = heads[h] * scale
            weights = product_chain(q, key.T) - stats[0][:, h, None].numpy()
            native.exp(np.ascontiguousarray(weights), weights)
            weights *= np.float32(1) / stats[1][:, h, None].numpy()
            weights[future] = 0
            shares = product(d_out_h[h], value.T) - row_dots(d_out_h[h], out_h[h])[:, None]
            shares *= weights
            found[h] = product(shares, key) * scale
            d_key = product_chain(shares.T, q, d_key)
            d_value = product_chain(weights.T, d_out_h[h], d_value)
        found[shape.heads + kv] = d_key
        found[shape.heads + shape.kv_heads + kv] = d_value
    return found


@pytest.mark.whole
@pytest.mark.parametrize(
    ("shape", "length"), [*((shape, n) for shape in SHAPES for n in (5, 60, 130)), (SHAPES[0], 1030)]
)  # 130: two chains of a product; 1,030: two ranges of keys
def test_gradients_are_the_documented_sequence_of_operations(shape: HeadShape, length: int) -> None:
    got = gradient(shape, [length], story(shape, length).qkv, normal(9, length, shape.heads * shape.head_dim))
    by_head = got.view(length, -1, shape.head_dim).transpose(0, 1)
    assert_same_bits(by_head, documented_gradient(shape, length))


def row_dots(a: Float32s, b: Float32s) -> Float32s:
    """Fused products of each row in sixteen lanes, then halving."""
    lanes = np.zeros((len(a), 16), np.float32)
    for at in range(0, a.shape[1], 16):
        part = slice(at, at + 16)
        lanes = fma32(a[:, part], b[:, part], lanes)
    return lane_sum(lanes)
