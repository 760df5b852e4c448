"""Scores of a prompt's tokens, read from the same rows of logits as its samples.

Every figure is at temperature 1, except that alternatives are drawn at the request's temperature. Their noise is a
function of (seed, index of the alternative, position), independent of all other samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.kernels import Draws, Kernels
from tinsmith.ops.spreads import entropy_of, no_spread, rank_of
from tinsmith.types.sampling import SampledSequence, SampleRequest, SampleResult, TopLogprobs

FIRST_ALTERNATIVE = 1 << 32
"""Sample index of a position's first alternative: beyond every sample's own."""


class PromptScores:
    """Scores of one prompt, filled in as its rows are computed."""

    def __init__(self, request: SampleRequest) -> None:
        length = len(request.prompt)
        self.request = request
        self.logprobs = np.full(length, np.nan, np.float32)
        self.top = _table(length, request.topk_prompt_logprobs)
        targets = request.target_prompt_logprobs
        self.targets = None if targets is None else np.zeros(targets.shape, np.float32)
        self.alternatives = _table(length - 1, request.prompt_alternatives)
        self.spread = None if request.spread_targets is None else no_spread(length - 1)

    def asks(self, at: int) -> bool:
        """True if a score is requested for the prompt's token at a position, which is read from the row before it."""
        request = self.request
        if at == 0 or at == len(request.prompt):
            return False
        targets = request.spread_targets
        return _beside_spread(request) or (targets is not None and bool(targets[at - 1] >= 0))

    @property
    def first_row(self) -> int:
        """First row whose logits are needed: that of the first requested token, or the last one."""
        request, last = self.request, len(self.request.prompt) - 1
        if _beside_spread(request):
            return 0
        targets = request.spread_targets
        needed = np.flatnonzero(targets >= 0).tolist() if targets is not None else []
        return needed[0] if needed else last

    @property
    def unknown(self) -> bool:
        """True if a requested row had no distribution."""
        missing = np.flatnonzero(np.isnan(self.logprobs))
        return any(self.asks(at) for at in missing.tolist())

    def result(self, sequences: tuple[SampledSequence, ...]) -> SampleResult:
        """Requested scores, besides the samples."""
        request = self.request
        return SampleResult(
            sequences=sequences,
            prompt_logprobs=self.logprobs if request.prompt_logprobs else None,
            prompt_top=self.top if request.topk_prompt_logprobs else None,
            target_prompt_logprobs=self.targets,
            prompt_alternatives=self.alternatives if request.prompt_alternatives else None,
            prompt_spread=self.spread,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """Row of logits, and the prompt token after it."""

    row: int
    scores: PromptScores
    at: int
    """Position of the token in its prompt, at least 1."""


def scores_prompt(request: SampleRequest) -> bool:
    """True if a request asks for any prompt score."""
    return _beside_spread(request) or request.spread_targets is not None


def _beside_spread(request: SampleRequest) -> bool:
    """True if a score is requested for every token but the first."""
    return (
        request.prompt_logprobs
        or request.topk_prompt_logprobs > 0
        or request.target_prompt_logprobs is not None
        or request.prompt_alternatives > 0
    )


def read_prompts(kernels: Kernels, logits: Tensor, reads: Sequence[Read]) -> None:
    """Fill in the scores of the tokens after these rows; NaN for a row that has no distribution."""
    some = logits[torch.tensor([read.row for read in reads], device=logits.device)]
    stats = kernels.row_stats(some, 1.0)
    _own_tokens(kernels, some, stats, reads)
    _most_probable(kernels, some, reads)
    _targets(kernels, some, stats, reads)
    _alternatives(kernels, some, stats, reads)
    _spreads(kernels, some, stats, reads)


def _own_tokens(kernels: Kernels, some: Tensor, stats: tuple[Tensor, Tensor], reads: Sequence[Read]) -> None:
    targets = np.array([read.scores.request.prompt[read.at] for read in reads], np.int32)
    logprobs = _gathered(kernels, some, stats, targets)
    for read, logprob in zip(reads, logprobs, strict=True):
        read.scores.logprobs[read.at] = logprob


def _most_probable(kernels: Kernels, some: Tensor, reads: Sequence[Read]) -> None:
    most = max(read.scores.request.topk_prompt_logprobs for read in reads)
    if most == 0:
        return
    tokens, values = kernels.top_logprobs(some, np.arange(len(reads)), np.ones(len(reads), np.float32), most)
    for i, read in enumerate(reads):
        k, top = read.scores.request.topk_prompt_logprobs, read.scores.top
        top.tokens[read.at], top.logprobs[read.at] = tokens[i, :k], values[i, :k]


def _targets(kernels: Kernels, row_logits: Tensor, stats: tuple[Tensor, Tensor], reads: Sequence[Read]) -> None:
    for i, read in enumerate(reads):
        requested = read.scores.request.target_prompt_logprobs
        if requested is None or read.scores.targets is None:
            continue
        cells = np.flatnonzero(requested[read.at - 1] >= 0)
        if len(cells):
            tokens = requested[read.at - 1, cells].astype(np.int32)
            rows = torch.full((len(cells),), i, dtype=torch.int64)
            read.scores.targets[read.at - 1, cells] = _gathered(kernels, row_logits, stats, tokens, rows)


def _alternatives(kernels: Kernels, row_logits: Tensor, stats: tuple[Tensor, Tensor], reads: Sequence[Read]) -> None:
    for i, read in enumerate(reads):
        request = read.scores.request
        k = request.prompt_alternatives
        if k == 0:
            continue
        draws = Draws(
            rows=np.full(k, i, np.int64),
            seeds=np.full(k, request.params.seed, np.uint64),
            samples=np.arange(FIRST_ALTERNATIVE, FIRST_ALTERNATIVE + k, dtype=np.int64),
            positions=np.full(k, read.at, np.int64),
            temperatures=np.full(k, request.params.temperature, np.float32),
            top_ks=np.full(k, -1, np.int64),
            top_ps=np.ones(k, np.float64),
        )
        tokens = kernels.choose(row_logits, draws)[0]
        rows = torch.full((k,), i, dtype=torch.int64)
        table = read.scores.alternatives
        table.tokens[read.at - 1] = tokens
        table.logprobs[read.at - 1] = _gathered(kernels, row_logits, stats, np.maximum(tokens, 0), rows)


def _spreads(kernels: Kernels, row_logits: Tensor, stats: tuple[Tensor, Tensor], reads: Sequence[Read]) -> None:
    tables = [read.scores.request.spread_targets for read in reads]
    entries = [
        (i, read, int(table[read.at - 1]))
        for i, (read, table) in enumerate(zip(reads, tables, strict=True))
        if table is not None and table[read.at - 1] >= 0
    ]
    if not entries:
        return
    rows = np.array([i for i, _, _ in entries], np.int64)
    targets = np.array([target for _, _, target in entries], np.int32)
    logprobs = _gathered(kernels, row_logits, stats, targets, torch.from_numpy(rows))
    largest, log_sum = (each.cpu().numpy()[rows] for each in stats)
    logits = row_logits.cpu().numpy()[rows]
    for place, (_, read, target) in enumerate(entries):
        spreads, at = read.scores.spread, read.at - 1
        assert spreads is not None, "it was asked for"
        if np.isnan(logprobs[place]):
            continue  # the request is about to fail
        spreads.ranks[at], spreads.best[at] = rank_of(logits[place], target)
        spreads.logprobs[at] = logprobs[place]
        spreads.entropies[at] = entropy_of(logits[place], float(largest[place]), float(log_sum[place]))


def _gathered(
    kernels: Kernels, some: Tensor, stats: tuple[Tensor, Tensor], tokens: NDArray[np.int32], rows: Tensor | None = None
) -> NDArray[np.float32]:
    targets = torch.from_numpy(tokens).to(some.device)
    return kernels.gather_logprobs(some, targets, stats, rows=rows).cpu().numpy()


def _table(length: int, k: int) -> TopLogprobs:
    return TopLogprobs(tokens=np.full((length, k), -1, np.int32), logprobs=np.full((length, k), np.nan, np.float32))
