"""Choice of tokens under adjustments: grammars, logit bias and penalties.

The order is vLLM's (`vllm/v1/sample/sampler.py`, steps 3 to 7): grammar mask, logit bias, repetition, frequency and
presence penalty, temperature, min_p, top-k, top-p. Adjusted rows are copied and changed by elementwise fp32 steps in a
fixed order, so that every machine draws the same token; all other rows are drawn as usual. The log-probability is
always that of the unadjusted row at the request's temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.kernels import Draws, Kernels
from tinsmith.types.datum import IntArray
from tinsmith.types.sampling import Adjustments


@dataclass(frozen=True, slots=True)
class Choice:
    """Adjustments of one draw, with the tokens and the grammar that they depend on."""

    adjustments: Adjustments
    prompt: IntArray
    output: Sequence[int]
    """The sample's tokens so far."""
    allowed: NDArray[np.bool_] | None
    """Mask of the tokens that the grammar allows next, (vocabulary,)."""


def choose(
    kernels: Kernels, logits: Tensor, draws: Draws, choices: Sequence[Choice | None]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Draw a token per entry of `draws`, those with a choice from an adjusted copy of their row.

    Returns:
        Tokens (N,), and their log-probabilities (N,) before anything was adjusted; -1 and NaN for a row that has no
        distribution.
    """
    adjusted = np.array([i for i, choice in enumerate(choices) if choice is not None], np.int64)
    if not len(adjusted):
        return kernels.choose(logits, draws)
    tokens = np.empty(len(choices), np.int32)
    logprobs = np.empty(len(choices), np.float32)
    plain = np.setdiff1d(np.arange(len(choices)), adjusted)
    if len(plain):
        tokens[plain], logprobs[plain] = kernels.choose(logits, _some(draws, plain))
    size = max(1, logits.shape[0])  # as many rows again as there are, at most
    own = _own_rows(draws, choices, adjusted)
    for begin in range(0, own[-1] + 1, size):
        some = (own >= begin) & (own < begin + size)
        part, rows = adjusted[some], own[some] - begin
        tokens[part] = _choose_adjusted(kernels, logits, _some(draws, part), rows, [choices[i] for i in part.tolist()])
    for part in np.split(adjusted, range(size, len(adjusted), size)):
        rows = logits[torch.from_numpy(draws.rows[part]).to(logits.device)]
        logprobs[part] = _logprobs(kernels, rows, draws.temperatures[part], tokens[part])
    tokens[np.isnan(logprobs)] = -1
    return tokens, logprobs


def _own_rows(draws: Draws, choices: Sequence[Choice | None], adjusted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the adjusted rows of draws (N,), rising: first tokens of one prompt have one, if no grammar is at work."""
    numbers: list[int] = []
    last = -1
    for i in adjusted.tolist():
        choice, row = choices[i], int(draws.rows[i])
        first = choice is not None and not choice.output and choice.allowed is None
        numbers.append((numbers[-1] if numbers else -1) + (not first or row != last))
        last = row if first else -1
    return np.array(numbers, np.int64)


def _choose_adjusted(
    kernels: Kernels, logits: Tensor, draws: Draws, own: NDArray[np.int64], choices: Sequence[Choice | None]
) -> NDArray[np.int32]:
    """Draw from adjusted copies of rows; `own` (N,) is the place of each draw's copy."""
    firsts = np.unique(own, return_index=True)[1]
    values = logits[torch.from_numpy(draws.rows[firsts]).to(logits.device)].cpu().numpy().copy()
    for row, first in zip(values, firsts.tolist(), strict=True):
        if (choice := choices[first]) is not None:
            adjust(row, choice, float(draws.temperatures[first]))
    return kernels.choose(torch.from_numpy(values).to(logits.device), replace(draws, rows=own))[0]


def adjust(row: NDArray[np.float32], choice: Choice, temperature: float) -> None:
    """Adjust the logits of one draw (vocabulary,) in place; an excluded token gets minus infinity."""
    rules = choice.adjustments
    if choice.allowed is not None:
        row[~choice.allowed] = -np.inf
    if rules.logit_bias:
        biased = np.array([token for token, _ in rules.logit_bias], np.int64)
        row[biased] += np.array([bias for _, bias in rules.logit_bias], np.float32)
    if rules.repetition_penalty != 1.0:
        used = np.union1d(choice.prompt, np.asarray(choice.output, np.int32))
        penalty, old = np.float32(rules.repetition_penalty), row[used]
        row[used] = np.where(old > 0, old / penalty, old * penalty)
    if rules.frequency_penalty or rules.presence_penalty:
        generated, counts = np.unique(np.asarray(choice.output, np.int64), return_counts=True)
        row[generated] -= np.float32(rules.frequency_penalty) * counts.astype(np.float32)
        row[generated] -= np.float32(rules.presence_penalty)
    if rules.min_p > 0.0 and temperature > 0.0:
        row[row < np.float64(row.max()) + temperature * ln(rules.min_p)] = -np.inf


def ln(x: float) -> float:
    """Natural logarithm, rounded from 28 digits: a system library's may differ in the last bit."""
    return float(Decimal(x).ln())


def _logprobs(
    kernels: Kernels, rows: Tensor, temperatures: NDArray[np.float32], tokens: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Log-probabilities of `tokens` in the unadjusted rows, as `Kernels.choose` computes them."""
    scale = np.where(temperatures == 0, np.float32(1), temperatures)
    scaled = rows
    if (scale != 1).any():
        scaled = rows / torch.from_numpy(scale).to(rows.device)[:, None]
    stats = kernels.row_stats(scaled, 1.0)
    drawn = torch.from_numpy(np.maximum(tokens, 0)).to(rows.device)
    return kernels.gather_logprobs(scaled, drawn, stats).cpu().numpy()


def _some(draws: Draws, which: NDArray[np.int64]) -> Draws:
    return Draws(
        rows=draws.rows[which],
        seeds=draws.seeds[which],
        samples=draws.samples[which],
        positions=draws.positions[which],
        temperatures=draws.temperatures[which],
        top_ks=draws.top_ks[which],
        top_ps=draws.top_ps[which],
    )
