"""What `moe/wander` found, as `wander.json` and the page tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tinsmith.studies.moe.settings import Dtype, Engine

WANDER_JSON: Final = "wander.json"
WANDER_PAGE: Final = "wander.html"
WANDER_MARKDOWN: Final = "wander.md"


class Way(StrEnum):
    """How texts are computed."""

    FORWARD = "forward"
    """Whole, as a trainer does."""
    DECODE = "decode"
    """Token by token over a cache, as a sampler does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One way of computing the texts, beside another."""

    tokens: int
    """Whose routes are compared: all but the last of each text."""
    changed_routes: int
    """Tokens that take another expert in some layer."""
    low: float
    """Of the share of changed routes, a 95 % interval; texts are the unit."""
    high: float
    texts: int
    changed_texts: int
    """With a changed route in any token."""
    unequal_bits: float
    """Share of the completions' tokens whose log-probability is another float."""
    max_logprob_difference: float
    """Nats."""
    mean_logprob_difference: float

    @property
    def share(self) -> float:
        """Of tokens with changed routes."""
        return self.changed_routes / self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One arithmetic, way and batch, beside the same arithmetic's forward pass of each text by itself."""

    engine: Engine
    dtype: Dtype
    way: Way
    batch: int
    compared: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """One arithmetic's forward pass of each text by itself, beside canonical fp32's."""

    engine: Engine
    dtype: Dtype
    compared: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """Greedy texts of a batch, beside the same prompts' by themselves."""

    engine: Engine
    dtype: Dtype
    batch: int
    texts: int
    parted: int
    """That differ somewhere."""
    first: tuple[int, ...]
    """Of those, the first position that differs, ascending; from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRatios:
    """One RL step on policy: sampled in a batch by decoding, trained on whole texts by the same arithmetic."""

    engine: Engine
    dtype: Dtype
    batch: int
    tokens: int
    unequal_routes: int
    """Tokens that the trainer routes otherwise than the sampler did."""
    not_one: float
    """Share of importance ratios that are not exactly 1."""
    least_ratio: float
    largest_ratio: float
    clipped: Mapping[str, float]
    """By loss, the share of tokens whose ratio its thresholds clip."""
    angles: Mapping[str, float]
    """By loss, degrees between the gradient and that with all ratios 1, both by canonical arithmetic."""
    whole_angle: float | None
    """Degrees between the gradient of importance sampling as this arithmetic computes all of it, and canonical's with
    all ratios 1; None: it was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wander:
    """The whole study."""

    model: str
    fingerprint: str
    settings: Mapping[str, object]
    machine: Mapping[str, str]
    rows: tuple[Row, ...]
    distances: tuple[Distance, ...]
    greedy: tuple[Greedy, ...]
    steps: tuple[StepRatios, ...]


def wander_json(done: Wander) -> dict[str, object]:
    """Return the study as values of JSON: a row for each arithmetic, way and batch."""
    return {
        "ok": not any(_moved(row.compared) for row in done.rows if row.engine is Engine.CANONICAL),
        "model": done.model,
        "fingerprint": done.fingerprint,
        "settings": dict(done.settings),
        "machine": dict(done.machine),
        "rows": [
            {
                "arithmetic": row.engine.value,
                "dtype": row.dtype.value,
                "way": row.way.value,
                "batch": row.batch,
                **_told(row.compared),
            }
            for row in done.rows
        ],
        "from_canonical": [
            {"arithmetic": one.engine.value, "dtype": one.dtype.value, **_told(one.compared)} for one in done.distances
        ],
        "greedy": [
            {
                "arithmetic": one.engine.value,
                "dtype": one.dtype.value,
                "batch": one.batch,
                "texts": one.texts,
                "parted": one.parted,
                "first": list(one.first),
            }
            for one in done.greedy
        ],
        "rl_step": [
            {
                "arithmetic": one.engine.value,
                "dtype": one.dtype.value,
                "batch": one.batch,
                "tokens": one.tokens,
                "unequal_routes": one.unequal_routes,
                "ratios_not_one": one.not_one,
                "least_ratio": one.least_ratio,
                "largest_ratio": one.largest_ratio,
                "clipped": dict(one.clipped),
                "angle_degrees": dict(one.angles),
                "whole_angle_degrees": one.whole_angle,
            }
            for one in done.steps
        ],
    }


