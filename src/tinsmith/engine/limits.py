"""Limits on the work of a sampler's steps, and their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.engine.cache import pages_for
from tinsmith.models.config import DecoderConfig
from tinsmith.ops.paging import PAGE
from tinsmith.types.arithmetic import Arithmetic


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
