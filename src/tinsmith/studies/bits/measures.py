"""Figures of a cell, from what it sampled and trained and what the reference cell did.

Sources: Div_Index and Avg_Std@top1_prob are arXiv:2506.09501's; peers' names are those of slime, verl, NeMo-RL,
prime-rl and torchtitan, all of them about the sampler's log-probabilities beside the trainer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.difference.rollouts import unequal_tensors
from tinsmith.lab.difference.runs import Phase
from tinsmith.ops.exact import exp, mean
from tinsmith.ops.objectives import kl
from tinsmith.studies.bits.cells import TEMPERATURES, Completion, Outcome

Floats = NDArray[np.float32]
Completions = Sequence[Completion]


class Verdict(StrEnum):
    """Finding of a cell, beside what is promised of it."""

    REFERENCE = "reference"
    KEPT = "kept"  # Promised to be equal, and equal in every bit.
    BROKEN = "BROKEN"  # Promised to be equal, and not.
    SEEN = "seen"  # A fault on purpose that shows.
    UNSEEN = "NOT SEEN"  # A fault on purpose that nothing shows.
    EQUAL = "equal"  # Though nothing is promised.
    DIFFERENT = "different"  # And nothing is promised.
    UNAVAILABLE = "not here"  # Cannot be had on this machine, or with this engine.

    @property
    def wrong(self) -> bool:
        """True if something is not as it must be."""
        return self in (Verdict.BROKEN, Verdict.UNSEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Distance of completions from others of the same prompt; figures without a token to be taken over are None.

    Compared are `tokens`: the same token after the same tokens; differences are of log-probabilities, in nats.
    """

    tokens: int
    div_index: int | None = None  # Div_Index: the first position at which a token differs; None: none does.
    avg_std_top1_prob: float | None = None
    """Avg_Std@top1_prob: spread of the top token's probability over the completions, averaged over the positions before
    the first that differs."""
    unequal_bits: float | None  # Share of the compared tokens whose log-probabilities are not the same float.
    max_difference: float | None
    mean_difference: float | None
    kl_k3: float | None
    flip_rate: float | None = None
    """Share of the positions after the same tokens at which another token is the most probable one."""
    unequal_routes: float | None = None
    """Of a mixture: share of the compared tokens whose row took another expert in some layer."""

    @property
    def same(self) -> bool:
        """True if tokens, bits and routes are the same."""
        return self.div_index is None and self.unequal_bits == 0.0 and not self.unequal_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Completions of one prompt at one temperature: from the cell's first, the reference's first, and the trainer's."""

    temperature: float
    completions: int
    unique: int  # Different ones among them, by tokens.
    unique_bits: int  # By tokens and the bits of their log-probabilities.
    within: Apart
    against: Apart
    trainer: Apart

    @property
    def one(self) -> bool:
        """True if all completions are one, and the trainer agrees."""
        return self.unique_bits == 1 and self.trainer.same


