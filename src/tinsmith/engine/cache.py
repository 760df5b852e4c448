"""The KV cache: pages of 16 keys shared by reference, reserved before they are needed.

A page may be kept when nobody uses it any more: it is idle then, and as good as free, as whoever keeps it gives it up.
Where a key lies never changes a bit, so pages are handed out in any order; that a recycled page holds old finite
values is harmless, since a masked key weighs exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tinsmith.models.config import DecoderConfig
from tinsmith.ops.paging import PAGE, Pages
from tinsmith.types.errors import ConfigError


def pages_for(tokens: int) -> int:
    """Pages that hold this many tokens."""
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
        """A page beyond those that are handed out, for rows that are nobody's."""
        self._free = list(range(capacity - 1, -1, -1))
        self._references = [0] * capacity
        self._reserved = 0
        self._kept = bytearray(capacity)
        self.idle = 0
        """Pages that are kept, and otherwise free."""
        self.reclaim: Callable[[], None] = _nothing
        """Gives up at least one idle page."""
        self.num_reused = 0
        """Tokens of prompts whose keys and values were there already, so far."""

    @property
    def available(self) -> int:
        """Pages that are free, or can be, and that nobody has reserved."""
        return len(self._free) + self.idle - self._reserved

    def reserve(self, count: int) -> None:
        """Set pages aside; the caller has checked `available`."""
        assert count <= self.available
        self._reserved += count

    def unreserve(self, count: int) -> None:
        """Give a reservation back."""
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
        """Drop a reference; the last one frees the page. Return whether it did."""
        self._references[page] -= 1
        self.idle += self.is_idle(page)
        if self._references[page] == 0:
            self._free.append(page)
            return True
        return False

    def keep(self, page: int) -> None:
        """Keep a page that somebody uses, also when nobody does any more; once."""
        assert self._references[page] > 0
        assert not self._kept[page]
        self._kept[page] = True
        self._references[page] += 1

    def let_go(self, page: int) -> None:
        """Keep a page no longer."""
        self.idle -= self.is_idle(page)
        self._kept[page] = False
        self.release(page)

    def is_idle(self, page: int) -> bool:
        """True if a page is kept and nobody uses it."""
        return bool(self._kept[page]) and self._references[page] == 1

    def duplicate(self, page: int, copies: list[int]) -> None:
        """Copy one page's keys and values into others, in every layer."""
        for layer in self.layers:
            layer.keys[copies] = layer.keys[page].clone()
            layer.values[copies] = layer.values[page].clone()

    def scrub(self, pages: list[int]) -> None:
        """Zero pages that may hold values that are not finite, before anyone else gets them."""
        for layer in self.layers:
            layer.keys[pages] = 0.0
            layer.values[pages] = 0.0


def _nothing() -> None:
    """Nobody keeps pages."""
