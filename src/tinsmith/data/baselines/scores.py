"""Novelty and conventionality scores from z: the source notes' sigmoid rule, and ranks within a year."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.schema import METRIC_COLUMNS

CLAMP = 8.0
"""Bound on z, which the source notes clamp to [-8, 8] before the sigmoid."""


def legacy_score(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sigmoid(clamp(z, -8, 8)), unrounded, NaN for NaN; (N,). Novelty takes -z_p10, conventionality z_median.

    >>> legacy_score(np.array([0.0, 5.0, -20.0])).round(4).tolist()
    [0.5, 0.9933, 0.0003]
    """
    clamped = np.clip(z, -CLAMP, CLAMP)
    small = _exp_of_minus(np.abs(clamped))
    return np.where(clamped < 0, small, 1.0) / (1.0 + small)


def score_frame(years: NDArray[np.int32], z_median: NDArray[np.float64], z_p10: NDArray[np.float64]) -> pl.DataFrame:
    """Return the score columns of METRIC_COLUMNS for N papers; null if z is NaN."""
    columns = {
        "novelty_score": legacy_score(-z_p10),
        "conventionality_score": legacy_score(z_median),
        "novelty_percentile": year_percentile(years, -z_p10),
        "conventionality_percentile": year_percentile(years, z_median),
    }
    schema = {name: METRIC_COLUMNS[name] for name in columns}
    return pl.DataFrame(columns, schema=schema, nan_to_null=True)


def year_percentile(years: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank `values` (N,) among those of the same year, from 0 (lowest) to 1 (highest); NaN for NaN.

    Ties share the mean of their ranks; a value that is alone in its year gets 0.5.
    """
    frame = pl.DataFrame({"year": years, "value": pl.Series(values, nan_to_null=True)})
    rank = pl.col("value").rank("average").over("year")
    others = pl.col("value").count().over("year") - 1
    share = pl.when(others > 0).then((rank - 1.0) / others).otherwise(0.5)
    chosen = pl.when(pl.col("value").is_not_null()).then(share)
    return frame.select(chosen.fill_null(np.nan).alias("share"))["share"].to_numpy()


def _exp_of_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute exp(-x) for x in [0, 8], within 2 ulp, from exact steps: numpy's own exp differs between processors."""
    halvings = np.rint(x * 1.4426950408889634)
    # ln 2 in two parts, the first with few enough bits that the product is exact.
    r = halvings * 0.6931471803691238 - x + halvings * 1.9082149292705877e-10
    power = np.ones_like(r)
    for n in range(15, 0, -1):
        power = 1.0 + power * r / n
    return np.ldexp(power, -np.nan_to_num(halvings).astype(np.int32))