@dataclass(frozen=True, slots=True)
class Place:
    """First difference of training from the reference cell's; `size` is ||a - b|| / ||a||, estimated from sketches."""

    step: int
    phase: Phase
    tensor: str
    size: float | None
    tensors: int  # Unequal ones in that step and phase.
    of_tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A few steps of training: equal where gradients, weights and final hash are the reference cell's."""

    steps: int
    weights_sha256: str
    equal: bool
    first: Place | None
    weight_difference: float  # Largest ||a - b|| / ||a|| of a tensor's final weights, against the reference cell.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell, and what it changes of the reference cell; without figures where it is unavailable."""

    title: str
    changes: Mapping[str, str]
    cell: Mapping[str, str]
    verdict: Verdict
    unavailable: str | None = None
    sampled: tuple[Sampled, ...] = ()
    trained: Trained | None = None
    peers: Mapping[str, float] | None = None  # Sampler against trainer under the names that other stacks use.
    seconds: float = 0.0
    machine: Mapping[str, str] | None = None

    @property
    def unequal_routes(self) -> float | None:
        """Largest share of tokens routed otherwise than in the reference cell or by its trainer; None: no mixture."""
        return self.worst(lambda one: one.against.unequal_routes, lambda one: one.trainer.unequal_routes)

    def worst(self, *figures: Callable[[Sampled], float | None]) -> float | None:
        """Return the largest of some figures at both temperatures; None: there is none."""
        found = [value for one in self.sampled for of in figures if (value := of(one)) is not None]
        return max(found, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep; the first cell is the reference."""

    model: str
    completions: int
    prompt: int
    tokens: int
    steps: int
    machine: Mapping[str, str]
    cells: tuple[CellResult, ...]

    @property
    def routed(self) -> tuple[CellResult, ...]:
        """Cells of a mixture, whose routes were compared."""
        return tuple(cell for cell in self.cells if cell.unequal_routes is not None)

    @property
    def wrong(self) -> tuple[CellResult, ...]:
        """Cells that are not as they must be."""
        return tuple(cell for cell in self.cells if cell.verdict.wrong)


def sampled(outcome: Outcome, reference: Outcome) -> tuple[Sampled, ...]:
    """Return what a cell sampled, by temperature."""
    samples: list[Sampled] = []
    for temperature, own, others in zip(TEMPERATURES, outcome.completions, reference.completions, strict=True):
        routes = [np.array(one.routes) != np.array(one.routed) for one in own if one.routes]
        unequal_routes = float(np.concatenate(routes).mean()) if routes else None
        samples.append(
            Sampled(
                temperature=temperature,
                completions=len(own),
                unique=len({one.tokens for one in own}),
                unique_bits=len({(one.tokens, np.array(one.logprobs, np.float32).tobytes()) for one in own}),
                within=apart(own, own[0], spread=own),
                against=apart(own, others[0], spread=[*others, *own]),
                trainer=Apart(**_distances(*_both(own)), unequal_routes=unequal_routes),
            )
        )
    return tuple(samples)


def apart(own: Completions, other: Completion, *, spread: Completions) -> Apart:
    """Compare completions with another one; `spread` are those over which Avg_Std@top1_prob is taken."""
    equal = np.array([one.tokens for one in own]) == np.array(other.tokens)
    same = np.logical_and.accumulate(equal, axis=1)
    after = np.concatenate([np.ones((len(own), 1), np.bool_), same[:, :-1]], axis=1)
    flipped = np.array([one.top_tokens for one in own]) != np.array(other.top_tokens)
    logprobs, beside = np.array([one.logprobs for one in own], np.float32), np.array(other.logprobs, np.float32)
    routes = np.array([one.routes for one in own]) != np.array(other.routes) if other.routes else None
    return Apart(
        **_distances(logprobs[same], np.broadcast_to(beside, logprobs.shape)[same]),
        div_index=_first_difference(equal),
        avg_std_top1_prob=_avg_std(spread),
        flip_rate=float(np.mean(flipped[after])),
        unequal_routes=None if routes is None or not same.any() else float(routes[same].mean()),
    )


def peers(outcome: Outcome) -> dict[str, float]:
    """Return sampler against trainer under the names that other stacks use, over all tokens of the cell."""
    q, p = (one.astype(np.float64) for one in _both([one for group in outcome.completions for one in group]))
    d, probs = np.abs(q - p), np.abs(exp(q) - exp(p))
    k3, average = mean(kl.k3(q - p)), mean(probs)
    return {
        "train_rollout_logprob_abs_diff": mean(d),
        "rollout_probs_diff_max": float(probs.max()),
        "rollout_probs_diff_mean": average,
        "rollout_probs_diff_std": float(np.sqrt(mean((probs - average) ** 2) * probs.size / max(probs.size - 1, 1))),
        **dict.fromkeys(("k3_kl", "gen_kl_error", "mismatch_kl"), k3),
        "bit_wise/logprob_diff/max": float(d.max()),
    }


def trained(outcome: Outcome, reference: Outcome) -> Trained:
    """Return what a cell trained."""
    first = _first_place(reference, outcome)
    with np.load(reference.weights_file) as a, np.load(outcome.weights_file) as b:
        difference = max(_relative(a[name], b[name]) for name in sorted(a.files))
    return Trained(
        steps=len(outcome.steps),
        weights_sha256=outcome.weights_sha256,
        equal=first is None and outcome.weights_sha256 == reference.weights_sha256,
        first=first,
        weight_difference=difference,
    )


def _both(own: Completions) -> tuple[Floats, Floats]:
    q, p = zip(*((q, p) for one in own for q, p in zip(one.logprobs, one.scored, strict=True)), strict=True)
    return np.array(q, np.float32), np.array(p, np.float32)


def _distances(q: Floats, p: Floats) -> Mapping[str, Any]:
    d = q.astype(np.float64) - p.astype(np.float64)
    if not d.size:
        return {"tokens": 0, **dict.fromkeys(("unequal_bits", "max_difference", "mean_difference", "kl_k3"))}
    return {
        "tokens": int(d.size),
        "unequal_bits": float(np.mean(q.view(np.uint32) != np.ascontiguousarray(p).view(np.uint32))),
        "max_difference": float(np.abs(d).max()),
        "mean_difference": mean(np.abs(d)),
        "kl_k3": mean(kl.k3(d)),
    }


def _avg_std(spread: Completions) -> float | None:
    """Over the positions before the first at which any two of them differ; None: they differ at once."""
    tokens = np.array([one.tokens for one in spread])
    top = np.array([one.top_logprobs for one in spread], np.float64)[:, : _first_difference(tokens == tokens[0])]
    if not top.size:
        return None
    probs = exp(top)
    return mean((probs - probs[0]).std(axis=0))  # less the first: equal ones give exactly 0


def _first_difference(equal: NDArray[np.bool_]) -> int | None:
    columns = np.flatnonzero(~equal.all(axis=0))
    return int(columns[0]) if columns.size else None


def _first_place(reference: Outcome, own: Outcome) -> Place | None:
    for step, both in enumerate(zip(reference.steps, own.steps, strict=True)):
        for phase, marks in zip((Phase.GRADIENT, Phase.OPTIMIZER), zip(*both, strict=True), strict=True):
            found = unequal_tensors(0, *({name: asdict(mark) for name, mark in one.items()} for one in marks))
            if found is not None:
                return Place(step, phase, found.tensor, found.size, found.tensors, found.of_tensors)
    return None


def _relative(a: Floats, b: Floats) -> float:
    distance, norm = (float(np.linalg.norm(x.astype(np.float64))) for x in (a - b, a))
    return distance / norm if norm else distance