def _told(compared: Compared) -> dict[str, object]:
    return {
        "changed_routes": compared.changed_routes,
        "tokens": compared.tokens,
        "share": compared.share,
        "interval": [compared.low, compared.high],
        "changed_texts": compared.changed_texts,
        "texts": compared.texts,
        "unequal_logprob_bits": compared.unequal_bits,
        "max_logprob_difference": compared.max_logprob_difference,
        "mean_logprob_difference": compared.mean_logprob_difference,
    }


def _moved(compared: Compared) -> bool:
    return compared.changed_routes > 0 or compared.unequal_bits > 0.0


def wander_story(done: Wander) -> tuple[str, ...]:
    """Return what may be said, in plain words."""
    own = [row for row in done.rows if row.engine is Engine.CANONICAL]
    said: list[str] = []
    if own:
        moved = [row for row in own if _moved(row.compared)]
        tokens = sum(row.compared.tokens for row in own)
        said.append(
            f"Canonical: {sum(row.compared.changed_routes for row in own)} of {tokens:,} routed tokens take another "
            f"expert in any of {len(own)} batches, forward or decoding; "
            + ("every log-probability has the same bits." if not moved else "SOMETHING MOVED.")
        )
    for engine, dtype in dict.fromkeys((row.engine, row.dtype) for row in done.rows):
        if engine is Engine.CANONICAL:
            continue
        rows = [row for row in done.rows if (row.engine, row.dtype) == (engine, dtype)]
        worst = max(rows, key=lambda row: (row.compared.share, row.compared.tokens))
        moved = max(row.compared.max_logprob_difference for row in rows)
        said.append(f"{engine} {dtype}: {_of_routes(worst)}; log-probabilities move by up to {moved:.2g} nats.")
    said += [_of_step(one) for one in _worst_steps(done)]
    return tuple(said)


def _of_routes(worst: Row) -> str:
    c = worst.compared
    if c.changed_routes == 0:
        return f"no route of {c.tokens:,} tokens changes in any batch (at most {100 * c.high:.2g} %)"
    how = f"{worst.batch} at once" if worst.batch > 1 else "by itself over a cache"
    return (
        f"{c.changed_routes} of {c.tokens:,} tokens ({100 * c.share:.2f} %, {100 * c.low:.2f} to {100 * c.high:.2f}) "
        f"take another expert when a text is computed {how} ({worst.way}) instead of by itself, whole"
    )


def _worst_steps(done: Wander) -> list[StepRatios]:
    found: dict[tuple[Engine, Dtype], StepRatios] = {}
    for one in done.steps:
        key = (one.engine, one.dtype)
        if key not in found or max(one.angles.values()) > max(found[key].angles.values()):
            found[key] = one
    return list(found.values())


def _of_step(one: StepRatios) -> str:
    name = f"One RL step, {one.engine} {one.dtype}, sampled {one.batch} at once"
    if one.not_one == 0.0 and one.unequal_routes == 0:
        return f"{name}: every importance ratio is exactly 1, every route the trainer's."
    angles = ", ".join(f"{loss} {angle:.2g}" for loss, angle in one.angles.items())
    whole = (
        ""
        if one.whole_angle is None
        else f"; computed by that arithmetic throughout, the gradient turns by {one.whole_angle:.2g}"
    )
    return (
        f"{name}: {one.unequal_routes} of {one.tokens:,} tokens are trained through other experts than they were drawn "
        f"from; ratios lie in {one.least_ratio:.3g} to {one.largest_ratio:.3g}, PPO clips "
        f"{100 * one.clipped.get('ppo', 0.0):.2g} %; the ratios alone turn the gradient by (degrees) {angles}{whole}."
    )
