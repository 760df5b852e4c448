"""Causal attention over pages by torch's own scaled_dot_product_attention.

Sequences with one new row (decoding) are computed in one padded call; sequences with several rows
one by one. Axes: `_N` sequences with one row, `_S` keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tinsmith.ops.kernels import HeadShape
from tinsmith.ops.paging import PAGE, Pages, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows [begin, end) of one sequence, the first of them at position `first`."""

    begin: int
    end: int
    first: int
    pages: Tensor
    """(pages,) int64: page numbers of positions 0 to first + end - begin - 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`Rows` as indices on the device, computed once and used by every layer."""

    page: Tensor
    """(rows,) int64: page of each row's key."""
    slot: Tensor
    """(rows,) int64: slot of each row's key in its page."""
    spans: tuple[Span, ...]
    """Sequences with several rows."""
    single_rows: Tensor
    """(N,) int64: rows that are the only one of their sequence."""
    single_pages: Tensor
    """(N, pages) int64: their pages, padded by repeating the first."""
    visible_NS: Tensor
    """(N, 1, 1, S) bool: keys that each of them attends to."""


def layout_of(rows: Rows, device: torch.device) -> Layout:
    """Compute the slot of every row's key, and the pages that every row reads."""
    begin, first, table = rows.row_begin.cpu(), rows.first_pos.cpu(), rows.table.cpu().long()
    count = begin.diff()
    sequence = torch.repeat_interleave(torch.arange(len(count)), count)
    position = torch.arange(len(sequence)) - begin[sequence] + first[sequence]
    single = torch.nonzero(count == 1).flatten()
    num_pages = int(first[single].max()) // PAGE + 1 if len(single) else 0
    needed = torch.arange(num_pages) * PAGE <= first[single, None]
    return Layout(
        page=table[sequence, position // PAGE].to(device),
        slot=(position % PAGE).to(device),
        spans=tuple(
            Span(
                begin=int(begin[s]),
                end=int(begin[s + 1]),
                first=int(first[s]),
                pages=table[s, : -(-int(first[s] + count[s]) // PAGE)].to(device),
            )
            for s in torch.nonzero(count > 1).flatten().tolist()
        ),
        single_rows=begin[single].to(device),
        single_pages=torch.where(needed, table[single, :num_pages], table[single, :1]).to(device),
        visible_NS=(torch.arange(num_pages * PAGE) <= first[single, None])[:, None, None].to(device),
    )


def store(qkv: Tensor, shape: HeadShape, page: Tensor, slot: Tensor, pages: Pages) -> None:
    """Write k and v of every row into its slot of its page."""
    _, k, v = split(qkv, shape)
    pages.keys[page, :, :, slot] = k
    pages.values[page, :, slot, : shape.head_dim] = v


def attend(qkv: Tensor, shape: HeadShape, layout: Layout, pages: Pages) -> Tensor:
    """Return every row's attention over its sequence's pages, (rows, heads * head_dim)."""
    q = split(qkv, shape)[0]
    out = torch.empty_like(q)
    if len(layout.single_rows):
        k_N, v_N = _gathered(pages, layout.single_pages, shape.head_dim)
        q_N = q[layout.single_rows].unflatten(1, (shape.kv_heads, -1))
        o_N = scaled_dot_product_attention(q_N, k_N, v_N, attn_mask=layout.visible_NS, scale=shape.scale)
        out[layout.single_rows] = o_N.flatten(1, 2)
    for span in layout.spans:
        k, v = _gathered(pages, span.pages[None], shape.head_dim)
        num_keys = span.first + span.end - span.begin
        out[span.begin : span.end] = _causal(
            q[span.begin : span.end], k[:, :, :num_keys], v[:, :, :num_keys], span.first, shape
        )
    return out.flatten(1)


def tree_gradient(qkv: Tensor, shape: HeadShape, paths: list[Tensor], firsts: list[int], d_out: Tensor) -> Tensor:
    """Return the gradient of one tree's rows, recomputing its attention node by node.

    `paths` has the row of every position up to a node's end, `firsts` the position of its first row.
    """
    with torch.enable_grad():
        leaf = qkv.detach().requires_grad_()
        q, k, v = split(leaf, shape)
        outs = [
            _causal(q[path[first:]], k[path].transpose(0, 1)[None], v[path].transpose(0, 1)[None], first, shape)
            for path, first in zip(paths, firsts, strict=True)
        ]
        return torch.autograd.grad(torch.cat(outs).flatten(1), leaf, d_out)[0]


def split(qkv: Tensor, shape: HeadShape) -> tuple[Tensor, Tensor, Tensor]:
    """Return q (rows, heads, head_dim), and k and v (rows, kv_heads, head_dim)."""
    heads = qkv.unflatten(1, (-1, shape.head_dim))
    q, k, v = heads.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
    return q, k, v


def _gathered(pages: Pages, numbers: Tensor, head_dim: int) -> tuple[Tensor, Tensor]:
    """Gather keys and values of the numbered pages (N, pages), each (N, kv_heads, S, head_dim)."""
    keys = pages.keys[numbers].permute(0, 2, 1, 4, 3).flatten(2, 3)
    values = pages.values[numbers].transpose(1, 2).flatten(2, 3)
    return keys, values[..., :head_dim]


def _causal(q: Tensor, k: Tensor, v: Tensor, first: int, shape: HeadShape) -> Tensor:
    """Compute attention of rows (rows, heads, head_dim) from position `first` on, over keys (1, kv_heads, S, ...)."""
    mask = None
    if first > 0:
        rows = torch.arange(first, first + len(q), device=q.device)
        mask = torch.arange(k.shape[2], device=q.device) <= rows[:, None]
    out = scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        k,
        v,
        attn_mask=mask,
        is_causal=mask is None,
        scale=shape.scale,
        enable_gqa=shape.heads != shape.kv_heads,
    )
    return out[0].transpose(0, 1)
