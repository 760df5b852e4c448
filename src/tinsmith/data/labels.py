"""Thresholds between numbers and labels: disruption from the CD index, novelty from two scores.

An undefined number has no label; it is never neutral or balanced. Novelty is undefined where chance cannot vary it. A
CD index that is 1 only because the paper has no reference in the corpus has no label either, unless requested.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

SEED_CUT = 0.001
"""Cut of the source notes on the CD index, for corpora of millions; small worlds need a larger one."""
NOVELTY_MARGIN = 0.15
"""Margin of the source notes between the novelty and the conventionality score."""
LEGACY_DECIMALS = 4
UNDEFINED = -1
"""Code of a row without a label."""


class Disruption(enum.StrEnum):
    """Use of a paper by later ones: in place of its references, or together with them."""

    DISRUPTIVE = "disruptive"
    CONSOLIDATING = "consolidating"
    NEUTRAL = "neutral"


class Novelty(enum.StrEnum):
    """Atypicality class of a paper's pairs of cited journals."""

    NOVEL = "novel"
    BALANCED = "balanced"
    CONVENTIONAL = "conventional"


class LabelMode(enum.StrEnum):
    """Treatment of numbers that equal a threshold."""

    INCLUSIVE = "inclusive"  # unrounded, >= and <=
    STRICT = "strict"  # unrounded, > and <
    LEGACY = "legacy"  # rounded to four decimals, then > and <: the source notes' code


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Rules that convert metrics to labels.

    Raises:
        ConfigError: the cut or the margin is not a positive finite number.
    """

    cut: float
    mode: LabelMode = LabelMode.INCLUSIVE
    margin: float = NOVELTY_MARGIN
    keep_no_refs: bool = False

    def __post_init__(self) -> None:
        for field, value, fix in (
            ("cut", self.cut, "usual is 0.001; a world of 2,000 papers needs about 0.02"),
            ("margin", self.margin, f"usual is {NOVELTY_MARGIN}"),
        ):
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(
                    f"the {field} must be above zero", field=field, value=value, allowed="a positive number", fix=fix
                )

    def disruption(self, cd: float | None, status: CdStatus) -> Disruption | None:
        """Label one paper; `status` is the evidence for its CD index."""
        if status is CdStatus.EMPTY or (status is CdStatus.NO_REFS and not self.keep_no_refs):
            return None
        return disruption_label(cd, self.cut, self.mode)

    def novelty(self, novelty: float | None, conventionality: float | None) -> Novelty | None:
        """Label one paper from its two scores in [0, 1]."""
        return novelty_label(novelty, conventionality, self.margin, self.mode)

    def disruption_codes(self, cd: NDArray[np.float64], status: pl.Series) -> NDArray[np.int8]:
        """Label n papers: `cd` (n,) with NaN for undefined, `status` (n,); see `disruption_codes`."""
        hidden = [CdStatus.EMPTY.value]
        if not self.keep_no_refs:
            hidden.append(CdStatus.NO_REFS.value)
        unlabelled = status.is_in(hidden).fill_null(True).to_numpy()
        codes = disruption_codes(cd, self.cut, self.mode)
        codes[unlabelled] = UNDEFINED
        return codes

    def novelty_codes(self, novelty: NDArray[np.float64], conventionality: NDArray[np.float64]) -> NDArray[np.int8]:
        """Label n papers from their two scores, each (n,); see `novelty_codes`."""
        return novelty_codes(novelty, conventionality, self.margin, self.mode)

    def sentences(self) -> tuple[str, str]:
        """Describe both rules in words, for cards and the terminal."""
        above, below = (">=", "<=") if self.mode is LabelMode.INCLUSIVE else (">", "<")
        rounded = "rounded to 4 decimals, " if self.mode is LabelMode.LEGACY else ""
        note = "" if self.keep_no_refs else "; papers without a reference have no label"
        return (
            f"{rounded}disruptive: cd {above} {self.cut:g}, consolidating: cd {below} -{self.cut:g}, "
            f"else neutral{note}",
            f"{rounded}novel: novelty - conventionality {above} {self.margin:g}, "
            f"conventional: {below} -{self.margin:g}, else balanced",
        )


def disruption_label(cd: float | None, cut: float, mode: LabelMode = LabelMode.INCLUSIVE) -> Disruption | None:
    """Label one CD index; None if it is undefined (None or NaN).

    >>> disruption_label(0.001, 0.001), disruption_label(-0.0009999, 0.001)
    (<Disruption.DISRUPTIVE: 'disruptive'>, <Disruption.NEUTRAL: 'neutral'>)
    """
    if cd is None or math.isnan(cd):
        return None
    side = _side(round(cd, LEGACY_DECIMALS) if mode is LabelMode.LEGACY else cd, cut, mode)
    return (Disruption.NEUTRAL, Disruption.DISRUPTIVE, Disruption.CONSOLIDATING)[side]


def novelty_label(
    novelty: float | None,
    conventionality: float | None,
    margin: float = NOVELTY_MARGIN,
    mode: LabelMode = LabelMode.INCLUSIVE,
) -> Novelty | None:
    """Label one paper by the difference of its scores, as the source notes' data set does.

    "balanced" includes more than the middle: a paper high on both (Uzzi's corner of high impact) is balanced.
    """
    if novelty is None or conventionality is None:
        return None
    if math.isnan(novelty) or math.isnan(conventionality):
        return None
    if mode is LabelMode.LEGACY:
        novelty = round(novelty, LEGACY_DECIMALS)
        conventionality = round(conventionality, LEGACY_DECIMALS)
    side = _side(novelty - conventionality, margin, mode)
    return (Novelty.BALANCED, Novelty.NOVEL, Novelty.CONVENTIONAL)[side]


def _side(value: float, cut: float, mode: LabelMode) -> int:
    """Return 1 above the cut, -1 below its negative, else 0."""
    if mode is LabelMode.INCLUSIVE:
        return int(value >= cut) - int(value <= -cut)
    return int(value > cut) - int(value < -cut)


def disruption_codes(cd: NDArray[np.float64], cut: float, mode: LabelMode = LabelMode.INCLUSIVE) -> NDArray[np.int8]:
    """Label n CD indices (n,): positions in `tuple(Disruption)`, UNDEFINED if `cd` is NaN."""
    values = legacy_rounded(cd) if mode is LabelMode.LEGACY else cd
    return _codes(values, cut, mode, tuple(Disruption).index(Disruption.NEUTRAL))


def novelty_codes(
    novelty: NDArray[np.float64],
    conventionality: NDArray[np.float64],
    margin: float = NOVELTY_MARGIN,
    mode: LabelMode = LabelMode.INCLUSIVE,
) -> NDArray[np.int8]:
    """Label n pairs of scores (n,): positions in `tuple(Novelty)`, UNDEFINED if either is NaN."""
    if mode is LabelMode.LEGACY:
        novelty, conventionality = legacy_rounded(novelty), legacy_rounded(conventionality)
    return _codes(novelty - conventionality, margin, mode, tuple(Novelty).index(Novelty.BALANCED))


def _codes(values: NDArray[np.float64], cut: float, mode: LabelMode, middle: int) -> NDArray[np.int8]:
    # Both enums name the upper side first; the lower side has the remaining position.
    lower = 3 - middle
    inclusive = mode is LabelMode.INCLUSIVE
    codes = np.full(values.shape, middle, np.int8)
    codes[values >= cut if inclusive else values > cut] = 0
    codes[values <= -cut if inclusive else values < -cut] = lower
    codes[np.isnan(values)] = UNDEFINED
    return codes


def legacy_rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to four decimals as Python does, exactly; numpy's own rounding errs at ties."""
    rounded = (round(value, LEGACY_DECIMALS) for value in values.tolist())
    return np.fromiter(rounded, np.float64, len(values))
