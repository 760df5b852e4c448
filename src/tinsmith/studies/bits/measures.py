"""The figures of a cell, from what it sampled and trained and what the reference cell did.

Sources: Div_Index and Avg_Std@top1_prob are arXiv:2506.09501's; peers' names are those of slime, verl, NeMo-RL,
prime-rl and torchtitan, all of them about the sampler's log-probabilities beside the trainer's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.difference.runs import Phase
from tinsmith.lab.difference.tensors import unequal_tensors
from tinsmith.ops.exact import exp, mean
from tinsmith.ops.objectives import kl
from tinsmith.studies.bits.values import TEMPERATURES, Apart, Completion, Marks, Outcome, Place, Sampled, Trained
from tinsmith.types.sketches import TensorMark

Floats = NDArray[np.float32]
Completions = Sequence[Completion]


def sampled(outcome: Outcome, reference: Outcome) -> tuple[Sampled, ...]:
    """Return what a cell sampled, by temperature."""
    return tuple(
        Sampled(
            temperature=temperature,
            completions=len(own),
            unique=len({one.tokens for one in own}),
            unique_bits=len({(one.tokens, _bits(one.logprobs).tobytes()) for one in own}),
            within=apart(own, own[0], spread=own),
            against=apart(own, others[0], spread=[*others, *own]),
            trainer=_from_trainer(own),
        )
        for temperature, own, others in zip(TEMPERATURES, outcome.completions, reference.completions, strict=True)
    )


def apart(own: Completions, other: Completion, *, spread: Completions) -> Apart:
    """Compare completions with another one; `spread` are those over which Avg_Std@top1_prob is taken."""
    tokens, theirs = np.array([one.tokens for one in own]), np.array(other.tokens)
    equal = tokens == theirs
    same = np.logical_and.accumulate(equal, axis=1)
    after = np.concatenate([np.ones((len(own), 1), np.bool_), same[:, :-1]], axis=1)
    flipped = np.array([one.top_tokens for one in own]) != np.array(other.top_tokens)
    first = _first_difference(equal)
    logprobs, beside = np.array([one.logprobs for one in own], np.float32), _floats(other.logprobs)
    return _apart(
        logprobs[same],
        np.broadcast_to(beside, logprobs.shape)[same],
        div_index=first,
        avg_std_top1_prob=_avg_std(spread),
        flip_rate=float(np.mean(flipped[after])),
        unequal_routes=_unequal_routes(own, other, same),
    )


def peers(outcome: Outcome) -> dict[str, float]:
    """Return sampler against trainer under the names that other stacks use, over all tokens of the cell."""
    own = [one for group in outcome.completions for one in group]
    q, p = (one.astype(np.float64) for one in _both(own))
    d, probs = np.abs(q - p), np.abs(exp(q) - exp(p))
    k3 = mean(kl.k3(q - p))
    average = mean(probs)
    std = float(np.sqrt(mean((probs - average) ** 2) * probs.size / max(probs.size - 1, 1)))
    return {
        "train_rollout_logprob_abs_diff": mean(d),
        "rollout_probs_diff_max": float(probs.max()),
        "rollout_probs_diff_mean": average,
        "rollout_probs_diff_std": std,
        "k3_kl": k3,
        "gen_kl_error": k3,
        "mismatch_kl": k3,
        "bit_wise/logprob_diff/max": float(d.max()),
    }


def trained(outcome: Outcome, reference: Outcome) -> Trained:
    """Return what a cell trained."""
    first = _first_place(reference.steps, outcome.steps)
    return Trained(
        steps=len(outcome.steps),
        weights_sha256=outcome.weights_sha256,
        equal=first is None and outcome.weights_sha256 == reference.weights_sha256,
        first=first,
        weight_difference=_weight_difference(reference.weights_file, outcome.weights_file),
    )


def _from_trainer(own: Completions) -> Apart:
    q, p = _both(own)
    routes = [_routes(one.routes) != _routes(one.routed) for one in own if one.routes]
    return _apart(q, p, unequal_routes=float(np.concatenate(routes).mean()) if routes else None)


def _both(own: Completions) -> tuple[Floats, Floats]:
    """Return all log-probabilities of the sampler, and those of the trainer."""
    q, p = (
        [_floats(part) for part in parts] for parts in zip(*((one.logprobs, one.scored) for one in own), strict=True)
    )
    return np.concatenate(q), np.concatenate(p)


def _unequal_routes(own: Completions, other: Completion, same: NDArray[np.bool_]) -> float | None:
    """Among the compared tokens; None where there is none, or no mixture."""
    if not other.routes or not same.any():
        return None
    return float(np.array([_routes(one.routes) != _routes(other.routes) for one in own])[same].mean())


def _routes(routes: Sequence[int]) -> NDArray[np.int64]:
    return np.array(routes, np.int64)


def _apart(
    q: Floats,
    p: Floats,
    *,
    div_index: int | None = None,
    avg_std_top1_prob: float | None = None,
    flip_rate: float | None = None,
    unequal_routes: float | None = None,
) -> Apart:
    d = q.astype(np.float64) - p.astype(np.float64)
    some = bool(d.size)
    return Apart(
        tokens=int(d.size),
        div_index=div_index,
        avg_std_top1_prob=avg_std_top1_prob,
        unequal_bits=float(np.mean(_bits(q) != _bits(p))) if some else None,
        max_difference=float(np.abs(d).max()) if some else None,
        mean_difference=mean(np.abs(d)) if some else None,
        kl_k3=mean(kl.k3(d)) if some else None,
        flip_rate=flip_rate,
        unequal_routes=unequal_routes,
    )


def _avg_std(spread: Completions) -> float | None:
    """Over the positions before the first at which any two of them differ; None: they differ at once."""
    tokens = np.array([one.tokens for one in spread])
    first = _first_difference(tokens == tokens[0])
    top = np.array([one.top_logprobs for one in spread], np.float64)[:, :first]
    if not top.size:
        return None
    probs = exp(top)
    return mean((probs - probs[0]).std(axis=0))  # less the first: equal ones give exactly 0


def _first_difference(equal: NDArray[np.bool_]) -> int | None:
    """The first column in which not all is equal."""
    columns = np.flatnonzero(~equal.all(axis=0))
    return int(columns[0]) if columns.size else None


def _first_place(reference: Sequence[Marks], own: Sequence[Marks]) -> Place | None:
    for step, (theirs, ours) in enumerate(zip(reference, own, strict=True)):
        gradients, weights = (theirs.gradient, ours.gradient), (theirs.weights, ours.weights)
        for phase, both in ((Phase.GRADIENT, gradients), (Phase.OPTIMIZER, weights)):
            found = unequal_tensors(0, *map(_plain, both))
            if found is not None:
                tensors, of_tensors = found.tensors, found.of_tensors
                return Place(step, phase, found.tensor, found.size, tensors, of_tensors)
    return None


def _plain(marks: Mapping[str, TensorMark]) -> Mapping[str, object]:
    return {name: asdict(mark) for name, mark in marks.items()}


def _weight_difference(reference: str, own: str) -> float:
    with np.load(Path(reference)) as a, np.load(Path(own)) as b:
        return max(_relative(a[name], b[name]) for name in sorted(a.files))


def _relative(a: Floats, b: Floats) -> float:
    distance, norm = (float(np.linalg.norm(x.astype(np.float64))) for x in (a - b, a))
    return distance / norm if norm else distance


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, np.float32)


def _bits(values: Sequence[float] | Floats) -> NDArray[np.uint32]:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)
