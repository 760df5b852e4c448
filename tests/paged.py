"""Sequences fed through paged attention in steps, as an engine does: prefill, chunks, decoding.

A `Story` is one sequence's rotated rows and the pages it lives in; a step gives some stories some
new rows each. What comes out per story must not depend on the steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.paging import PAGE, Pages, Rows


@dataclass(frozen=True, slots=True)
class Story:
    """Rows [q | k | v] of one sequence, its page numbers, and how many positions others store."""

    qkv: Tensor
    pages: tuple[int, ...]
    shared: int = 0

    def __len__(self) -> int:
        return len(self.qkv)


Step = Sequence[tuple[int, int]]
"""(story, number of new rows), in batch order."""


def rows_of(entries: Sequence[tuple[int, int, tuple[int, ...]]], spare_columns: int = 0) -> Rows:
    """Rows of (first position, number of rows, pages) per sequence; unused table entries are 0."""
    width = max(len(pages) for _, _, pages in entries) + spare_columns
    table = np.zeros((len(entries), width), np.int32)
    for s, (_, _, pages) in enumerate(entries):
        table[s, : len(pages)] = pages
    counts = [count for _, count, _ in entries]
    return Rows(
        row_begin=torch.tensor(np.cumsum([0, *counts])),
        first_pos=torch.tensor([first for first, _, _ in entries]),
        positions=torch.cat([torch.arange(f, f + n) for f, n, _ in entries]),
        table=torch.from_numpy(table),
    )


def tell(
    kernels: Kernels,
    shape: HeadShape,
    stories: Sequence[Story],
    steps: Sequence[Step],
    *,
    stale: float = 0.0,
    spare_columns: int = 0,
) -> list[Tensor]:
    """Return each story's attention output, its rows in order; pages start filled with `stale`."""
    num_pages = max(max(story.pages) for story in stories) + 1
    pages = Pages.allocate(num_pages, shape.kv_heads, shape.head_dim, kernels.device)
    pages.keys.fill_(stale)
    pages.values.fill_(-stale)
    lines = [story.shared for story in stories]
    outputs: list[list[Tensor]] = [[] for _ in stories]
    for step in steps:
        entries = [(lines[s], count, stories[s].pages) for s, count in step]
        rows = rows_of(entries, spare_columns)
        qkv = torch.cat([stories[s].qkv[lines[s] : lines[s] + count] for s, count in step])
        qkv = qkv.to(kernels.device)
        kernels.store_keys(qkv, shape, rows, pages)
        out, _ = kernels.attention(qkv, shape, rows, pages, want_stats=False)
        counts = [count for _, count in step]
        for (s, count), part in zip(step, out.cpu().split(counts), strict=True):
            outputs[s].append(part)
            lines[s] += count
    assert lines == [len(story) for story in stories], "the steps do not tell the stories to the end"
    return [torch.cat(parts) for parts in outputs]


def pages_needed(length: int) -> int:
    return -(-length // PAGE)
