"""KV cache: pages of 16 keys, shared by reference and reserved before they are needed; limits of a step's work.

A cached page stays after its last user has released it. It is idle then and counts as available, since its cache evicts
it on demand. The position of a key in memory never changes a bit, so pages are handed out in any order. A recycled page
holds old finite values, which is harmless, since a masked key weighs exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tinsmith.models.config import DecoderConfig
from tinsmith.ops.paging import PAGE, Pages
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import ConfigError


def pages_for(tokens: int) -> int:
    """Number of pages that hold this many tokens."""
    return (tokens + PAGE - 1) // PAGE


class PagePool:
    """A fixed number of pages per layer, with reference counts and reservations."""

    def __init__(self, config: DecoderConfig, capacity: int, device: torch.device) -> None:
        """Hold `capacity` pages per layer.

        Raises:
            ConfigError: if one sequence of the model's whole context would not fit.
        """
        least = pages_for(config.max_positions) + 1
        if capacity < least:
            raise ConfigError(
                "the KV cache cannot hold one whole context", field="cache_pages", value=capacity, allowed=f">= {least}"
            )
        self.layers = tuple(
            Pages.allocate(capacity + 1, config.num_kv_heads, config.head_dim, device) for _ in range(config.num_layers)
        )
        self.capacity = capacity
        self.spare = capacity
        """Extra page beyond the capacity, for padding rows."""
        self._free = list(range(capacity - 1, -1, -1))
        self._references = [0] * capacity
        self._reserved = 0
        self._cached = bytearray(capacity)
        self.idle = 0
        """Number of cached pages without a user."""
        self.reclaim: Callable[[], None] = _nothing
        """Callback that evicts at least one idle page."""
        self.num_reused = 0
        """Prompt tokens so far whose keys and values were reused from the cache."""

    @property
    def available(self) -> int:
        """Number of pages that are free or idle, and not reserved."""
        return len(self._free) + self.idle - self._reserved

    def reserve(self, count: int) -> None:
        """Reserve pages; the caller has checked `available`."""
        assert count <= self.available
        self._reserved += count

    def unreserve(self, count: int) -> None:
        """Return a reservation."""
        self._reserved -= count

    def take(self) -> int:
        """Turn one reservation into a page."""
        self._reserved -= 1
        if not self._free:
            self.reclaim()
        page = self._free.pop()
        self._references[page] = 1
        return page

    def share(self, page: int) -> None:
        """Add a reference."""
        self.idle -= self.is_idle(page)
        self._references[page] += 1

    def release(self, page: int) -> bool:
        """Drop a reference; the last one frees the page. Return True if it was freed."""
        self._references[page] -= 1
        self.idle += self.is_idle(page)
        if self._references[page] == 0:
            self._free.append(page)
            return True
        return False

    def keep(self, page: int) -> None:
        """Cache a page that is in use, so that it outlives its last user. Call this once per page."""
        assert self._references[page] > 0
        assert not self._cached[page]
        self._cached[page] = True
        self._references[page] += 1

    def let_go(self, page: int) -> None:
        """Stop caching a page."""
        self.idle -= self.is_idle(page)
        self._cached[page] = False
        self.release(page)

    def is_idle(self, page: int) -> bool:
        """True if a page is cached and has no user."""
        return bool(self._cached[page]) and self._references[page] == 1

    def duplicate(self, page: int, copies: list[int]) -> None:
        """Copy one page's keys and values into others, in every layer."""
        for layer in self.layers:
            layer.keys[copies] = layer.keys[page].clone()
            layer.values[copies] = layer.values[page].clone()

    def scrub(self, pages: list[int]) -> None:
        """Zero pages that may hold non-finite values before they are reused."""
        for layer in self.layers:
            layer.keys[pages] = 0.0
            layer.values[pages] = 0.0


def _nothing() -> None:
    """Default of `reclaim`: nothing is cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerLimits:
    """Limits on the work of one step. None of them changes a result."""

    cache_pages: int | None = None
    """KV pages per layer; None: 32 whole contexts, or 1 GiB if that is less (taken from the system as it fills)."""
    max_samples: int = 256
    """Samples decoded in one step, and first tokens drawn in one."""
    prefill_tokens: int = 2048
    """Prompt tokens computed in one step."""
    logits: int = 1 << 26
    """Most logits held at once."""
    drafted: int = 0
    """Most tokens drafted for a sample in one step; 0 disables drafts."""
    prefix_pages: int | None = 0
    """Unused pages that the prefix cache retains; None: half of all. With 0 every prompt is computed anew, which is for
    comparisons of repeated computations."""


def cache_pages(config: DecoderConfig, limits: SamplerLimits) -> int:
    """Number of pages in each layer's cache: the configured one, or the default for this shape."""
    page_bytes = 2 * 4 * PAGE * config.kv_size * config.num_layers
    least = pages_for(config.max_positions) + 1
    return limits.cache_pages or max(least, min(32 * least, (1 << 30) // page_bytes))


def usual_limits(arithmetic: Arithmetic) -> SamplerLimits:
    """Default limits of an engine: prefix cache and drafts are on if batching changes no bit."""
    return SamplerLimits() if arithmetic is Arithmetic.FAST else SamplerLimits(prefix_pages=None, drafted=7)
